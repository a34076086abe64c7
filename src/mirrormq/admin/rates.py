"""Rates of counters, worked out when somebody asks.

Nothing is sampled in the background: an object that nobody looks at costs nothing. The counters of the last look are
kept, and the rate is the change since then. Looks closer together than the interval share one rate. Whoever asks for
samples (`msg_rates_age` and its kin) gets those that earlier looks left behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

Counters = dict[str, int]
Key = tuple[str, ...]
FORGET_AFTER: Final = 120_000       # milliseconds without a look
SOONEST: Final = 1_000              # a first rate may come this early
KEPT_LOOKS: Final = 720             # an hour at the usual interval
GAUGES: Final = frozenset((
    "messages", "messages_ready", "messages_unacknowledged", "mem_used", "fd_used", "sockets_used", "proc_used",
    "disk_free",
))  # fmt: skip


class Look(NamedTuple):
    at: int
    counters: Counters


class Span(NamedTuple):
    """How far back samples go, and in which steps; milliseconds."""

    age: int
    step: int


class Figures:
    """The counters of one object now, their rates, and earlier looks if samples are wanted."""

    def __init__(self, now: Look, rates: Mapping[str, float], looks: Iterable[Look] = ()) -> None:
        self.now = now
        self.rates = rates
        self.looks = looks

    def detail(self, name: str, span: Span | None) -> dict[str, Any]:
        samples = None if span is None else _samples(name, [*self.looks, self.now], span)
        return detail(self.rates.get(name, 0.0), samples)

    def fields(self, names: Iterable[str], span: Span | None = None) -> dict[str, Any]:
        """Each counter with its details, as the API shows them."""
        shown: dict[str, Any] = {}
        for name in names:
            shown[name] = self.now.counters[name]
            shown[name + "_details"] = self.detail(name, span)
        return shown


def detail(rate: float, samples: list[dict[str, int]] | None) -> dict[str, Any]:
    """A rate as the API shows it, with samples if there are any to be told, newest first."""
    if samples is None:
        return {"rate": rate}
    values = [sample["sample"] for sample in samples]
    seconds = max(1.0, (samples[0]["timestamp"] - samples[-1]["timestamp"]) / 1000) if samples else 1.0
    return {
        "rate": rate, "samples": samples, "avg_rate": (values[0] - values[-1]) / seconds if values else 0.0,
        "avg": sum(values) / len(values) if values else 0.0,
    }  # fmt: skip


def _samples(name: str, looks: list[Look], span: Span) -> list[dict[str, int]]:
    """Newest first, at whole steps; before the first look there is nothing to tell."""
    newest = looks[-1].at // span.step * span.step
    samples: list[dict[str, int]] = []
    at = len(looks) - 1
    for moment in range(newest, newest - span.age - 1, -span.step):
        while at > 0 and looks[at].at > moment:
            at -= 1
        if looks[at].at > moment + span.step:
            break
        samples.append({"sample": looks[at].counters.get(name, 0), "timestamp": moment})
    return samples


class _Entry:
    __slots__ = ("base", "looks", "rates", "seen")

    def __init__(self, base: Look) -> None:
        self.base = base
        self.seen = base.at
        self.rates: dict[str, float] = {}
        self.looks: deque[Look] | None = None


class Rates:
    def __init__(self, interval: int) -> None:
        self._interval = interval
        self.generation = 0             # what was told before a reset is worth nothing
        self._entries: dict[Key, _Entry] = {}
        self._pruned = 0

    def look(self, key: Key, counters: Counters, now: int, *, keep: bool = False) -> Figures:
        """Note the counters of an object and say how fast they change; `keep` them as a sample."""
        look = Look(now, counters)
        entry = self._entries.get(key)
        if entry is None:
            self._prune(now)
            entry = self._entries[key] = _Entry(look)
        entry.seen = now
        self._renew(entry, look)
        if keep:
            self._keep(entry, look)
        return Figures(look, entry.rates, entry.looks or ())

    def reset(self) -> None:
        self.generation += 1
        self._entries = {}

    def is_quiet(self, key: Key, counters: Counters) -> bool:
        """Whether nothing has changed since the last look, or ever."""
        entry = self._entries.get(key)
        if entry is None:
            return not any(counters.values())
        return entry.base.counters == counters and not any(entry.rates.values())

    def is_still(self, key: Key) -> bool:
        """Whether all rates are known, and zero."""
        entry = self._entries.get(key)
        return entry is not None and bool(entry.rates) and not any(entry.rates.values())

    def still(self, key: Key, now: int) -> bool:
        """A look at something that is known not to have changed; False if there was none before."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        entry.seen = now
        base = entry.base
        if now - base.at >= self._interval:
            entry.base = Look(now, base.counters)
        return True

    def _renew(self, entry: _Entry, look: Look) -> None:
        passed = look.at - entry.base.at
        if passed >= self._interval or (passed >= SOONEST and not entry.rates):
            entry.rates = _rates(entry.base, look)
        if passed >= self._interval:
            entry.base = look

    def _keep(self, entry: _Entry, look: Look) -> None:
        if entry.looks is None:
            entry.looks = deque(maxlen=KEPT_LOOKS)
        if not entry.looks or look.at - entry.looks[-1].at >= self._interval // 2:
            entry.looks.append(look)

    def _prune(self, now: int) -> None:
        if now - self._pruned > FORGET_AFTER // 2:
            self._pruned = now
            kept = {key: entry for key, entry in self._entries.items() if now - entry.seen < FORGET_AFTER}
            self._entries = kept


def _rates(base: Look, look: Look) -> dict[str, float]:
    """A count that went back belongs to a new object of the same name: its rate is not known yet. Gauges may fall."""
    seconds = (look.at - base.at) / 1000
    rates: dict[str, float] = {}
    for name, value in look.counters.items():
        change = value - base.counters.get(name, 0)
        rates[name] = round(change / seconds, 3) if change > 0 or name in GAUGES else 0.0
    return rates
