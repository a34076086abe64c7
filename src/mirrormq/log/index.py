"""Where a queue's chunks lie. Compiled; its size is what a backlog costs in memory.

ChunkIndex: every chunk of one queue in the write-ahead log, 24 bytes each, sorted by first index. It is bounded by the
size of the write-ahead log. SparseIndex: of one segment, one pair for each 64 KiB or more.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

OFFSET_MASK: Final = (1 << 36) - 1
SEQUENCE_SHIFT: Final = 37
SPARSE_BYTES: Final = 64 * 1024


class ChunkIndex:
    """Three arrays side by side: first index; place = file sequence, offset (36 bits), messages flag (1 bit); span = bytes,
    count (32 bits)."""

    __slots__ = ("firsts", "places", "spans")

    def __init__(self) -> None:
        self.firsts: array[int] = array("Q")
        self.places: array[int] = array("Q")
        self.spans: array[int] = array("Q")

    def __len__(self) -> int:
        return len(self.firsts)

    def put(self, first: int, count: int, sequence: int, offset: int, size: int, *, messages: bool) -> None:
        """Add a chunk, or move it: a chunk with the same first index is the same chunk at another place."""
        place = sequence << SEQUENCE_SHIFT | offset << 1 | (1 if messages else 0)
        span = size << 32 | count
        firsts = self.firsts
        if not firsts or first > firsts[-1]:
            firsts.append(first)
            self.places.append(place)
            self.spans.append(span)
            return
        at = bisect_left(firsts, first)
        if firsts[at] != first:
            firsts.insert(at, first)
            self.places.insert(at, place)
            self.spans.insert(at, span)
        else:
            self.places[at] = place
            self.spans[at] = span

    def move(self, first: int, sequence: int, offset: int) -> None:
        """The chunk now lies elsewhere; nothing happens where it is no longer wanted."""
        at = bisect_left(self.firsts, first)
        if at < len(self.firsts) and self.firsts[at] == first:
            self.places[at] = self.places[at] & 1 | sequence << SEQUENCE_SHIFT | offset << 1

    def find(self, index: int) -> int:
        """The place in the arrays of the first chunk that reaches beyond index."""
        at = bisect_right(self.firsts, index)
        if at and self.firsts[at - 1] + (self.spans[at - 1] & 0xFFFFFFFF) > index:
            return at - 1
        return at

    def cut_below(self, index: int) -> None:
        """Forget the chunks that start below index."""
        at = bisect_left(self.firsts, index)
        if at:
            del self.firsts[:at]
            del self.places[:at]
            del self.spans[:at]

    def cut_from(self, index: int) -> None:
        """Forget the chunks that start at index or later."""
        at = bisect_left(self.firsts, index)
        del self.firsts[at:]
        del self.places[at:]
        del self.spans[at:]

    def end_in(self, sequence: int) -> int:
        """The index behind the last chunk that lies in that file, 0 where there is none."""
        for at in range(len(self.firsts) - 1, -1, -1):
            if self.sequence(at) == sequence:
                return self.next_index(at)
        return 0

    def forget(self, sequence: int, start: int, stop: int) -> int:
        """Forget the chunks that lie in that file, among those at start..stop of the arrays; returns how many stay there."""
        stop = min(stop, len(self.firsts))
        high = stop
        while high > start:
            low = high
            while low > start and self.sequence(low - 1) == sequence:
                low -= 1
            if low < high:
                del self.firsts[low:high]
                del self.places[low:high]
                del self.spans[low:high]
                stop -= high - low
            high = low - 1
        return max(stop - start, 0)

    def sequence(self, at: int) -> int:
        return self.places[at] >> SEQUENCE_SHIFT

    def offset(self, at: int) -> int:
        return self.places[at] >> 1 & OFFSET_MASK

    def has_messages(self, at: int) -> bool:
        return self.places[at] & 1 == 1

    def size(self, at: int) -> int:
        return self.spans[at] >> 32

    def next_index(self, at: int) -> int:
        """The index behind the chunk."""
        return self.firsts[at] + (self.spans[at] & 0xFFFFFFFF)


class SparseIndex:
    """Pairs (first index, offset) of some chunks of a segment, sorted; the first chunk is always among them."""

    __slots__ = ("firsts", "offsets")

    def __init__(self) -> None:
        self.firsts: array[int] = array("Q")
        self.offsets: array[int] = array("Q")

    def note(self, first: int, offset: int) -> None:
        """Remember the chunk if it lies far enough behind the last one remembered."""
        if not self.offsets or offset >= self.offsets[-1] + SPARSE_BYTES:
            self.firsts.append(first)
            self.offsets.append(offset)

    def is_far(self, offset: int, more: list[tuple[int, int]]) -> bool:
        """Would note() remember a chunk there, once `more` pairs are noted?"""
        last = more[-1][1] if more else self.offsets[-1] if self.offsets else -SPARSE_BYTES
        return offset >= last + SPARSE_BYTES

    def offset_for(self, index: int) -> int:
        """Offset of the last known chunk that starts at or below index; of the first chunk if there is none."""
        at = bisect_right(self.firsts, index)
        return self.offsets[at - 1] if at else self.offsets[0]
