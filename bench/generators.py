"""Running a scenario with a load generator: `mirrormq perf`, or another one that takes amqpload's options.

Both come to the same figures: messages a second that were sent, confirmed and received, and percentiles of the time
from publish to confirm and to delivery, in microseconds.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any, Protocol

from processes import Failed
from scenarios import Scenario

LIMIT_SECONDS = 900.0


@dataclass(frozen=True)
class Figures:
    """The outcome of one run."""

    sent: float
    confirmed: float
    received: float
    confirm_p50: float
    confirm_p99: float
    delivery_p50: float
    delivery_p99: float


class Generator(Protocol):
    """Something that can put a scenario's load on a broker."""

    name: str

    def supports(self, scenario: Scenario) -> bool:
        """Whether it can do this scenario."""

    def run(self, scenario: Scenario, port: int, queue: str, seconds: float, warmup: float, kind: str = "") -> Figures:
        """Run it against the broker on `port`, with queues of that type."""


def _output(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"the load generator did not finish: {' '.join(command)}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise Failed(f"the load generator failed with code {done.returncode}: {said}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class Perf:
    """`mirrormq perf`."""

    name = "mirrormq perf"

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def supports(self, scenario: Scenario) -> bool:
        """It can do all of them."""
        return True

    def run(self, scenario: Scenario, port: int, queue: str, seconds: float, warmup: float, kind: str = "") -> Figures:
        """Queues are made for the run and deleted after it, where their type can be."""
        if scenario.backlog:
            return self._drain(scenario, port, queue)
        options = self._options(scenario, port, queue)
        options += ["-ad", "false", "--queue-args", f"x-queue-type={kind}"] if kind else ["-ad", "true"]
        options += ["-z", str(seconds), "--warmup", str(warmup)]
        return self._figures(_output([*self._command, *options]))

    def _drain(self, scenario: Scenario, port: int, queue: str) -> Figures:
        options = self._options(scenario, port, queue)
        fill = [*options, "-ad", "true", "-y", "0", "-C", str(scenario.backlog), "-c", "4096"]
        _output([*self._command, *fill])
        drain = [*options, "-ad", "true", "-x", "0", "-D", str(scenario.backlog)]
        return self._figures(_output([*self._command, *drain]))

    def _options(self, scenario: Scenario, port: int, queue: str) -> list[str]:
        options = ["perf", "--json", "-h", f"amqp://127.0.0.1:{port}", "-u", queue, "--queues", str(scenario.queues)]
        counts = {"-x": scenario.producers, "-y": scenario.consumers, "-s": scenario.size, "-c": scenario.window}
        counts |= {"-q": scenario.prefetch, "-A": scenario.multi_ack, "-r": scenario.rate // scenario.producers}
        for option, value in counts.items():
            options += [option, str(value)]
        if scenario.persistent:
            options += ["-f", "persistent"]
        if scenario.topic:
            options += ["-t", "topic", "-e", f"{queue}-topic", "-k", "bench.one.two", "--binding-key", "bench.*.two"]
        return options

    def _figures(self, document: dict[str, Any]) -> Figures:
        total = document["total"]
        confirm, delivery = total["confirm_us"] or {}, total["delivery_us"] or {}
        return Figures(
            total["sent_per_s"],
            total["confirmed_per_s"],
            total["received_per_s"],
            confirm.get("p50", 0),
            confirm.get("p99", 0),
            delivery.get("p50", 0),
            delivery.get("p99", 0),
        )


class Amqpload:
    """Another generator, for cross-checks; its counts and rates are totals, and it warms up for two seconds."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._path = path

    def supports(self, scenario: Scenario) -> bool:
        """It publishes to queues only."""
        return not scenario.topic

    def run(self, scenario: Scenario, port: int, queue: str, seconds: float, warmup: float, kind: str = "") -> Figures:
        """It leaves its queues behind, empty or nearly so."""
        options = self._options(scenario, port, queue) + (["-t", kind] if kind else [])
        if scenario.backlog:
            count = ["-C", str(scenario.backlog)]
            _output([self._path, *options, *count, "-y", "0", "-c", "4096"])
            return self._figures(_output([self._path, *options, *count, "-x", "0"]))
        return self._figures(_output([self._path, *options, "-z", str(round(seconds + 2 - warmup))]))

    def _options(self, scenario: Scenario, port: int, queue: str) -> list[str]:
        counts = {"-x": scenario.producers, "-y": scenario.consumers, "-n": scenario.queues, "-s": scenario.size}
        counts |= {"-c": scenario.window, "-Q": scenario.prefetch, "-A": scenario.multi_ack, "-r": scenario.rate}
        counts |= {"-f": int(scenario.persistent), "-p": port}
        options = ["-q", queue]
        for option, value in counts.items():
            options += [option, str(value)]
        return options

    def _figures(self, document: dict[str, Any]) -> Figures:
        confirm, delivery = document["confirm_us"], document["e2e_us"]
        return Figures(
            document["sent_per_s"],
            document["confirmed_per_s"],
            document["received_per_s"],
            confirm[0],
            confirm[2],
            delivery[0],
            delivery[2],
        )
