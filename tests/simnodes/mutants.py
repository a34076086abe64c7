"""Proof that the simulation can find: one mend at a time is taken out of a copy of the sources, and seeds run until one fails.

    PYTHONPATH=tests python -m simnodes.mutants [--seeds 5000] [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
SOURCES = TESTS.parent / "src" / "mirrormq"
FAILED = re.compile(r"seed (\d+): (.*)")


@dataclass(frozen=True)
class Change:
    """In one file below src/mirrormq. The old text occurs there exactly once."""

    file: str
    old: str
    new: str

    def apply(self, directory: Path) -> None:
        path = directory / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise SystemExit(f"{self.file} has the text {self.old!r} {text.count(self.old)} times instead of once")
        path.write_text(text.replace(self.old, self.new))


@dataclass(frozen=True)
class Mutant:
    """`fault` is what users would see. The violation that is expected has one of the `marks` in its sentence."""

    name: str
    fault: str
    marks: tuple[str, ...]
    changes: tuple[Change, ...]


MUTANTS = (
    Mutant(
        "forced-promotion-writes-no-entry",
        "A node that was not in sync takes over by force. It does not end by name what it lacks, and states are not compared, so "
        "members that differ count as in sync.",
        ("(differ)", "(count)", "argument out of range"),
        (
            Change("mirror/rings.py",
                   "        if missing is not None:\n"
                   "            queue.end_lost(missing)\n"
                   "            holding.state.lost_in = holding.state.epoch\n"
                   "        else:\n"
                   "            holding.state.lost_in = found.lost_in\n",
                   "        if holding.makes_do:\n"
                   "            holding._end_making_do()\n"
                   "        holding.state.lost_in = found.lost_in\n"),
            Change("mirror/machine/leading.py", "                if node in s.alike:\n", "                if node:\n"),
            Change("mirror/machine/compare.py", "    if others:\n        ask(s, others)\n", ""),
        ),
    ),
    Mutant(
        "parked-work-is-dropped-in-silence",
        "Work for a mirrored queue that nobody leads is dropped after five seconds, and so are runs of which the one before was "
        "dropped. Clients hang if the same node leads on.",
        ("(unanswered)",),
        (
            Change("broker/forward/reception.py",
                   "            if waiting[0].ticks > PATIENCE and log_id not in self.forwarding.mirrored:\n"
                   "                self.queue_known(log_id)\n",
                   "            if waiting[0].ticks > PATIENCE:\n"
                   "                if log_id in self.forwarding.mirrored:\n"
                   "                    del self.parked[log_id]\n"
                   "                else:\n"
                   "                    self.queue_known(log_id)\n"),
            Change("broker/forward/intake.py",
                   "        reception.drop(log_id)          # it comes again, behind those that are missing\n", ""),
        ),
    ),
    Mutant(
        "returning-node-leaves-its-old-log",
        "A node that starts outside the view neither holds nor drops its old log. When it is a mirror again the log is taken for "
        "a new one, the node has a fault, and it does not take its copy anew.",
        ("a state never goes back", "does not hold index", "(in sync)"),
        (
            Change("node/mirroring.py",
                   "            if not view.holds(self.rings.me):\n"
                   "                self._leave(front, view, revision, found.get(log_id))\n"
                   "            else:\n",
                   "            if view.holds(self.rings.me):\n"),
            Change("node/mirroring.py",
                   "            is_fresh = queue is not None or self._runtime.log.store.queue(front.log_id) is None\n",
                   "            is_fresh = True\n"),
            Change("mirror/rings.py",
                   "(isinstance(fault, QueueDamaged) or holding.state.view.ring != (self.me,)):\n",
                   "isinstance(fault, QueueDamaged):\n"),
        ),
    ),
    Mutant(
        "fence-outlives-its-session",
        "The acknowledgements of a transaction go with a broken session, and the fence behind them is asked of the next leader: "
        "commit-ok, and the messages are back.",
        ("(committed)",),
        (
            Change("broker/forward/requests.py",
                   "        self.waiters: list[Barrier] = waiters\n        self.survives = False\n",
                   "        self.waiters: list[Barrier] = waiters\n"),
            Change("broker/forward/embassy.py",
                   "        if self.port is None:\n"
                   "            request.cut_off()\n"
                   "            return\n"
                   "        id = self.forwarding.next_id()\n"
                   "        self.requests[id] = request\n"
                   "        self._send(id, request)\n",
                   "        id = self.forwarding.next_id()\n"
                   "        self.requests[id] = request\n"
                   "        if self.port is not None:\n"
                   "            self._send(id, request)\n"),
            Change("broker/forward/away.py",
                   "        if self.embassy.port is None:\n"
                   "            waiter.is_lost = True           # so are the settlements that it waits for\n"
                   "            return\n", ""),
            Change("broker/forward/away.py",
                   "        fences, self.fences = self.fences, []\n        lose_all(fences)\n", ""),
        ),
    ),
    Mutant(
        "stale-acknowledgement-is-committed",
        "A transaction acknowledges a message that its queue has already taken back. The acknowledgement is dropped: commit-ok, "
        "and the message is back.",
        ("(committed)",),
        (
            Change("broker/transaction.py",
                   "        for delivery in acks + rejects:\n"
                   "            if _is_lost(delivery):\n"
                   "                barrier.is_lost = True\n"
                   "            elif (delivery",
                   "        for delivery in acks:\n"
                   "            if (delivery"),
        ),
    ),
    Mutant(
        "deposed-leader-delivers-on",
        "A leader that is cut off goes on delivering what it has reserved, as new, while its successor delivers the same.",
        ("(redelivered)",),
        (
            Change("mirror/rings.py", "            queue.is_doubted = True\n", "            queue.is_doubted = False\n"),
        ),
    ),
    Mutant(
        "transient-messages-stay-behind",
        "Transient messages that were in a queue before it was mirrored are not given to the mirrors, which count as in sync. "
        "After a clean stop they are gone.",
        ("(lost)",),
        (
            Change("mirror/rings.py",
                   "        if is_turned:\n            queue.log_light(held_of(self.broker, queue))\n", ""),
        ),
    ),
    Mutant(
        "dead-node-is-probed-once",
        "A node whose link is down is asked once whether it refuses connections. If its listener is closed a moment later, it "
        "counts as up until its lease runs out.",
        ("(dead)",),
        (
            Change("node/cluster.py",
                   "                failures += 1\n"
                   "                await asyncio.sleep(retry_pause(failures, random.random()))"
                   "  # noqa: S311 - spreads attempts, guards nothing\n",
                   "                return\n"),
        ),
    ),
    Mutant(
        "cancel-ok-comes-early",
        "The home answers a cancel before the other nodes know that an auto-delete queue has gone with its last consumer. "
        "Only the client's own node waits until it knows.",
        ("(passing)",),
        (
            Change("broker/forward/reception.py",
                   "            self.forwarding.broker.parting.append(LastLeft(before + 1, journal.written, self, request))\n",
                   '            self.answer(request, b"\\x01")\n'),
            Change("broker/forward/requests.py",
                   'gone from this node too."""\n        self.finish()\n',
                   'gone from this node too."""\n'
                   "        if data and not self.queue.is_deleted:\n"
                   "            self.queue.farewells.append(self)\n"
                   "        else:\n"
                   "            self.finish()\n"),
            Change("broker/forward/away.py",
                   "        self.fences: list[Barrier] = []\n",
                   "        self.fences: list[Barrier] = []\n"
                   "        self.farewells = []\n"),
            Change("broker/forward/away.py",
                   "        self.stale_below = self.highest + 1\n",
                   "        while self.farewells:\n"
                   "            self.farewells.pop().finish()\n"
                   "        self.stale_below = self.highest + 1\n"),
            Change("broker/forward/away.py",
                   "        self.embassy.queue_ended(self)\n",
                   "        while self.farewells:\n"
                   "            self.farewells.pop().finish()\n"
                   "        self.embassy.queue_ended(self)\n"),
        ),
    ),
    Mutant(
        "close-ok-comes-early",
        "The close-ok of a connection does not wait until an auto-delete queue on another node has gone with its consumer.",
        ("(passing)",),
        (
            Change("broker/forward/embassy.py",
                   "            elif consumer.away.auto_delete:\n"
                   "                self.ask(GoodbyeRequest(consumer, connection if connection.is_parting else None))\n", ""),
        ),
    ),
    Mutant(
        "going-queue-is-declared",
        "A queue whose end is proposed is declared as if it stayed, and is gone when the client consumes from it.",
        ("(passing)",),
        (
            Change("broker/forward/reception.py",
                   "        if queue.is_going and kind in (CONSUME, INSPECT):\n", "        if False:\n"),
            Change("broker/ops_basic.py",
                   "    if queue.is_going and agreement.await_fate(broker, channel, method, queue):\n        return\n", ""),
        ),
    ),
)


# --- running -------------------------------------------------------------------------------------------------------------


def copy_sources(directory: Path) -> Path:
    """Returns the folder for PYTHONPATH, with nothing compiled in it."""
    target = directory / "mirrormq"
    shutil.copytree(SOURCES, target, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyc", "*.c"))
    return directory


def environment(sources: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(sources), str(TESTS)]), "PYTHONDONTWRITEBYTECODE": "1",
                         "PYTHONHASHSEED": "0"}


def require_sources(sources: Path) -> None:
    """The installed package must not be taken instead."""
    program = "import mirrormq, mirrormq.mirror.rings as rings; print(mirrormq.__file__, rings.__file__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment(sources))
    places = done.stdout.split()
    if not places or not all(place.startswith(str(sources)) and place.endswith(".py") for place in places):
        raise SystemExit(f"the sources below {sources} are not used: {done.stdout}{done.stderr}")


def first_violation(sources: Path, first: int, last: int, jobs: int) -> tuple[int, str] | None:
    """The first seed that fails, and the sentence; or None."""
    command = [sys.executable, "-m", "simnodes.run", "--first", str(first), "--seeds", str(last - first + 1), "--jobs", str(jobs),
               "--stop"]
    found: list[tuple[int, str]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(sources)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            match = FAILED.match(line)
            if match is not None:
                found.append((int(match[1]), match[2]))
            elif " seeds, " in line:
                print(f"  {first - 1 + int(line.split()[0])} seeds", flush=True)
    if not found and process.returncode:
        raise SystemExit(f"simnodes.run ended with {process.returncode}")
    return min(found, default=None)


def find(mutant: Mutant, sources: Path, untouched: Path, seeds: int, jobs: int) -> tuple[int, str]:
    """How many seeds it took, and what was found; 0 if nothing was."""
    seed = 0
    others: list[str] = []
    while seed < seeds:
        found = first_violation(sources, seed + 1, seeds, jobs)
        if found is None:
            break
        seed, sentence = found
        if not any(mark in sentence for mark in mutant.marks):
            others.append(f"seed {seed}: {sentence[:40]}")
            print(f"  seed {seed} fails in another way: {sentence[:300]}", flush=True)
        elif first_violation(untouched, seed, seed, 1) is not None:
            others.append(f"seed {seed}, without the change too")
            print(f"  seed {seed} fails without the change too: {sentence[:300]}", flush=True)
        else:
            return seed, sentence + (f" (before: {', '.join(others)})" if others else "")
    return 0, "not found" + (f" (but: {', '.join(others)})" if others else "")


def main() -> int:
    names = [mutant.name for mutant in MUTANTS]
    parser = argparse.ArgumentParser(description="Take mends out of a copy of the sources, one at a time, and simulate.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--seeds", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="a directory that keeps the changed sources, for --replay")
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    rows: list[tuple[str, int, str]] = []
    with tempfile.TemporaryDirectory(prefix="simnodes-mutants-") as temporary:
        directory = (options.keep or Path(temporary)).resolve()
        untouched = copy_sources(directory / "untouched")
        for mutant in MUTANTS:
            if options.names and mutant.name not in options.names:
                continue
            print(f"{mutant.name}: {mutant.fault}", flush=True)
            sources = copy_sources(directory / mutant.name)
            for change in mutant.changes:
                change.apply(sources / "mirrormq")
            require_sources(sources)
            seed, what = find(mutant, sources, untouched, options.seeds, options.jobs)
            rows.append((mutant.name, seed, what))
            print(f"  {seed or 'not found'}: {what[:300]}", flush=True)
    print(f"\n{'mutant':40} {'seeds':>6}  violation")
    for name, seed, what in rows:
        print(f"{name:40} {seed or '-':>6}  {what[:200]}")
    return int(any(not seed for _, seed, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
