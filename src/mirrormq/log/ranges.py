"""A set of whole numbers kept as sorted, disjoint, non-touching ranges. Compiled.

Adding at the end and widening the last range are O(1); elsewhere it is a bisection and a list insertion.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


def pairs(flat: list[int]) -> list[tuple[int, int]]:
    return [(flat[at], flat[at + 1]) for at in range(0, len(flat), 2)]


def sizes(flat: list[int]) -> int:
    """How many numbers are in flat ranges."""
    return sum(flat[1::2]) - sum(flat[::2]) + len(flat) // 2


class RangeSet:
    """Ranges are inclusive on both ends: add(3, 5) holds 3, 4 and 5."""

    __slots__ = ("_highs", "_lows")

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []

    def add(self, low: int, high: int) -> None:
        """Put low..high in."""
        assert low <= high
        lows, highs = self._lows, self._highs
        if not highs or low > highs[-1] + 1:
            lows.append(low)
            highs.append(high)
        elif low >= lows[-1]:
            if high > highs[-1]:
                highs[-1] = high
        else:
            self._merge(low, high)

    def _merge(self, low: int, high: int) -> None:
        """Replace every range that overlaps or touches low..high with one."""
        lows, highs = self._lows, self._highs
        start = bisect_left(highs, low - 1)
        stop = bisect_right(lows, high + 1)
        if start < stop:
            low = min(low, lows[start])
            high = max(high, highs[stop - 1])
        lows[start:stop] = [low]
        highs[start:stop] = [high]

    def discard(self, low: int, high: int) -> None:
        """Take low..high out."""
        lows, highs = self._lows, self._highs
        start = bisect_left(highs, low)
        stop = bisect_right(lows, high)
        if start >= stop:
            return
        keep_lows: list[int] = []
        keep_highs: list[int] = []
        if lows[start] < low:
            keep_lows.append(lows[start])
            keep_highs.append(low - 1)
        if highs[stop - 1] > high:
            keep_lows.append(high + 1)
            keep_highs.append(highs[stop - 1])
        lows[start:stop] = keep_lows
        highs[start:stop] = keep_highs

    def __contains__(self, value: int) -> bool:
        at = bisect_left(self._highs, value)
        return at < len(self._lows) and self._lows[at] <= value

    def overlaps(self, low: int, high: int) -> bool:
        """Is any of low..high in?"""
        at = bisect_left(self._highs, low)
        return at < len(self._lows) and self._lows[at] <= high

    def covers(self, low: int, high: int) -> bool:
        """Is all of low..high in?"""
        at = bisect_left(self._highs, low)
        return at < len(self._lows) and self._lows[at] <= low and self._highs[at] >= high

    def take_from(self, start: int) -> int:
        """Remove everything below the first number >= start that is not in the set, and return that number."""
        at = bisect_left(self._highs, start)
        if at < len(self._lows) and self._lows[at] <= start:
            start = self._highs[at] + 1
            at += 1
        del self._lows[:at]
        del self._highs[:at]
        return start

    def drop_first(self, spans: int) -> int:
        """Take out that many of the lowest ranges, and return the last number of them."""
        last = self._highs[spans - 1]
        del self._lows[:spans]
        del self._highs[:spans]
        return last

    def copy(self) -> RangeSet:
        out = RangeSet()
        out._lows = self._lows[:]
        out._highs = self._highs[:]
        return out

    def lowest(self) -> int:
        return self._lows[0]

    def around(self, core: RangeSet) -> RangeSet:
        """My ranges, each cut down to between the first and the last number of core that lies in it."""
        out = RangeSet()
        for at in range(len(self._lows)):
            start = bisect_left(core._highs, self._lows[at])
            stop = bisect_right(core._lows, self._highs[at])
            if start < stop:
                out.add(max(self._lows[at], core._lows[start]), min(self._highs[at], core._highs[stop - 1]))
        return out

    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._lows, self._highs, strict=True))

    def flat(self) -> list[int]:
        """lo, hi, lo, hi …, as entries carry them."""
        out: list[int] = []
        for at in range(len(self._lows)):
            out.append(self._lows[at])
            out.append(self._highs[at])
        return out

    @property
    def spans(self) -> int:
        """How many ranges."""
        return len(self._lows)

    def count(self) -> int:
        """How many numbers."""
        return sum(self._highs) - sum(self._lows) + len(self._lows)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return len(self._lows) > 0

    def __iter__(self) -> Iterator[int]:
        for at in range(len(self._lows)):
            yield from range(self._lows[at], self._highs[at] + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._lows == other._lows and self._highs == other._highs

    def __hash__(self) -> int:
        raise TypeError("a RangeSet changes, so it has no hash")

    def __repr__(self) -> str:
        return "RangeSet(" + ", ".join(f"{low}..{high}" for low, high in self.ranges()) + ")"
