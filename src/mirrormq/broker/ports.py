"""What the broker asks of the outside: a log to append to and read from, and counters of time. Tests put memory behind it."""
from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from mirrormq.log.entries import Entry


@mypyc_attr(allow_interpreted_subclasses=True)
class LogPort:
    """The node's log as queues see it. Appending never waits; `position` says how far durability must come."""

    position: i64

    def __init__(self) -> None:
        self.position = 0

    def append(self, log_id: int, first_index: int, count: int, chunk: bytes, *, sync: bool) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        """Somebody waits for all that was appended before, also without `sync`."""
        raise NotImplementedError

    def read(self, log_id: int, index: int, max_bytes: int) -> list[Entry]:
        raise NotImplementedError

    def drop(self, log_id: int) -> None:
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RingPort:
    """The ring of a mirrored queue, as the queue sees it that leads there."""

    def append(self, first_index: int, count: int, chunk: bytes, *, waits: bool) -> None:
        """Into the log, and round the ring. waits: somebody waits only until it is received everywhere."""
        raise NotImplementedError

    def found_damage(self, why: str) -> None:
        """The log cannot be read: it is not to be relied on after a restart."""
        raise NotImplementedError
