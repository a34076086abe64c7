"""Who is calling, and what the caller's tags let them see.

Rules
 1. A caller is a user with name and password (HTTP basic), or a tool on this machine that holds the node's token
    (bearer).
 2. Tags nest: administrator is all of them; monitoring and policymaker are management too. Without one, no entry.
 3. An administrator may look into every virtual host; what is done in one (declare, bind, publish, get) needs
    permissions there.
 4. The token stands for an administrator without permissions of its own who may also declare, purge and delete queues:
    what the command line may do.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable
from typing import Final

from mirrormq.admin.attempts import Attempts
from mirrormq.admin.errors import ApiError, not_authorised
from mirrormq.broker.auth import Authority, LoginRefused, User
from mirrormq.broker.broker import Broker
from mirrormq.broker.vhost import VirtualHost

CHALLENGE: Final = {"www-authenticate": 'Basic realm="MirrorMQ Management"'}
LOCAL_NAME: Final = "mirrormqctl"
MANAGEMENT_TAGS: Final = frozenset(("administrator", "monitoring", "policymaker", "management"))


class Principal:
    """The caller. `is_local` for the holder of the node's token."""

    def __init__(self, user: User, authority: Authority, *, is_local: bool = False) -> None:
        self.user = user
        self.name = user.name
        self.is_local = is_local
        self._authority = authority
        tags = frozenset(user.tags)
        self.is_administrator = "administrator" in tags
        self.is_monitor = self.is_administrator or "monitoring" in tags
        self.is_policymaker = self.is_administrator or "policymaker" in tags
        self.is_management = not tags.isdisjoint(MANAGEMENT_TAGS)

    def may_enter(self, vhost: str) -> bool:
        return self.is_administrator or self._authority.vhost_allowed(self.name, vhost)

    def visible(self, vhosts: Iterable[VirtualHost]) -> list[VirtualHost]:
        return [vhost for vhost in vhosts if self.may_enter(vhost.name)]

    def require_management(self) -> None:
        if not self.is_management:
            raise not_authorised("Not management user")

    def require_monitor(self) -> None:
        self.require_management()
        if not self.is_monitor:
            raise not_authorised("Not monitor user")

    def require_policymaker(self, vhost: str = "") -> None:
        """Everywhere, or in a virtual host that the caller may enter."""
        self.require_management()
        if not self.is_policymaker or (vhost and not self.may_enter(vhost)):
            raise not_authorised("User not authorised to access object")

    def require_administrator(self) -> None:
        self.require_management()
        if not self.is_administrator:
            raise not_authorised("Not administrator user")

    def require_vhost(self, vhost: str) -> None:
        self.require_management()
        if not self.may_enter(vhost):
            raise not_authorised("User not authorised to access virtual host")

    def require_own(self, user: str) -> None:
        """For connections and channels: another user's are for monitors only."""
        if not self.is_monitor and user != self.name:
            raise not_authorised("User not authorised to access object")


class Gate:
    """Turns the Authorization header of a request into a principal."""

    def __init__(self, broker: Broker, token: str) -> None:
        self._broker = broker
        self._token = token
        self.attempts = Attempts()
        self.succeeded = 0
        self.failed = 0

    def identify(self, header: str | None, address: str) -> Principal:
        if header is None:
            raise ApiError(401, headers=CHALLENGE)
        scheme, _, value = header.partition(" ")
        try:
            principal = self._principal(scheme.lower(), value.strip(), address)
        except LoginRefused as refusal:
            self.failed += 1
            self._broker.host.report("warning", f"HTTP access denied: {refusal}")
            raise ApiError(401, "not_authorized", "Login failed", CHALLENGE) from None
        self.succeeded += 1
        return principal

    def _principal(self, scheme: str, value: str, address: str) -> Principal:
        authority = self._broker.authority
        if scheme == "bearer":
            return self._local(value)
        if scheme != "basic":
            raise LoginRefused(f"unknown authorization scheme '{scheme}'")
        name, password = _credentials(value)
        user = authority.authenticate(name, password)
        authority.check_origin(name, address)
        return Principal(user, authority)

    def _local(self, token: str) -> Principal:
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise LoginRefused("a wrong token")
        return Principal(User(LOCAL_NAME, tags=("administrator",)), self._broker.authority, is_local=True)


def is_token(header: str | None, token: str) -> bool:
    scheme, _, value = (header or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(value.strip().encode(), token.encode())


def claimed_name(header: str | None) -> str:
    """Who the caller says to be; empty where that cannot be told."""
    scheme, _, value = (header or "").partition(" ")
    try:
        return _credentials(value.strip())[0] if scheme.lower() == "basic" else ""
    except ApiError:
        return ""


def _credentials(value: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(value, validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        raise ApiError(400) from None
    name, colon, password = text.partition(":")
    if not colon:
        raise ApiError(400)
    return name, password
