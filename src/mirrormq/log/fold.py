"""Folding a queue's entries into its state at recovery. Compiled.

Only what decides which messages are live is folded: everything else is the owner's. Transient messages are forgotten: they
count neither as gone nor as live, like indexes that are no messages. Both are `filler`: ranges of what is gone grow
together across it, and the cursor moves over it. A mirror that is about to take over has not restarted: it keeps them
(`keeps_transient`), live but not counted among the persistent ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from mirrormq.log.chunk import Chunk
from mirrormq.log.entries import (
    ACK,
    CONFIG,
    CONFIG_SIZE,
    DROP,
    ENQUEUE,
    ENQUEUE_HEAD,
    FORGET,
    LOST,
    ORIGIN,
    RANGES,
    RESERVE,
    SKIP,
    TRANSIENT,
    entry_length,
    number_at,
    origin_at,
    ranges_at,
)
from mirrormq.log.ranges import RangeSet
from mirrormq.log.snapshot import Snapshot

MAX_PUBLISHERS: Final = 1000
SUM_BITS: Final = (1 << 60) - 1
MAX_STRETCHES: Final = 1000         # of numbers that a publisher's messages have here, between those that were refused


def squares(low: int, high: int) -> int:
    """The sum of the squares of low..high, 0 where high is low - 1."""
    low -= 1
    return (high * (high + 1) * (2 * high + 1) - low * (low + 1) * (2 * low + 1)) // 6


def add_index(ranges: list[int], low: int, high: int) -> None:
    """Behind flat ranges, with the last of which it may be one."""
    if ranges and ranges[-1] + 1 == low:
        ranges[-1] = high
    else:
        ranges += (low, high)


class RecoveredQueue:
    """A message is live if its index is in `live`, or is >= cursor and not in `gone`; if damage is set, nothing is served.

    `ended` is the highest index that an entry ended: no live message above it was delivered and acknowledged around.
    Readers skip transient messages with an index below next_index as it is here: they did not survive.
    `transients` has the size of each transient message that is live, where they are kept, since the folding began. How many there
    were before that is `light`; which, and how many are left, only the log knows (trail.recount).
    `since` is the newest snapshot, from which the rest was folded; None where there is none, and all was.
    `doubt` says why something may be missing that nothing shows: who can have the queue from elsewhere does not rely on this.
    `publishers` has for each publisher its newest message, (sequence, index); who published last is last.
    `taken` has which of its sequences are here, of those above what `unsure` says: what is missing between was refused.
    `sum` is a checksum: the squares of all indexes, without those that were ended since the last entry of the reason LOST. Two
    logs of one lineage that differ in what is live differ in it, or in count or bytes. It is -1 where it is not known.
    `lost_in` is the epoch of the last entry of the reason LOST, `orphans` are the ranges of what was live here and was ended
    by such entries; who looks at them empties it.
    """

    __slots__ = (
        "_ended", "_full", "_next", "bytes", "configs", "count", "cursor", "damage", "doubt", "ended", "epoch", "extra",
        "gone", "keeps_transient", "light", "live", "lost_in", "next_index", "orphans", "publishers", "queue_id", "reserved",
        "since", "sum", "taken", "transients", "unsure",
    )

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = queue_id
        self.epoch: int = 0
        self.next_index: int = 1
        self.cursor: int = 1
        self.live: array[int] = array("Q")
        self.gone: RangeSet = RangeSet()
        self._ended: RangeSet = RangeSet()
        self._full: RangeSet | None = None
        self._next: int = 1         # behind the chunk that is being folded
        self.ended: int = 0
        self.reserved: int = 0
        self.count: int = 0
        self.bytes: int = 0
        self.extra: bytes = b""
        self.configs: list[bytes] = []
        self.publishers: dict[int, tuple[int, int]] = {}
        self.taken: dict[int, RangeSet] = {}
        self.unsure: dict[int, int] = {}
        self.damage: str | None = None
        self.doubt: str = ""
        self.since: Snapshot | None = None
        self.keeps_transient: bool = False
        self.transients: dict[int, int] = {}
        self.sum: int = 0
        self.lost_in: int = 0
        self.light: int = 0
        self.orphans: list[int] = []

    def start_from(self, snapshot: Snapshot) -> None:
        self.epoch = snapshot.epoch
        self.next_index = snapshot.next_index
        self.cursor = snapshot.cursor
        self.live = snapshot.live[:]
        self.reserved = snapshot.reserved
        self.count = snapshot.count
        self.bytes = snapshot.bytes
        self.extra = snapshot.extra
        self.sum = snapshot.sum
        self.lost_in = snapshot.lost_in
        self.light = snapshot.light
        self.gone = RangeSet()
        self._ended = RangeSet()
        self.ended = 0
        self.configs = []
        numbers = snapshot.publishers
        self.publishers = {numbers[at]: (numbers[at + 1], numbers[at + 2]) for at in range(0, len(numbers), 3)}
        self.taken = {}
        self.unsure = {publisher: sequence for publisher, (sequence, _) in self.publishers.items()}

    def snapshot(self) -> Snapshot:
        """The state as a snapshot, in the middle of folding: what is live below the last end is listed from now on."""
        if self._ended and self.live:
            self.live = array("Q", [index for index in self.live if index not in self._ended])
        self._ended = RangeSet()
        self.cursor = self.gone.take_from(self.cursor)
        while self.gone and self.gone.lowest() <= self.ended:
            self.live.extend(range(self.cursor, self.gone.lowest()))
            self.cursor = self.gone.take_from(self.gone.lowest())
        numbers: list[int] = []
        for publisher, (sequence, index) in self.publishers.items():
            numbers += (publisher, sequence, index)
        return Snapshot(
            self.queue_id, self.epoch, self.next_index, self.cursor, self.live[:], self.reserved, self.count, self.bytes,
            self.extra, numbers, self.sum, self.lost_in, self.light + len(self.transients),
        )

    def fold(self, data: bytes, chunk: Chunk) -> None:
        """One sound chunk; it must follow on what was folded before."""
        assert chunk.first_index == self.next_index
        at = chunk.payload
        end = at + chunk.length
        index = chunk.first_index
        self.epoch = max(self.epoch, chunk.epoch)
        self._next = chunk.next_index
        if self.sum >= 0:
            self.sum = (self.sum + squares(index, chunk.next_index - 1)) & SUM_BITS
        while at < end:
            if data[at] == SKIP:
                skipped = number_at(data, at)
                self.gone.add(index, index + skipped - 1)
                index += skipped
            elif data[at] == ORIGIN:
                self._fold_origin(data, at)
            else:
                self._fold_entry(data, at, index)
                index += 1
            at += entry_length(data, at)
        self.next_index = chunk.next_index

    def _fold_entry(self, data: bytes, at: int, index: int) -> None:
        kind = data[at]
        if kind == ENQUEUE:
            size: int = ENQUEUE_HEAD.unpack_from(data, at)[3]
            if not data[at + 1] & TRANSIENT:
                self.count += 1
                self.bytes += size
            elif self.keeps_transient:
                self.transients[index] = size
            else:
                self.gone.add(index, index)
            return
        self.gone.add(index, index)
        if kind == DROP and data[at + 1] == LOST:
            self._fold_lost(data, at, index)
        elif kind == ACK or kind == DROP:
            self._fold_gone(data, at)
        elif kind == RESERVE:
            self.reserved = number_at(data, at)     # less than before where nobody was left to deliver to
        elif kind == CONFIG:
            self.configs.append(data[at + CONFIG_SIZE : at + entry_length(data, at)])
        elif kind == FORGET:
            self._forget_publisher(number_at(data, at))

    def _fold_origin(self, data: bytes, at: int) -> None:
        publisher, sequence, first, count = origin_at(data, at)
        publishers = self.publishers
        publishers.pop(publisher, None)
        publishers[publisher] = (sequence + count - 1, first + count - 1)
        if len(publishers) > MAX_PUBLISHERS:
            self._forget_publisher(next(iter(publishers)))
        self._note_taken(publisher, sequence, sequence + count - 1)

    def _note_taken(self, publisher: int, low: int, high: int) -> None:
        taken = self.taken.get(publisher)
        if taken is None:
            taken = self.taken[publisher] = RangeSet()
            self.unsure.setdefault(publisher, low - 1)      # what came before may be here without its number
        taken.add(low, high)
        if taken.spans > MAX_STRETCHES:
            self.unsure[publisher] = taken.drop_first(MAX_STRETCHES // 2)

    def _forget_publisher(self, publisher: int) -> None:
        self.publishers.pop(publisher, None)
        self.taken.pop(publisher, None)
        self.unsure.pop(publisher, None)

    def _fold_lost(self, data: bytes, at: int, index: int) -> None:
        """From here on the state is that of the log in which the entry was written."""
        _, _, _, _, count, size = RANGES.unpack_from(data, at)
        ranges = ranges_at(data, at)
        for pair in range(0, len(ranges), 2):
            self.orphans += self.live_in(ranges[pair], ranges[pair + 1])
        self._end(ranges)
        self.count = count
        self.bytes = size
        self.sum = squares(index + 1, self._next - 1) & SUM_BITS
        self.lost_in = self.epoch

    def live_in(self, low: int, high: int) -> list[int]:
        """Flat ranges of what may be live between two indexes."""
        out: list[int] = []
        for index in self.live[bisect_left(self.live, low) : bisect_right(self.live, high)]:
            if index not in self._ended:
                add_index(out, index, index)
        at = max(low, self.cursor)
        for first, last in self.gone.ranges():
            if first > high:
                break
            if first > at:
                add_index(out, at, first - 1)
            at = max(at, last + 1)
        if at <= min(high, self.next_index - 1):
            add_index(out, at, min(high, self.next_index - 1))
        return out

    def _fold_gone(self, data: bytes, at: int) -> None:
        _, _, _, _, count, size = RANGES.unpack_from(data, at)
        self.count -= count
        self.bytes -= size
        self._end(ranges_at(data, at))

    def _end(self, ranges: list[int]) -> None:
        for pair in range(0, len(ranges), 2):
            if self.sum >= 0:
                self.sum = (self.sum - squares(ranges[pair], ranges[pair + 1])) & SUM_BITS
            self.gone.add(ranges[pair], ranges[pair + 1])
            self._ended.add(ranges[pair], ranges[pair + 1])
            self.ended = max(self.ended, ranges[pair + 1])
            if self.transients:
                self._end_transients(ranges[pair], ranges[pair + 1])

    def _end_transients(self, low: int, high: int) -> None:
        transients = self.transients
        if high - low < len(transients):
            for index in range(low, high + 1):
                transients.pop(index, None)
        else:
            self.transients = {index: size for index, size in transients.items() if not low <= index <= high}

    def settle(self) -> None:
        """Bring what was folded into its plainest form: gone lies above cursor, live below it."""
        if self.gone and self.live:
            self.live = array("Q", [index for index in self.live if index not in self._ended])
        self.cursor = self.gone.take_from(self.cursor)
        self._full = self.gone
        self.gone = self.gone.around(self._ended)
        self._ended.take_from(self.cursor)          # the rest is needed again if it is folded on and settled once more

    def resume(self) -> None:
        """To be folded on, although it was settled."""
        if self._full is not None:
            self.gone = self._full
            self._full = None
