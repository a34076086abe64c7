"""Who may log in, and who may do what.

A user has one permission per virtual host: three patterns (configure, write, read) searched in the name of the queue or
exchange. No permission, no entry to the virtual host. An empty pattern matches the empty name only. The default
exchange goes by the name `amq.default`.
Topic permissions add patterns for routing keys on one topic exchange; where there is none, every key is allowed.
Answers are kept until a user or permission changes; clients choose the names, so what is kept is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final

from mirrormq.broker.passwords import SHA256, check_password
from mirrormq.broker.policy import compile_pattern
from mirrormq.wire.errors import AccessRefused, NotAllowed

_KEPT_ANSWERS: Final = 16_384
_NO_ONE: Final = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


class LoginRefused(Exception):
    """Refused; the text is for the log, not for the client, who learns only that it was refused."""


class User:
    """`password_hash` is empty for a user who cannot log in with a password; `limits` as `limits` checks them. `is_operator` for
    the command line on the node's own machine, which needs no permissions."""

    def __init__(
        self, name: str, password_hash: str = "", hashing_algorithm: str = SHA256,
        tags: tuple[str, ...] = (), limits: dict[str, int] | None = None, *, is_operator: bool = False,
    ) -> None:  # fmt: skip
        self.is_operator: bool = is_operator
        self.name: str = name
        self.password_hash: str = password_hash
        self.hashing_algorithm: str = hashing_algorithm
        self.tags: tuple[str, ...] = tags
        self.limits: dict[str, int] = {} if limits is None else limits


class Permission:
    """Patterns by operation. PatternError if one is no regular expression."""

    def __init__(self, configure: str, write: str, read: str) -> None:
        self.configure: str = configure
        self.write: str = write
        self.read: str = read
        self._matchers: dict[str, re.Pattern[str]] = {
            "configure": _matcher(configure), "write": _matcher(write), "read": _matcher(read),
        }  # fmt: skip

    def allows(self, operation: str, name: str) -> bool:
        return self._matchers[operation].search(name) is not None


class TopicPermission:
    """Patterns for routing keys, in which `{username}`, `{vhost}` and variables of the connection stand for values."""

    def __init__(self, write: str, read: str) -> None:
        self.write: str = write
        self.read: str = read
        _matcher(write)
        _matcher(read)

    def allows(self, operation: str, routing_key: str, variables: Mapping[str, str]) -> bool:
        pattern = self.write if operation == "write" else self.read
        for name, value in variables.items():
            pattern = pattern.replace(f"{{{name}}}", re.escape(value))
        return _matcher(pattern).search(routing_key) is not None


def _matcher(pattern: str) -> re.Pattern[str]:
    return compile_pattern(pattern or "^$")


def is_loopback(address: str) -> bool:
    try:
        peer = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = peer.ipv4_mapped if isinstance(peer, IPv6Address) else None
    return (peer if mapped is None else mapped).is_loopback


class Authority:
    """Users, permissions and topic permissions, and the decisions that follow from them."""

    def __init__(self, loopback_users: tuple[str, ...] = ("guest",)) -> None:
        self.loopback_users: tuple[str, ...] = loopback_users
        self.users: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        self._answers: dict[tuple[str, str, str, str, str], bool] = {}
        self._topic_answers: dict[tuple[str, str, str, str, str], bool] = {}

    # Changing

    def put_user(self, user: User) -> None:
        self.users[user.name] = user

    def delete_user(self, name: str) -> bool:
        """With all its permissions."""
        for key in [key for key in self.permissions if key[0] == name]:
            del self.permissions[key]
        self._drop_topics([key for key in self.topic_permissions if key[0] == name])
        return self.users.pop(name, None) is not None

    def set_permission(self, user: str, vhost: str, permission: Permission) -> None:
        self.permissions[user, vhost] = permission
        self._forget()

    def clear_permission(self, user: str, vhost: str) -> bool:
        self._forget()
        return self.permissions.pop((user, vhost), None) is not None

    def set_topic_permission(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
        self.topic_permissions[user, vhost, exchange] = permission
        self._forget()

    def clear_topic_permissions(self, user: str, vhost: str, exchange: str | None = None) -> int:
        """On one exchange, or on all of them."""
        keys = [
            key for key in self.topic_permissions
            if key[0] == user and key[1] == vhost and (exchange is None or key[2] == exchange)
        ]  # fmt: skip
        return self._drop_topics(keys)

    def delete_vhost(self, vhost: str) -> None:
        for key in [key for key in self.permissions if key[1] == vhost]:
            del self.permissions[key]
        self._drop_topics([key for key in self.topic_permissions if key[1] == vhost])

    def _drop_topics(self, keys: list[tuple[str, str, str]]) -> int:
        for key in keys:
            del self.topic_permissions[key]
        self._forget()
        return len(keys)

    def _forget(self) -> None:
        self._answers.clear()
        self._topic_answers.clear()

    # Logging in

    def authenticate(self, name: str, password: str) -> User:
        """LoginRefused unless user and password fit. An unknown name takes as long as a wrong password."""
        if not password:
            raise LoginRefused(
                f"user '{name}' attempted to log in with a blank password, which is prohibited; to log in with a TLS"
                " certificate use the EXTERNAL mechanism, or give the user a password"
            )
        user = self.users.get(name)
        if user is None:
            check_password(password, _NO_ONE)
            raise LoginRefused(f"user '{name}' - invalid credentials")
        if not check_password(password, user.password_hash, user.hashing_algorithm):
            raise LoginRefused(f"user '{name}' - invalid credentials")
        return user

    def authenticate_external(self, name: str) -> User:
        """For a name that a certificate has proved."""
        if name not in self.users:
            raise LoginRefused(f"user '{name}' - invalid credentials")
        return self.users[name]

    def check_origin(self, name: str, address: str) -> None:
        if name in self.loopback_users and not is_loopback(address):
            raise LoginRefused(f"user '{name}' can only connect via localhost")

    # Deciding

    def vhost_allowed(self, user: str, vhost: str) -> bool:
        return (user, vhost) in self.permissions

    def check_vhost(self, user: str, vhost: str) -> None:
        if not self.vhost_allowed(user, vhost):
            raise NotAllowed(f"access to vhost '{vhost}' refused for user '{user}'")

    def allowed(self, user: str, vhost: str, kind: str, name: str, operation: str) -> bool:
        key = (user, vhost, kind, name, operation)
        answer = self._answers.get(key)
        if answer is None:
            permission = self.permissions.get((user, vhost))
            answer = permission is not None and permission.allows(operation, _known_as(kind, name))
            _keep(self._answers, key, answer=answer)
        return answer

    def check(self, user: str, vhost: str, kind: str, name: str, operation: str) -> None:
        """AccessRefused unless the user may configure, write or read the queue or exchange."""
        if not self.allowed(user, vhost, kind, name, operation):
            raise AccessRefused(
                f"{operation} access to {kind} '{_known_as(kind, name)}' in vhost '{vhost}' refused for user '{user}'"
            )

    def check_topic(
        self, user: str, vhost: str, exchange: str, routing_key: str, operation: str,
        variables: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """For topic exchanges, beside `check`. `variables` are of the connection, such as `client_id`."""
        permission = self.topic_permissions.get((user, vhost, exchange))
        if permission is None:
            return
        values = {"username": user, "vhost": vhost, **(variables or {})}
        key = (user, vhost, exchange, routing_key, operation)
        answer = self._topic_answers.get(key) if variables is None else None
        if answer is None:
            answer = permission.allows(operation, routing_key, values)
            if variables is None:
                _keep(self._topic_answers, key, answer=answer)
        if not answer:
            raise AccessRefused(
                f"{operation} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' refused for"
                f" user '{user}'"
            )


def _known_as(kind: str, name: str) -> str:
    return "amq.default" if kind == "exchange" and name == "" else name


def _keep(
    answers: dict[tuple[str, str, str, str, str], bool], key: tuple[str, str, str, str, str], *, answer: bool
) -> None:
    if len(answers) >= _KEPT_ANSWERS:
        answers.clear()
    answers[key] = answer
