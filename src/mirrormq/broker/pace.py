"""How many indexes a queue reserves beyond what its consumers can take now. Compiled.

A reservation takes a sync of the disk, and a round in the ring. Where messages go fast, deliveries would wait for each; where
they go slowly, what is reserved and not delivered looks delivered after a failover. So the reservation reaches as far ahead as
messages go in a fifth of a second, and no further than about double the last one.
"""
from __future__ import annotations

from typing import Final

from mypy_extensions import i64

MOST: Final = 8192
AHEAD_MS: Final = 200
UNBOUNDED: Final = 64           # for consumers without a prefetch, before anything is known of their rate


class Pace:
    def __init__(self) -> None:
        self.ahead: i64 = 0             # reserved beyond the room of the consumers
        self._gone: i64 = 0             # how many had gone at the last reservation
        self._at: i64 = 0

    def look(self, gone: i64, now: i64, *, is_reserving: bool) -> i64:
        """How far ahead to reserve, when `gone` messages have gone so far. The rate is that since the last reservation."""
        passed = now - self._at
        if passed < 1:
            passed = 1
        new = gone - self._gone
        if new < 0:
            new = 0
        ahead = new * AHEAD_MS // passed
        if ahead > 2 * self.ahead + new:
            ahead = 2 * self.ahead + new
        if ahead > MOST:
            ahead = MOST
        self.ahead = ahead
        if ahead or is_reserving:
            self._gone = gone
            self._at = now
        return ahead
