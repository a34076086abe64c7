"""Publishers: which forwarded publishes a queue has already taken. Folded from the queue's log. Compiled.

A node that forwards publishes gives each publisher a number of its own and counts its messages from 1; both are kept in the log
with the message. After a failover the node sends again what was not answered, in order, and the new leader knows what it has.

`floor` is the oldest message that the publisher still waits for: all before it were answered. It matters only where a leader was
put in place that is not in sync: it may never have had them, and must not wait for them.
"""

from __future__ import annotations

from typing import Final

NEW: Final = 0
GAP: Final = -1


class Publishers:
    """For each publisher its newest message: (sequence, index)."""

    def __init__(self) -> None:
        self._newest: dict[bytes, tuple[int, int]] = {}

    def judge(self, publisher: bytes, sequence: int, floor: int) -> int:
        """NEW: take it. GAP: one before it is missing and comes again. Otherwise it is here: answer when that index is stable."""
        newest = self._newest.get(publisher)
        last = newest[0] if newest is not None else 0
        if sequence <= last:
            assert newest is not None
            return newest[1]
        return NEW if sequence == max(last + 1, floor) else GAP

    def note(self, publisher: bytes, sequence: int, index: int) -> None:
        """The log holds that message at that index."""
        self._newest[publisher] = (sequence, index)

    def forget(self, publisher: bytes) -> None:
        """It is gone for good: its node has said that nothing is outstanding, or has lost its lease."""
        self._newest.pop(publisher, None)

    def dump(self) -> list[tuple[bytes, int, int]]:
        return [(publisher, sequence, index) for publisher, (sequence, index) in self._newest.items()]

    def load(self, dumped: list[tuple[bytes, int, int]]) -> None:
        for publisher, sequence, index in dumped:
            if sequence > self._newest.get(publisher, (0, 0))[0]:
                self._newest[publisher] = (sequence, index)
