"""What a reader costs who publishes: messages a second with confirms on the leader alone, while Spark reads from the mirror, and
while it reads from the leader, in turn.

All is on one machine, so it is made to look like two. The leader and the publisher have half of the cores, the mirror and Spark
the other half; Spark runs only when nobody else there wants to, as a job of low priority. That is so in every run, whether Spark
reads or not. A run in which processes that are not ours took more than a tenth of a core is made again, up to a limit.

The publisher may have 4,096 messages unconfirmed: so the leader has always something to do, and the figure is what it can do.
With a steady rate the confirms' latency is measured, and with it what a busy mirror costs those who wait for it. The leader's
processor time for each message does not depend on who else runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol, Self

from processes import Failed

TICK = os.sysconf("SC_CLK_TCK")
ROUNDS = 3
TRIES = 3
STRANGERS = 0.1     # of a core: more, and a run does not count
STEADY = 20_000     # messages a second at which latency is measured
WINDOW = 4096


class Member(Protocol):
    port: int

    @property
    def pid(self) -> int: ...


@dataclass
class Run:
    """What one run of the publisher found. `strangers` is how much of a core processes had that are not ours."""

    rate: float
    latency: float
    cost: float
    strangers: float


def family(root: int) -> set[int]:
    """A process and all that descend from it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def seconds_of(pids: Iterable[int]) -> float:
    """Processor time that they have had, and those of their children that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / TICK


def busy_seconds() -> float:
    """Of all cores, whoever had them."""
    user, nice, system, _, _, irq, soft, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + soft) / TICK


def confine(pids: Iterable[int], cores: set[int], *, is_idle: bool = False) -> None:
    for task in [task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*")]:
        with suppress(OSError):
            os.sched_setaffinity(int(task.name), cores)
            if is_idle:
                os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))


def halves() -> tuple[set[int], set[int]]:
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[: max(1, len(cores) // 2)]), set(cores[len(cores) // 2 :])


class Reading:
    """Spark reads over and over, in a thread."""

    def __init__(self, read: Callable[[], object]) -> None:
        self.times = 0
        self._read = read
        self._is_wanted = True
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while self._is_wanted:
            self._read()
            self.times += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_wanted = False
        self._thread.join()


class Disturbance:
    def __init__(self, leader: Member, mirror: Member, java: int, command: str, seconds: float) -> None:
        self._leader = leader
        self._command = command
        self._seconds = seconds
        self._here, there = halves()
        self._repeated = 0
        confine(family(leader.pid), self._here)
        confine(family(mirror.pid), there)
        confine(family(java), there, is_idle=True)

    def measure(self, readers: dict[str, Callable[[], object]], count: int) -> dict[str, Any]:
        ways: dict[str, Callable[[], object] | None] = {"alone": None} | readers
        full: dict[str, list[Run]] = {name: [] for name in ways}
        steady: dict[str, list[Run]] = {name: [] for name in ways}
        times = 0
        for _ in range(ROUNDS):
            for name, read in ways.items():
                with Reading(read) if read is not None else nullcontext() as reading:
                    full[name].append(self._calm(0))
                    steady[name].append(self._calm(STEADY))
                times += reading.times if reading is not None and name == "mirrors" else 0
        return {"rows read from the mirror meanwhile": times * count, **self._figures(full, steady)}

    def _figures(self, full: dict[str, list[Run]], steady: dict[str, list[Run]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, every in full.items():
            found[f"published/s, {name}"] = [run.rate for run in every]
            found[f"leader's µs a message, {name}"] = [run.cost for run in every]
            found[f"median µs to a confirm at {STEADY}/s, {name}"] = [run.latency for run in steady[name]]
        found["runs made again for strangers' sake"] = self._repeated
        disturbed = [run for some in (*full.values(), *steady.values()) for run in some if run.strangers > STRANGERS]
        found["runs that strangers disturbed all the same"] = len(disturbed)
        for name in ("mirrors", "leader"):
            for what, runs, value in (("published", full, "rate"), ("cost of a message", full, "cost"),
                                      ("time to a confirm", steady, "latency")):  # fmt: skip
                ratio = _middle(runs[name], value) / _middle(runs["alone"], value)
                found[f"{what} with a reader at the {name.removesuffix('s')}"] = ratio
        return found

    def _calm(self, rate: int) -> Run:
        """A run without strangers, or else the one with the fewest."""
        runs = [self._publish(rate)]
        while runs[-1].strangers > STRANGERS and len(runs) < TRIES:
            time.sleep(1.0)
            runs.append(self._publish(rate))
        self._repeated += len(runs) - 1
        return min(runs, key=lambda run: run.strangers)

    def _publish(self, rate: int) -> Run:
        words = ["perf", "--json", "-h", f"amqp://127.0.0.1:{self._leader.port}", "-u", "published", "-x", "1", "-y", "1"]
        words += ["-s", "200", "-c", str(WINDOW), "-q", "512", "-A", "64", "-f", "persistent", "-ad", "false"]
        words += ["-z", str(self._seconds), "--warmup", "1", *(["-r", str(rate)] if rate else [])]
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._here)
        process = subprocess.Popen([self._command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.sched_setaffinity(0, mine)
        began, busy, ours, leader = time.monotonic(), busy_seconds(), _ours(), seconds_of(family(self._leader.pid))
        out, complaint = process.communicate(timeout=self._seconds + 120)
        if process.returncode:
            raise Failed(f"mirrormq perf: {complaint.strip()}")
        strangers = (busy_seconds() - busy - _ours() + ours) / (time.monotonic() - began)
        found = json.loads(out)["total"]
        rate_found = found["confirmed_per_s"]
        used = (seconds_of(family(self._leader.pid)) - leader) * 1e6
        return Run(rate_found, found["confirm_us"]["p50"], used / max(1.0, rate_found * (self._seconds + 1)), strangers)


def _ours() -> float:
    return seconds_of(family(os.getpid()))


def _middle(runs: list[Run], name: str) -> float:
    return float(median(getattr(run, name) for run in runs))
