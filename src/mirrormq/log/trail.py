"""A fold that trails: the state of a mirror's log, folded batch by batch or when it is needed. Compiled.

It gives snapshots of what it has folded, and, when the mirror takes over, the state as recovery would find it. A mirror folds
no further than what is stable: a snapshot of more could not be cut.
"""

from __future__ import annotations

from typing import Final

from mirrormq.log.chunk import decode_chunk
from mirrormq.log.entries import TRANSIENT, Entry
from mirrormq.log.fold import RecoveredQueue, add_index
from mirrormq.log.lives import read_chunks
from mirrormq.log.slices import sliced
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store

READ_BYTES: Final = 1024 * 1024


class Trail:
    """`next_index` is the first index that is not folded yet."""

    __slots__ = ("_state",)

    def __init__(self, state: RecoveredQueue) -> None:
        self._state: RecoveredQueue = state
        state.resume()
        state.keeps_transient = True

    @property
    def next_index(self) -> int:
        return self._state.next_index

    @property
    def state(self) -> RecoveredQueue:
        """To look at: count, bytes, reserved, publishers."""
        return self._state

    def fold(self, chunk: bytes) -> None:
        """The next chunk, whole and sound."""
        self._state.fold(chunk, decode_chunk(chunk, 0))

    def catch_up(self, store: Store, upto: int) -> bool:
        """Fold from the log up to index `upto`; False where it has not got that. Raises QueueDamaged."""
        state = self._state
        while state.next_index <= upto:
            found = read_chunks(store, state.queue_id, state.next_index, READ_BYTES)
            if not found:
                return False
            for data in found:
                if state.next_index <= upto:
                    self.fold(sliced(data, state.next_index, upto + 1))
        return True

    def snapshot(self) -> Snapshot:
        return self._state.snapshot()

    def recovered(self) -> RecoveredQueue:
        """The state to serve from, as recovery would hand it out, but with transient messages live; the trail ends with it."""
        self._state.settle()
        return self._state


def trail_from(queue_id: int, snapshot: Snapshot | None) -> Trail:
    """A trail that starts at a snapshot; without one, at an empty log."""
    state = RecoveredQueue(queue_id)
    if snapshot is not None:
        state.start_from(snapshot)
    return Trail(state)


def recount(store: Store, state: RecoveredQueue) -> list[int]:
    """Count what is there: transient messages that a snapshot told of, and what is left of a log that was never whole, whose
    entries end messages that it never had. Returns flat ranges of what the state calls live and the log does not have."""
    state.count = state.bytes = state.light = 0
    state.transients = {}
    missing: list[int] = []
    live = state.live_in(1, state.next_index - 1)
    for pair in range(0, len(live), 2):
        at = live[pair]
        last = live[pair + 1]
        while at <= last:
            entries = store.read(state.queue_id, at, READ_BYTES)
            for entry in entries:
                if entry.index > last:
                    break
                if entry.index > at:
                    add_index(missing, at, entry.index - 1)
                _count(state, entry)
                at = entry.index + 1
            if at <= last and (not entries or entries[-1].index > last):
                add_index(missing, at, last)
                at = last + 1
    return missing


def _count(state: RecoveredQueue, entry: Entry) -> None:
    if entry.flags & TRANSIENT:
        state.transients[entry.index] = entry.size
    else:
        state.count += 1
        state.bytes += entry.size
