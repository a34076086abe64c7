"""When the next message is due. Compiled.

A producer that fell behind catches up, so that the average holds; but never more than one second's worth: after a long
stall the missed messages are given up, not thrown at the broker all at once.
"""

from __future__ import annotations

from typing import Final

SECOND: Final = 1_000_000_000


class Pacer:
    """A steady rate, in messages a second, from `start` (nanoseconds) on."""

    def __init__(self, rate: float, start: int) -> None:
        assert rate > 0
        self.rate: float = rate
        self.start: int = start
        self.done: int = 0

    def due(self, now: int) -> int:
        """How many messages may go now."""
        due = int((now - self.start) * self.rate / SECOND) - self.done
        most = max(1, int(self.rate))
        if due > most:
            self.start += int((due - most) * SECOND / self.rate)
            return most
        return max(due, 0)

    def took(self, count: int) -> None:
        """`count` messages went."""
        self.done += count

    def wait(self, now: int) -> float:
        """Seconds until one more message is due."""
        at = self.start + int((self.done + 1) * SECOND / self.rate)
        return max(at - now, 0) / SECOND
