"""What a reader costs who publishes: messages a second with confirms on the leader alone, while Spark is busy with rows of its
own, while it reads from the mirror, and while it reads from the leader, in turn.

All is on one machine, so it is made to look like two. The leader and the publisher have half of the cores, the mirror and Spark
the other half. Nodes and publisher are scheduled before everybody else, if we may say so, and Spark only when nobody else wants
to run, as if it were elsewhere. So it is in every run, and all is written to disk before each.

The mirror's cores are not what they were while Spark runs there, whatever it does: they share memory with the leader's, and are
never asleep, which makes it cheaper to wake the mirror. So what the reading costs is seen beside a Spark that is busy otherwise.

What a machine does changes from minute to minute. So runs that are compared follow each other at once, in turn from either
side, and what counts is the median of their ratios. Runs in which others, or the machine's host, had more than a tenth of a core
are counted: it matters where the nodes do not come first, and for the disk.

At full speed the publisher may have 4,096 messages unconfirmed: so the leader has always something to do, and the figure is what
it can do. Then it sends at 60 % of that, which leaves room: what is confirmed there falls only if the ring cannot keep up, and
the time to a confirm tells what a busy mirror costs those who wait for it. The leader's processor time for each message is its
own, whoever else runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol, Self

from processes import TICK, Failed, family, seconds_of

ROUNDS = 5
MOST_ROUNDS = 15
STRANGERS = 0.1     # of a core: more, and a run is counted as disturbed
SHARE = 0.6         # of what the leader can do: the rate that leaves it room
WINDOW = 4096
BASES = ("alone", "busy otherwise")


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


def busy_seconds() -> float:
    """Of all cores, whoever had them: another machine on the same host too."""
    user, nice, system, _, _, irq, soft, steal, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + soft + steal) / TICK


def tasks_of(pids: Iterable[int]) -> list[int]:
    return [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").glob("*")]


def confine(pids: Iterable[int], cores: set[int]) -> None:
    for task in tasks_of(pids):
        with suppress(OSError):
            os.sched_setaffinity(task, cores)


def schedule(pids: Iterable[int], policy: int, priority: int) -> bool:
    """Whether we may."""
    try:
        for task in tasks_of(pids):
            with suppress(ProcessLookupError):
                os.sched_setscheduler(task, policy, os.sched_param(priority))
    except PermissionError:
        return False
    return True


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
        confine(family(leader.pid), self._here)
        confine(family(mirror.pid) | family(java), there)
        self._is_first = schedule(family(leader.pid) | family(mirror.pid), os.SCHED_RR, 1)
        schedule(family(java), os.SCHED_IDLE, 0)

    def measure(
        self, work: Callable[[], object], readers: dict[str, Callable[[], object]], count: int, wanted: int
    ) -> dict[str, Any]:
        """`work` reads nothing, `readers` read `count` rows each time; it goes on until `wanted` were read from the mirror."""
        ways: dict[str, Callable[[], object] | None] = {BASES[0]: None, BASES[1]: work, **readers}
        full: dict[str, list[Run]] = {name: [] for name in ways}
        steady: dict[str, list[Run]] = {name: [] for name in ways}
        room = int(SHARE * self._publish(0).rate)
        rows = number = 0
        while number < ROUNDS or (rows < wanted and number < MOST_ROUNDS):
            order = list(ways) if number % 2 == 0 else list(ways)[::-1]
            for runs, rate in ((full, 0), (steady, room)):
                for name in order:
                    run, times = self._beside(ways[name], rate)
                    runs[name].append(run)
                    rows += times * count if name == "mirrors" else 0
            number += 1
        return {"rows read from the mirror meanwhile": rows, **_figures(full, steady)}

    def _beside(self, read: Callable[[], object] | None, rate: int) -> tuple[Run, int]:
        """A run while somebody reads, and how often it was read to the end."""
        if read is None:
            return self._publish(rate), 0
        with Reading(read) as reading:
            run = self._publish(rate)
        return run, reading.times

    def _publish(self, rate: int) -> Run:
        os.sync()
        words = ["perf", "--json", "-h", f"amqp://127.0.0.1:{self._leader.port}", "-u", "published", "-x", "1", "-y", "1"]
        words += ["-s", "200", "-c", str(WINDOW), "-q", "512", "-A", "64", "-f", "persistent", "-ad", "false"]
        words += ["-z", str(self._seconds), "--warmup", "1", *(["-r", str(rate)] if rate else [])]
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._here)
        process = subprocess.Popen([self._command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.sched_setaffinity(0, mine)
        if self._is_first:
            schedule([process.pid], os.SCHED_RR, 1)
        began, busy, ours, leader = time.monotonic(), busy_seconds(), _ours(), seconds_of(family(self._leader.pid))
        out, complaint = process.communicate(timeout=self._seconds + 120)
        if process.returncode:
            raise Failed(f"mirrormq perf: {complaint.strip()}")
        strangers = (busy_seconds() - busy - _ours() + ours) / (time.monotonic() - began)
        found = json.loads(out)["total"]
        rate_found = found["confirmed_per_s"]
        used = (seconds_of(family(self._leader.pid)) - leader) * 1e6
        return Run(rate_found, found["confirm_us"]["p50"], used / max(1.0, rate_found * (self._seconds + 1)), strangers)


def _figures(full: dict[str, list[Run]], steady: dict[str, list[Run]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, fast in full.items():
        found[f"published/s, {name}"] = [run.rate for run in fast]
        found[f"published/s at {SHARE:.0%}, {name}"] = [run.rate for run in steady[name]]
        found[f"leader's µs a message, {name}"] = [run.cost for run in fast]
        found[f"median µs to a confirm at {SHARE:.0%}, {name}"] = [run.latency for run in steady[name]]
    every = [run for runs in (full, steady) for some in runs.values() for run in some]
    found["runs"] = len(every)
    found["of them disturbed by others"] = sum(run.strangers > STRANGERS for run in every)
    for name in [name for name in full if name not in BASES]:
        for what, runs, value in (("published", full, "rate"), (f"published at {SHARE:.0%}", steady, "rate"),
                                  ("leader's time for a message", full, "cost"),
                                  (f"leader's time for a message at {SHARE:.0%}", steady, "cost"),
                                  (f"time to a confirm at {SHARE:.0%}", steady, "latency")):  # fmt: skip
            for base in BASES:
                found[f"{what}, {name} : {base}"] = _ratio(runs[name], runs[base], value)
    return found


def _ratio(some: list[Run], others: list[Run], name: str) -> float:
    """The median over pairs that followed each other."""
    return float(median(getattr(one, name) / getattr(other, name) for one, other in zip(some, others, strict=True)))


def _ours() -> float:
    return seconds_of(family(os.getpid()))
