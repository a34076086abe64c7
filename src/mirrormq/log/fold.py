"""Folding a queue's entries into its state at recovery. Compiled.

Only what decides which messages are live is folded: everything else is the owner's. Transient messages are forgotten: they
count neither as gone nor as live, like indexes that are no messages. Both are `filler`: ranges of what is gone grow
together across it, and the cursor moves over it.
"""

from __future__ import annotations

from array import array

from mirrormq.log.chunk import Chunk
from mirrormq.log.entries import (
    ACK,
    CONFIG,
    CONFIG_SIZE,
    DROP,
    ENQUEUE,
    ENQUEUE_HEAD,
    RANGES,
    RESERVE,
    SKIP,
    TRANSIENT,
    entry_length,
    number_at,
    ranges_at,
)
from mirrormq.log.ranges import RangeSet
from mirrormq.log.snapshot import Snapshot


class RecoveredQueue:
    """A message is live if its index is in `live`, or is >= cursor and not in `gone`; if damage is set, nothing is served.

    `ended` is the highest index that an entry ended: no live message above it was delivered and acknowledged around.
    Readers skip transient messages with an index below next_index as it is here: they did not survive.
    """

    __slots__ = (
        "_ended", "bytes", "configs", "count", "cursor", "damage", "ended", "epoch", "extra", "gone", "live", "next_index",
        "queue_id", "reserved",
    )

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = queue_id
        self.epoch: int = 0
        self.next_index: int = 1
        self.cursor: int = 1
        self.live: array[int] = array("Q")
        self.gone: RangeSet = RangeSet()
        self._ended: RangeSet = RangeSet()
        self.ended: int = 0
        self.reserved: int = 0
        self.count: int = 0
        self.bytes: int = 0
        self.extra: bytes = b""
        self.configs: list[bytes] = []
        self.damage: str | None = None

    def start_from(self, snapshot: Snapshot) -> None:
        self.epoch = snapshot.epoch
        self.next_index = snapshot.next_index
        self.cursor = snapshot.cursor
        self.live = snapshot.live
        self.reserved = snapshot.reserved
        self.count = snapshot.count
        self.bytes = snapshot.bytes
        self.extra = snapshot.extra
        self.gone = RangeSet()
        self._ended = RangeSet()
        self.ended = 0
        self.configs = []

    def fold(self, data: bytes, chunk: Chunk) -> None:
        """One sound chunk; it must follow on what was folded before."""
        assert chunk.first_index == self.next_index
        at = chunk.payload
        end = at + chunk.length
        index = chunk.first_index
        while at < end:
            if data[at] == SKIP:
                skipped = number_at(data, at)
                self.gone.add(index, index + skipped - 1)
                index += skipped
            else:
                self._fold_entry(data, at, index)
                index += 1
            at += entry_length(data, at)
        self.next_index = chunk.next_index
        self.epoch = max(self.epoch, chunk.epoch)

    def _fold_entry(self, data: bytes, at: int, index: int) -> None:
        kind = data[at]
        if kind == ENQUEUE:
            if data[at + 1] & TRANSIENT:
                self.gone.add(index, index)
            else:
                self.count += 1
                size: int = ENQUEUE_HEAD.unpack_from(data, at)[3]
                self.bytes += size
            return
        self.gone.add(index, index)
        if kind == ACK or kind == DROP:
            self._fold_gone(data, at)
        elif kind == RESERVE:
            self.reserved = max(self.reserved, number_at(data, at))
        elif kind == CONFIG:
            self.configs.append(data[at + CONFIG_SIZE : at + entry_length(data, at)])

    def _fold_gone(self, data: bytes, at: int) -> None:
        _, _, _, _, count, size = RANGES.unpack_from(data, at)
        self.count -= count
        self.bytes -= size
        ranges = ranges_at(data, at)
        for pair in range(0, len(ranges), 2):
            self.gone.add(ranges[pair], ranges[pair + 1])
            self._ended.add(ranges[pair], ranges[pair + 1])
            self.ended = max(self.ended, ranges[pair + 1])

    def settle(self) -> None:
        """Bring what was folded into its plainest form: gone lies above cursor, live below it."""
        if self.gone and self.live:
            self.live = array("Q", [index for index in self.live if index not in self._ended])
        self.cursor = self.gone.take_from(self.cursor)
        self.gone = self.gone.around(self._ended)
        self._ended = RangeSet()
