"""A log-linear histogram of microseconds: 64 buckets an octave, so a percentile is off by at most 1.6 %. Compiled.

Histograms of several processes are added; the one of a measured stretch is a later one minus an earlier one.
Minimum and maximum are those of the filled buckets, so they survive the subtraction.
"""

from __future__ import annotations

from typing import Final

SUB_BITS: Final = 6
SUB: Final = 64
TOP: Final = 1 << 40
BUCKETS: Final = 2241


def bucket_of(value: int) -> int:
    """The bucket that counts `value` microseconds."""
    if value < SUB:
        return max(0, value)
    if value >= TOP:
        return BUCKETS - 1
    octave = value.bit_length() - 1 - SUB_BITS
    return octave * SUB + (value >> octave)


def value_of(bucket: int) -> int:
    """The middle of a bucket, in microseconds."""
    if bucket < 2 * SUB:
        return bucket
    octave = bucket // SUB - 1
    return ((bucket % SUB + SUB) << octave) + (1 << octave >> 1)


class Histogram:
    """Counts of latencies."""

    def __init__(self) -> None:
        self.counts: list[int] = [0] * BUCKETS
        self.total: int = 0

    def add(self, value: int, times: int) -> None:
        """Count `times` messages of `value` microseconds."""
        self.counts[bucket_of(value)] += times
        self.total += times

    def copy(self) -> Histogram:
        """The same counts, no longer shared."""
        other = Histogram()
        other.counts = self.counts[:]
        other.total = self.total
        return other

    @staticmethod
    def of(counts: list[int]) -> Histogram:
        """A histogram from another process."""
        histogram = Histogram()
        histogram.counts = counts
        histogram.total = sum(counts)
        return histogram

    def plus(self, other: Histogram) -> Histogram:
        """Both together."""
        return self._combined(other, 1)

    def minus(self, earlier: Histogram) -> Histogram:
        """What was counted since `earlier`, a copy of this histogram's past."""
        return self._combined(earlier, -1)

    def _combined(self, other: Histogram, sign: int) -> Histogram:
        result = Histogram()
        result.counts = [mine + sign * theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        result.total = self.total + sign * other.total
        return result

    def percentile(self, percent: float) -> int:
        """The latency that `percent` of the messages did not exceed; 0 when there were none."""
        wanted = percent / 100.0 * self.total
        seen = 0
        last = 0
        for bucket, count in enumerate(self.counts):
            if count:
                seen += count
                last = bucket
                if seen >= wanted:
                    break
        return value_of(last)

    def lowest(self) -> int:
        """The smallest latency."""
        return self.percentile(0.0)

    def highest(self) -> int:
        """The largest latency."""
        return self.percentile(100.0)

    def mean(self) -> float:
        """The average latency."""
        if not self.total:
            return 0.0
        return sum(value_of(bucket) * count for bucket, count in enumerate(self.counts) if count) / self.total
