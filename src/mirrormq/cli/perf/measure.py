"""What is measured: snapshots of running totals, and the figures of the stretch between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mirrormq.cli.perf.hot.histogram import Histogram

SECOND = 1_000_000_000
PERCENTILES = (("p50", 50.0), ("p75", 75.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9))
COUNTERS = ("sent", "confirmed", "nacked", "returned", "received", "redelivered", "outstanding", "blocked")


@dataclass(frozen=True)
class Snapshot:
    """The totals at one moment, in nanoseconds since 1970; `heard_at` is when the broker last sent something."""

    at: int
    sent: int = 0
    confirmed: int = 0
    nacked: int = 0
    returned: int = 0
    received: int = 0
    redelivered: int = 0
    outstanding: int = 0
    blocked: int = 0
    heard_at: int = 0
    producers_done: bool = False
    consumers_done: bool = False
    confirm: Histogram = field(default_factory=Histogram)
    delivery: Histogram = field(default_factory=Histogram)

    def packed(self) -> dict[str, Any]:
        """Plain values, for a pipe."""
        return self.__dict__ | {"confirm": self.confirm.counts, "delivery": self.delivery.counts}

    @staticmethod
    def unpacked(plain: dict[str, Any]) -> Snapshot:
        """The snapshot that another process packed."""
        histograms = {name: Histogram.of(plain[name]) for name in ("confirm", "delivery")}
        return Snapshot(**(plain | histograms))


def merged(snapshots: Sequence[Snapshot]) -> Snapshot:
    """The snapshots of several processes as one."""
    if len(snapshots) == 1:
        return snapshots[0]
    counters = {name: sum(getattr(one, name) for one in snapshots) for name in COUNTERS}
    confirm, delivery = Histogram(), Histogram()
    for one in snapshots:
        confirm, delivery = confirm.plus(one.confirm), delivery.plus(one.delivery)
    return Snapshot(
        at=max(one.at for one in snapshots),
        heard_at=max(one.heard_at for one in snapshots),
        producers_done=all(one.producers_done for one in snapshots),
        consumers_done=all(one.consumers_done for one in snapshots),
        confirm=confirm,
        delivery=delivery,
        **counters,
    )


@dataclass(frozen=True)
class Figures:
    """What happened between two snapshots, in `seconds`."""

    seconds: float
    sent: int
    confirmed: int
    nacked: int
    returned: int
    received: int
    redelivered: int
    outstanding: int
    blocked: int
    confirm: Histogram
    delivery: Histogram

    def rate(self, count: int) -> float:
        """`count` by the second."""
        return count / self.seconds if self.seconds > 0 else 0.0

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        counts = {name: getattr(self, name) for name in COUNTERS}
        rates = {f"{name}_per_s": round(self.rate(counts[name]), 1) for name in ("sent", "confirmed", "received")}
        latency = {"confirm_us": latency_of(self.confirm), "delivery_us": latency_of(self.delivery)}
        return {"seconds": round(self.seconds, 3)} | rates | counts | latency


def between(earlier: Snapshot, later: Snapshot, until: int) -> Figures:
    """The figures from `earlier` to the instant `until`, by which everything in `later` had happened."""
    counts = {name: getattr(later, name) - getattr(earlier, name) for name in COUNTERS[:-2]}
    return Figures(
        seconds=(until - earlier.at) / SECOND,
        outstanding=later.outstanding,
        blocked=later.blocked,
        confirm=later.confirm.minus(earlier.confirm),
        delivery=later.delivery.minus(earlier.delivery),
        **counts,
    )


def latency_of(histogram: Histogram) -> dict[str, float] | None:
    """Percentiles in microseconds; None when nothing was measured."""
    if not histogram.total:
        return None
    percentiles: dict[str, float] = {name: histogram.percentile(percent) for name, percent in PERCENTILES}
    ends = {"min": histogram.lowest(), "mean": round(histogram.mean(), 1), "max": histogram.highest()}
    return ends | percentiles
