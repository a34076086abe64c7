"""The long form: `PYTHONPATH=tests python -m fuzz.run --sequences N --seed S`.

A scenario that fails is named by seed and number: `--seed S --first NUMBER --shrink` runs it alone, in a broker of its
own, and prints the least that still fails. Memory is measured all along: after the first tenth it must not grow.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirrormq import is_compiled

from .runner import Runner, check_twins
from .scenario import SESSIONS, build, twins
from .shrink import describe, shrink
from .world import Violation

PAGE = resource.getpagesize()
MAY_GROW = 16 << 20
PATIENCE = 60
REPORT_EVERY = 20_000
TWINS_EVERY = 5


def resident() -> int:
    """Octets of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


@contextmanager
def patience(seconds: int) -> Iterator[None]:
    """A scenario takes milliseconds; one that takes a minute hangs."""

    def give_up(number: int, frame: object) -> None:
        raise Violation(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Campaign:
    """Scenarios one after the other in the same broker, until one fails."""

    def __init__(self, seed: int, first: int = 0) -> None:
        self.seed = seed
        self.number = first
        self.runner = Runner()
        self.seen: Counter[str] = self.runner.seen
        self.failures = 0

    def run(self, sequences: int, *, keep_going: bool = False) -> None:
        started = time.monotonic()
        done = 0
        settled = 0
        while done < sequences:
            self._scenario(keep_going=keep_going)
            done += SESSIONS
            if not settled and done * 10 >= sequences:
                settled = resident()
            if done % REPORT_EVERY == 0:
                rate = done / (time.monotonic() - started)
                print(f"{done} sequences, {rate:.0f} a second, {resident() >> 20} MiB", flush=True)
        grown = resident() - settled
        took = time.monotonic() - started
        print(f"{done} sequences in {took:.0f} s; memory grew by {grown >> 10} KiB in the last nine tenths")
        if grown > MAY_GROW:
            raise Violation(f"memory grew by {grown} octets")

    def _scenario(self, *, keep_going: bool) -> None:
        try:
            with patience(PATIENCE):
                self.runner.run(build(self.seed, self.number))
                if self.number % TWINS_EVERY == 0:
                    check_twins(*twins(self.seed, self.number))
        except Exception as fault:
            self.failures += 1
            if not keep_going:
                raise Violation(f"seed {self.seed} scenario {self.number}: {fault}") from fault
            root = fault.__cause__ or fault
            where = traceback.extract_tb(root.__traceback__)[-1]
            print(f"FAILED seed {self.seed} scenario {self.number}: {fault} ({where.filename}:{where.lineno})", flush=True)
            self.runner = Runner()
            self.runner.seen = self.seen
        self.number += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first scenario")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--shrink", action="store_true", help="make the scenario of --seed and --first small")
    options = parser.parse_args()
    if options.shrink:
        print(describe(shrink(build(options.seed, options.first))))
        return 0
    print(f"seed {options.seed}, {'compiled' if is_compiled() else 'not compiled'}", flush=True)
    campaign = Campaign(options.seed, options.first)
    campaign.run(options.sequences, keep_going=options.keep_going)
    for what, count in sorted(campaign.seen.items()):
        print(f"{count:10d} {what}")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
