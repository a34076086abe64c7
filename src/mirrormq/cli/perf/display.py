"""What the user sees: a line a second when the output is piped, a live table on a terminal, JSON when asked for.

The lines keep the phrases that scripts around RabbitMQ's PerfTest look for: "sent: N msg/s", "sending rate avg:
N msg/s".
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mirrormq.cli.perf.engine import Outcome
from mirrormq.cli.perf.hot.histogram import Histogram
from mirrormq.cli.perf.measure import Figures, Snapshot
from mirrormq.cli.perf.settings import Settings

SHOWN = (0.0, 50.0, 75.0, 95.0, 99.0)
BARS = "▁▂▃▄▅▆▇█"
HISTORY = 40


def latency_text(histogram: Histogram) -> str:
    """min/median/75th/95th/99th in microseconds."""
    return "/".join(str(histogram.percentile(percent)) for percent in SHOWN) + " µs"


def sample_line(settings: Settings, elapsed: float, figures: Figures) -> str:
    """One interval as one line."""
    parts = [f"id: {settings.identity}", f"time: {elapsed:.3f} s"]
    if settings.producers:
        parts.append(f"sent: {figures.rate(figures.sent):.0f} msg/s")
    if settings.producers and settings.confirm:
        parts.append(f"confirmed: {figures.rate(figures.confirmed):.0f} msg/s")
        parts.append(f"nacked: {figures.rate(figures.nacked):.0f} msg/s")
    if settings.producers and settings.mandatory:
        parts.append(f"returned: {figures.rate(figures.returned):.0f} msg/s")
    if settings.consumers:
        parts.append(f"received: {figures.rate(figures.received):.0f} msg/s")
    for name, histogram in (("consumer", figures.delivery), ("confirm", figures.confirm)):
        if histogram.total:
            parts.append(f"min/median/75th/95th/99th {name} latency: {latency_text(histogram)}")
    if figures.blocked:
        parts.append(f"blocked by the broker: {figures.blocked} connections")
    return ", ".join(parts)


def summary_lines(settings: Settings, outcome: Outcome) -> list[str]:
    """The end of a run."""
    lines = [f"id: {settings.identity}, {text}" for text in _summary(settings, outcome)]
    if outcome.failure is not None:
        lines.append(f"error: {outcome.failure}")
    return lines


def _summary(settings: Settings, outcome: Outcome) -> list[str]:
    total = outcome.total
    texts = list(outcome.notes)
    if total is not None and settings.producers:
        texts.append(f"sending rate avg: {total.rate(total.sent):.0f} msg/s, sent: {total.sent} messages")
    if total is not None and settings.consumers:
        texts.append(f"receiving rate avg: {total.rate(total.received):.0f} msg/s, received: {total.received} messages")
    if total is not None:
        texts += _latencies(total) + _oddities(total)
    if outcome.verdict is not None:
        texts.append(str(outcome.verdict))
    return texts


def _latencies(total: Figures) -> list[str]:
    named = (("consumer", total.delivery), ("confirm", total.confirm))
    return [
        f"{name} latency min/median/75th/95th/99th: {latency_text(histogram)}, max: {histogram.highest()} µs"
        for name, histogram in named
        if histogram.total
    ]


def _oddities(total: Figures) -> list[str]:
    odd = (("nacked", total.nacked), ("returned", total.returned), ("redelivered", total.redelivered))
    return [f"{name}: {count} messages" for name, count in odd if count]


class Lines:
    """Plain lines."""

    def __init__(self, settings: Settings, stream: TextIO, *, quiet: bool = False) -> None:
        self.settings = settings
        self.stream = stream
        self.quiet = quiet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def sample(self, elapsed: float, figures: Figures, totals: Snapshot) -> None:
        """One line for the interval."""
        if not self.quiet:
            print(sample_line(self.settings, elapsed, figures), file=self.stream, flush=True)


class Screen:
    """A live table on a terminal."""

    def __init__(self, settings: Settings, stream: TextIO) -> None:
        self.settings = settings
        self._rates: dict[str, list[float]] = {"sent": [], "confirmed": [], "received": []}
        self._live = Live(Text("connecting …"), console=Console(file=stream), auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def sample(self, elapsed: float, figures: Figures, totals: Snapshot) -> None:
        """Redraw."""
        parts: list[Any] = [self._head(elapsed, totals), self._table(figures, totals)]
        done = progress_of(self.settings, elapsed, totals)
        if done is not None:
            parts.append(ProgressBar(total=1.0, completed=done, width=60))
        self._live.update(Group(*parts), refresh=True)

    def _head(self, elapsed: float, totals: Snapshot) -> Text:
        head = Text(f"{self.settings.identity}  {elapsed:.0f} s", style="bold")
        if totals.blocked:
            head.append(f"  blocked by the broker: {totals.blocked} connections", style="red")
        return head

    def _table(self, figures: Figures, totals: Snapshot) -> Table:
        table = Table(box=None, pad_edge=False)
        for title in ("", "msg/s", "total", "min", "p50", "p75", "p95", "p99 µs", ""):
            table.add_column(title, justify="left" if title == "" else "right")
        latency = {"confirmed": figures.confirm, "received": figures.delivery}
        for name in self._shown():
            history = self._rates[name]
            history.append(figures.rate(getattr(figures, name)))
            row = [name, f"{history[-1]:,.0f}", f"{getattr(totals, name):,}"]
            table.add_row(*row, *_cells(latency.get(name)), sparkline(history[-HISTORY:]))
        return table

    def _shown(self) -> list[str]:
        settings = self.settings
        shown = (("sent", settings.producers), ("confirmed", settings.confirm), ("received", settings.consumers))
        return [name for name, wanted in shown if wanted]


def _cells(histogram: Histogram | None) -> list[str]:
    if histogram is None or not histogram.total:
        return [""] * len(SHOWN)
    return [f"{histogram.percentile(percent):,}" for percent in SHOWN]


def sparkline(values: list[float]) -> str:
    """The course of a rate in one line of blocks."""
    top = max(values, default=0.0) or 1.0
    return "".join(BARS[min(int(value / top * len(BARS)), len(BARS) - 1)] for value in values)


def progress_of(settings: Settings, elapsed: float, totals: Snapshot) -> float | None:
    """How much of the run is done, from 0 to 1; None when it has no end."""
    shares = []
    if settings.seconds:
        shares.append(elapsed / settings.seconds)
    if settings.consumer_messages and settings.consumers:
        shares.append(totals.received / (settings.consumer_messages * settings.consumers))
    elif settings.producer_messages and settings.producers:
        shares.append(totals.sent / (settings.producer_messages * settings.producers))
    return min(1.0, max(shares)) if shares else None


def choose(settings: Settings, *, as_json: bool) -> Lines | Screen:
    """The display for where the output goes. JSON has the standard output for itself."""
    stream = sys.stderr if as_json else sys.stdout
    if stream.isatty():
        return Screen(settings, stream)
    return Lines(settings, stream, quiet=as_json)


def outcome_json(settings: Settings, outcome: Outcome) -> str:
    """The whole outcome as one JSON object."""
    verdict = outcome.verdict
    document = {
        "id": settings.identity,
        "options": _options(settings),
        "total": outcome.total.plain() if outcome.total else None,
        "samples": [{"time": round(at, 3)} | figures.plain() for at, figures in outcome.samples],
        "verify": None if verdict is None else verdict.__dict__ | {"good": verdict.good},
        "notes": outcome.notes,
        "interrupted": outcome.interrupted,
        "error": str(outcome.failure) if outcome.failure else None,
        "exit_code": outcome.exit_code,
    }
    return json.dumps(document)


def _options(settings: Settings) -> dict[str, Any]:
    hidden = ("addresses", "properties", "run", "identity")
    options = {name: value for name, value in settings.__dict__.items() if name not in hidden}
    properties = {name: getattr(settings.properties, name) for name in settings.properties.FIELDS}
    return options | {
        "uris": [str(address) for address in settings.addresses],
        "properties": {name: value for name, value in properties.items() if value is not None},
    }
