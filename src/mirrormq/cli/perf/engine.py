"""A run from declare to summary: connect, start, watch until it is done, stop, settle, judge.

It is done when the time (-z) is over, when every counted producer and consumer has its messages (-C, -D), when it is
interrupted or when something fails. With -C and without -D the consumers are waited for as long as messages come; so is
a run that verifies what another one published, for it cannot know what was lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mirrormq.cli.perf.crew import Crew
from mirrormq.cli.perf.errors import INTERRUPTED, NOT_VERIFIED, PerfError
from mirrormq.cli.perf.measure import SECOND, Figures, Snapshot, between, merged
from mirrormq.cli.perf.settings import Settings
from mirrormq.cli.perf.verdict import Verdict, gathered, judge

POLL_SECONDS = 0.05
SILENCE_SECONDS = 0.5


@dataclass
class Outcome:
    """What a run came to."""

    total: Figures | None = None
    samples: list[tuple[float, Figures]] = field(default_factory=list)
    verdict: Verdict | None = None
    failure: PerfError | None = None
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """The command's."""
        if self.failure is not None:
            return self.failure.exit_code
        if self.verdict is not None and not self.verdict.good:
            return NOT_VERIFIED
        return INTERRUPTED if self.interrupted else 0


class Watcher(Protocol):
    """Whoever wants to see samples while the run goes on."""

    def sample(self, elapsed: float, figures: Figures, totals: Snapshot) -> None:
        """One interval passed."""


class Stage(Protocol):
    """What is set up at the broker before a run and cleared away after it."""

    async def declare(self) -> None: ...

    async def remove(self) -> None: ...


class Progress:
    """Since when a total has not grown."""

    def __init__(self, now: float) -> None:
        self.value = -1
        self.since = now

    def stalled(self, value: int, now: float) -> float:
        """For how many seconds `value` has been what it is."""
        if value != self.value:
            self.value, self.since = value, now
        return now - self.since


class Run:
    """One run of the crews."""

    def __init__(
        self, settings: Settings, stage: Stage, crews: Sequence[Crew], watcher: Watcher, interrupt: asyncio.Event
    ) -> None:
        self.settings = settings
        self.stage = stage
        self.crews = crews
        self.watcher = watcher
        self.interrupt = interrupt
        self.outcome = Outcome()
        self._began = Snapshot(0)
        self._base = Snapshot(0)
        self._last = Snapshot(0)
        self._sampled = Snapshot(0)
        self._due = 0.0

    async def run(self) -> Outcome:
        """Everything; failures end up in the outcome."""
        try:
            await self._work()
        except PerfError as error:
            self.outcome.failure = error
        await self._clean_up()
        if self._began.at:
            self.outcome.total = between(self._base, self._last, self._ended_at())
        return self.outcome

    async def _work(self) -> None:
        await self.stage.declare()
        await asyncio.gather(*[crew.connect() for crew in self.crews])
        self._began = self._base = self._sampled = self._last = Snapshot(time.time_ns())
        await asyncio.gather(*[crew.start() for crew in self.crews])
        await self._watch()
        await self._settle()

    async def _watch(self) -> None:
        confirms = Progress(time.monotonic())
        deliveries = Progress(time.monotonic())
        while not self._over(deliveries):
            await self._pause(POLL_SECONDS)
            self._last = await self._look()
            self._report()
            self._check_confirms(confirms)

    async def _settle(self) -> None:
        """Stop publishing. A verified run goes on consuming until everything is there or nothing more comes."""
        await asyncio.gather(*[crew.stop() for crew in self.crews])
        if not self.settings.verify:
            return
        if not self.settings.consumers:
            self.outcome.notes.append(f"to verify what was published: -x 0 --verify -d {self.settings.identity}")
            return
        await self._drain()
        evidence = gathered([await crew.evidence() for crew in self.crews])
        self.outcome.verdict = judge(self.settings, evidence)

    async def _drain(self) -> None:
        """Repeats and messages of other runs are among the received: a full count must also be followed by silence."""
        deliveries = Progress(time.monotonic())
        while not self.settings.consumer_messages:
            totals = await self._look()
            stalled = deliveries.stalled(totals.received, time.monotonic())
            complete = totals.received >= self._expected(totals) and stalled > SILENCE_SECONDS
            if complete or stalled > self.settings.shutdown_timeout:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _clean_up(self) -> None:
        results = await asyncio.gather(*[crew.close() for crew in self.crews], return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, PerfError):
                raise result
        if self._began.at:
            await self.stage.remove()

    async def _look(self) -> Snapshot:
        return merged(await asyncio.gather(*[crew.snapshot() for crew in self.crews]))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.interrupt.wait()
        except TimeoutError:
            return

    def _over(self, deliveries: Progress) -> bool:
        if self.interrupt.is_set():
            self.outcome.interrupted = True
            return True
        if self.settings.seconds and self._elapsed() >= self.settings.seconds:
            return True
        return self._counted_out() or self._dried_up(deliveries)

    def _counted_out(self) -> bool:
        settings, totals = self.settings, self._last
        if not self._counting():
            return False
        if settings.producer_messages and settings.producers and not totals.producers_done:
            return False
        if settings.consumer_messages and settings.consumers:
            return totals.consumers_done
        return not settings.audits and self._all_came(totals)

    def _all_came(self, totals: Snapshot) -> bool:
        return not self.settings.consumers or totals.received >= self._expected(totals)

    def _dried_up(self, deliveries: Progress) -> bool:
        settings, totals = self.settings, self._last
        stalled = deliveries.stalled(totals.received, time.monotonic())
        is_open = settings.consumer_messages and not settings.audits
        if not self._counting() or is_open or not totals.producers_done or stalled <= settings.shutdown_timeout:
            return False
        missing = self._expected(totals) - totals.received
        if missing > 0:
            self.outcome.notes.append(f"gave up waiting for {missing} messages: none came for {stalled:.0f} s")
        return True

    def _counting(self) -> bool:
        return bool(self.settings.producer_messages or self.settings.consumer_messages)

    def _expected(self, totals: Snapshot) -> int:
        """How many deliveries the settled publishes should lead to, if all producers sent alike."""
        producers = self.settings.producers
        if self.settings.audits:
            return self.settings.consumer_messages * self.settings.consumers or self.settings.producer_messages
        copies = sum(self.settings.copies(producer) for producer in range(producers))
        settled = totals.sent - totals.nacked - totals.returned - totals.outstanding
        return settled * copies // producers if producers else 0

    def _check_confirms(self, confirms: Progress) -> None:
        totals = self._last
        stalled = confirms.stalled(totals.confirmed + totals.nacked, time.monotonic())
        waiting = totals.outstanding and not totals.blocked and not self.settings.rate
        if waiting and stalled > self.settings.confirm_timeout:
            raise PerfError(f"no confirm for {stalled:.0f} s, with {totals.outstanding} publishes outstanding")

    def _report(self) -> None:
        totals = self._last
        if self._base is self._began and self._elapsed() >= self.settings.warmup > 0:
            self._base = totals
        if self._elapsed() >= self._due + self.settings.interval:
            figures = between(self._sampled, totals, totals.at)
            self._sampled = totals
            self._due = self._elapsed() // self.settings.interval * self.settings.interval
            self.outcome.samples.append((self._elapsed(), figures))
            self.watcher.sample(self._elapsed(), figures, totals)

    def _elapsed(self) -> float:
        return (self._last.at - self._began.at) / SECOND

    def _ended_at(self) -> int:
        ended = self._counting() and (self._counted_out() or self.settings.audits) and not self.outcome.interrupted
        return self._last.heard_at if ended and self._last.heard_at else self._last.at
