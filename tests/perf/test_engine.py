"""A run ends when it should, and its figures are those of the measured stretch. The crew is a double at the port."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace
from typing import Any

from mirrormq.cli.perf.address import parse_address
from mirrormq.cli.perf.display import outcome_json, progress_of, sample_line, sparkline, summary_lines
from mirrormq.cli.perf.engine import Outcome, Run
from mirrormq.cli.perf.errors import CannotConnect, PerfError
from mirrormq.cli.perf.hot.histogram import Histogram
from mirrormq.cli.perf.measure import SECOND, Figures, Snapshot, between, merged
from mirrormq.cli.perf.settings import Settings
from mirrormq.cli.perf.verdict import Evidence

LOCAL = (parse_address("amqp://localhost"),)


class Watcher:
    def __init__(self) -> None:
        self.samples = 0

    def sample(self, elapsed: float, figures: Figures, totals: Snapshot) -> None:
        self.samples += 1


class Crew:
    """Plays one snapshot after the other, taken at their second (or now), and then the last one for ever."""

    def __init__(self, *totals: Snapshot | PerfError) -> None:
        self.totals = list(totals)
        self.calls: list[str] = []
        self.began = 0

    async def declare(self) -> None:
        self.calls.append("declare")

    async def remove(self) -> None:
        self.calls.append("remove")

    async def connect(self) -> None:
        self.calls.append("connect")

    async def start(self) -> None:
        self.calls.append("start")
        self.began = time.time_ns()

    async def snapshot(self) -> Snapshot:
        now = self.totals.pop(0) if len(self.totals) > 1 else self.totals[0]
        if isinstance(now, PerfError):
            raise now
        at = self.began + now.at * SECOND if now.at else time.time_ns()
        return replace(now, at=at, heard_at=at)

    async def stop(self) -> None:
        self.calls.append("stop")

    async def evidence(self) -> Evidence:
        return Evidence()

    async def close(self) -> None:
        self.calls.append("close")


async def run(settings: Settings, crew: Crew, *, interrupt: bool = False) -> Outcome:
    event = asyncio.Event()
    if interrupt:
        event.set()
    return await Run(settings, crew, [crew], Watcher(), event).run()


async def test_a_counted_run_ends_when_all_is_sent_and_received() -> None:
    settings = Settings(LOCAL, ("q",), producer_messages=10)
    crew = Crew(Snapshot(0, sent=5, received=4), Snapshot(0, sent=10, received=10, producers_done=True))
    outcome = await run(settings, crew)
    assert outcome.total is not None
    assert (outcome.total.sent, outcome.total.received, outcome.exit_code) == (10, 10, 0)
    assert crew.calls == ["declare", "connect", "start", "stop", "close", "remove"]


async def test_a_drain_ends_when_the_consumers_have_theirs() -> None:
    settings = Settings(LOCAL, ("q",), producers=0, consumer_messages=10)
    outcome = await run(settings, Crew(Snapshot(0, received=3), Snapshot(0, received=10, consumers_done=True)))
    assert outcome.total is not None
    assert outcome.total.received == 10


async def test_messages_that_never_come_are_given_up() -> None:
    settings = Settings(LOCAL, ("q",), producer_messages=10, shutdown_timeout=0.1)
    outcome = await run(settings, Crew(Snapshot(0, sent=10, received=8, producers_done=True)))
    [note] = outcome.notes
    assert re.fullmatch(r"gave up waiting for 2 messages: none came for \d+ s", note)


async def test_an_audit_ends_when_nothing_more_comes() -> None:
    settings = Settings(LOCAL, ("q",), producers=0, verify=True, consumer_messages=10, shutdown_timeout=0.1)
    outcome = await run(settings, Crew(Snapshot(0, received=3, producers_done=True)))
    [note] = outcome.notes
    assert re.fullmatch(r"gave up waiting for 7 messages: none came for \d+ s", note)
    assert outcome.exit_code == 5


async def test_a_verified_run_without_consumers_says_how_to_verify_it() -> None:
    settings = Settings(LOCAL, ("q",), identity="mine", consumers=0, verify=True, producer_messages=10)
    outcome = await run(settings, Crew(Snapshot(0, sent=10, producers_done=True)))
    assert (outcome.verdict, outcome.notes) == (None, ["to verify what was published: -x 0 --verify -d mine"])


async def test_an_interrupted_run_still_has_figures() -> None:
    outcome = await run(Settings(LOCAL, ("q",)), Crew(Snapshot(0, sent=10)), interrupt=True)
    assert outcome.total is not None
    assert (outcome.interrupted, outcome.exit_code) == (True, 130)


async def test_a_failure_ends_the_run_and_is_its_exit_code() -> None:
    crew = Crew(Snapshot(0, sent=10), CannotConnect("nobody there"))
    outcome = await run(Settings(LOCAL, ("q",)), crew)
    assert (str(outcome.failure), outcome.exit_code) == ("nobody there", 3)
    assert crew.calls[-2:] == ["close", "remove"]


async def test_confirms_that_stop_coming_fail_the_run() -> None:
    settings = Settings(LOCAL, ("q",), confirm=10, confirm_timeout=0.1)
    outcome = await run(settings, Crew(Snapshot(0, sent=10, outstanding=10)))
    assert re.search(r"no confirm for \d+ s, with 10 publishes outstanding", str(outcome.failure))


async def test_the_warmup_is_left_out_of_the_figures() -> None:
    settings = Settings(LOCAL, ("q",), seconds=10, warmup=4)
    crew = Crew(Snapshot(2, sent=10), Snapshot(4, sent=500), Snapshot(7, sent=800), Snapshot(10, sent=1100))
    outcome = await run(settings, crew)
    assert outcome.total is not None
    assert (outcome.total.sent, round(outcome.total.seconds, 3)) == (600, 6.0)
    assert [round(at) for at, _ in outcome.samples] == [2, 4, 7, 10]


def test_snapshots_of_several_processes_are_one() -> None:
    parts = [Snapshot(5, sent=1, producers_done=True), Snapshot(7, sent=2, received=4)]
    whole = merged(parts)
    assert (whole.at, whole.sent, whole.received, whole.producers_done) == (7, 3, 4, False)


def test_a_snapshot_survives_the_pipe() -> None:
    snapshot = Snapshot(5, sent=3)
    snapshot.delivery.add(100, 4)
    again = Snapshot.unpacked(json.loads(json.dumps(snapshot.packed())))
    assert (again.sent, again.delivery.total, again.delivery.percentile(50)) == (3, 4, snapshot.delivery.percentile(50))


def figures() -> Figures:
    histogram = Histogram()
    histogram.add(50, 10)
    earlier = Snapshot(at=0)
    later = Snapshot(at=2 * SECOND, sent=2000, confirmed=1800, received=1000, delivery=histogram)
    return between(earlier, later, later.at)


def test_a_line_has_the_phrases_that_scripts_look_for() -> None:
    line = sample_line(Settings(LOCAL, ("q",), identity="t", confirm=10), 2.0, figures())
    assert line.startswith(
        "id: t, time: 2.000 s, sent: 1000 msg/s, confirmed: 900 msg/s, nacked: 0 msg/s, received: 500 msg/s"
    )
    assert "min/median/75th/95th/99th consumer latency: 50/50/50/50/50 µs" in line


def test_the_summary_has_the_average_rates() -> None:
    lines = summary_lines(Settings(LOCAL, ("q",), identity="t"), Outcome(total=figures()))
    assert "id: t, sending rate avg: 1000 msg/s, sent: 2000 messages" in lines
    assert "id: t, receiving rate avg: 500 msg/s, received: 1000 messages" in lines


def test_the_json_has_options_figures_and_exit_code() -> None:
    outcome = Outcome(total=figures(), failure=PerfError("broken"))
    document: dict[str, Any] = json.loads(outcome_json(Settings(LOCAL, ("q",), size=64), outcome))
    assert (document["options"]["size"], document["options"]["uris"]) == (64, ["amqp://localhost:5672"])
    assert (document["total"]["sent_per_s"], document["total"]["delivery_us"]["p50"]) == (1000.0, 50)
    assert (document["error"], document["exit_code"]) == ("broken", 1)


def test_progress_is_that_of_the_nearest_end() -> None:
    assert progress_of(Settings(LOCAL, ("q",)), 5.0, Snapshot(0)) is None
    assert progress_of(Settings(LOCAL, ("q",), seconds=10), 5.0, Snapshot(0)) == 0.5
    counted = Settings(LOCAL, ("q",), producer_messages=100, producers=2)
    assert progress_of(counted, 5.0, Snapshot(0, sent=50)) == 0.25


def test_a_sparkline_follows_the_rate() -> None:
    assert sparkline([0.0, 50.0, 100.0]) == "▁▅█"
