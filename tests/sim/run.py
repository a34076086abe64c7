"""make sim: run seeds, or replay one with its trace."""

from __future__ import annotations

import argparse
import sys
import time

from mirrormq.mirror.machine.rules import NAMES, Rules
from sim.world import World, describe, run_seed


def rules_without(name: str) -> Rules:
    rules = Rules()
    if name:
        assert hasattr(rules, name)
        setattr(rules, name, False)
    return rules


def replay(seed: int, without: str, last: int) -> int:
    """The seed's trace, and what it led to."""
    world = World(seed, rules_without(without), tracing=True)
    outcome = "clean"
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  # whatever breaks is a finding
        outcome = describe(error)
    print("\n".join(world.trace[-last:] if last else world.trace))
    print(f"seed {seed}: {outcome}")
    return int(outcome != "clean")


def search(first: int, count: int, without: str, *, stop: bool) -> int:
    began = time.process_time()
    failures = 0
    for seed in range(first, first + count):
        violation = run_seed(seed, rules_without(without))
        if violation and not (without and "(5)" in violation):  # a rule that is missing must cost more than time
            failures += 1
            print(f"seed {seed}: {violation}", flush=True)
            if stop:
                break
    took = time.process_time() - began
    ran = seed - first + 1
    print(f"{ran} seeds in {took:.1f} s of one core, {ran / took:.0f} a second, {failures} with a violation")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate clusters of replication machines.")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--replay", type=int, help="one seed, with its trace")
    parser.add_argument("--last", type=int, default=0, help="only so many lines of the trace")
    parser.add_argument("--without", default="", choices=("", *NAMES), help="switch one safety rule off")
    parser.add_argument("--stop", action="store_true", help="at the first violation, and replay it")
    options = parser.parse_args()
    if options.replay is not None:
        return replay(options.replay, options.without, options.last)
    return int(search(options.first, options.seeds, options.without, stop=options.stop) > 0)


if __name__ == "__main__":
    sys.exit(main())
