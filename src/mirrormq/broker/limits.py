"""Limits of virtual hosts (connections, queues), of users (connections, channels), and of the whole node or cluster.

A limit is a number, for virtual hosts and users in a table; absent or negative, there is none; zero lets nothing in.
The counts are the caller's, taken before the thing that asks to be let in is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirrormq.broker.arguments import term
from mirrormq.wire.errors import NotAllowed, PreconditionFailed

VHOST_LIMITS: Final = ("max-connections", "max-queues")
USER_LIMITS: Final = ("max-connections", "max-channels")


class LimitFault(ValueError):
    """Not a table of limits, or a limit is reached."""


def validate_vhost_limits(definition: object) -> dict[str, int]:
    return _validate(definition, VHOST_LIMITS, "limits")


def validate_user_limits(definition: object) -> dict[str, int]:
    return _validate(definition, USER_LIMITS, "user-limits")


def _validate(definition: object, names: tuple[str, ...], title: str) -> dict[str, int]:
    if not isinstance(definition, dict):
        raise LimitFault(f"{title} not a list {term(definition, 'null')}")
    unknown = [f"{{{term(key)},{term(value, 'null')}}}" for key, value in definition.items() if key not in names]
    if unknown:
        raise LimitFault(f"Unrecognised terms [{','.join(unknown)}] in {title}")
    limits: dict[str, int] = {}
    for name, value in definition.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise LimitFault(f"{name} should be a number, actually was {term(value, 'null')}")
        limits[name] = value
    return limits


def is_over(limits: Mapping[str, int], name: str, count: int) -> bool:
    """Whether one more than `count` would be too many."""
    limit = limits.get(name, -1)
    return 0 <= limit <= count


def check_vhost_connections(limits: Mapping[str, int], vhost: str, user: str, count: int) -> None:
    if is_over(limits, "max-connections", count):
        limit = limits["max-connections"]
        raise NotAllowed(f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached")


def check_queue_count(limits: Mapping[str, int], vhost: str, queue: str, count: int) -> None:
    if is_over(limits, "max-queues", count):
        limit = limits["max-queues"]
        raise PreconditionFailed(f"cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is reached")


def check_user_connections(limits: Mapping[str, int], user: str, count: int) -> None:
    if is_over(limits, "max-connections", count):
        limit = limits["max-connections"]
        raise NotAllowed(f"connection refused for user '{user}': user connection limit ({limit}) is reached")


def check_user_channels(limits: Mapping[str, int], user: str, count: int) -> None:
    if is_over(limits, "max-channels", count):
        limit = limits["max-channels"]
        raise NotAllowed(
            f"number of channels opened for user '{user}' has reached the maximum allowed user limit of ({limit})"
        )


def check_all_channels(limit: int, node: str, count: int) -> None:
    if 0 <= limit <= count:
        raise NotAllowed(f"number of channels opened on node '{node}' has reached the maximum allowed limit of ({limit})")


def check_consumers(limit: int, count: int) -> None:
    if 0 <= limit <= count:
        raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")


def check_all_queues(limit: int, queue: str, count: int) -> None:
    if 0 <= limit <= count:
        raise PreconditionFailed(f"cannot declare queue '{queue}': queue limit in cluster ({limit}) is reached")


def check_vhosts(limit: int, vhost: str, count: int) -> None:
    """LimitFault: virtual hosts are not made through AMQP."""
    if 0 <= limit <= count:
        raise LimitFault(f"cannot create vhost '{vhost}': vhost limit of {limit} is reached")
