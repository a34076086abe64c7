"""make chaos: a cluster of real nodes under random faults, in rounds: faults, then quiet, then checks."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from chaos.checks import leave_and_return, resume, settle
from chaos.faults import WEIGHTS, draw
from chaos.ledger import Ledger
from chaos.network import Network, Unavailable, require
from chaos.processes import Refused
from chaos.world import Broken, World

ROUND = 30.0            # seconds of faults in one round
MEMBERS = 3             # of etcd


def main() -> int:
    options = _options()
    try:
        require()
    except Unavailable as unavailable:
        print(unavailable, file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    directory = Path(options.dir or tempfile.mkdtemp(prefix="mirrormq-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}, {options.nodes} nodes, {options.minutes:g} minutes; logs in {directory}", flush=True)
    code = 1
    with (directory / "chaos.log").open("a", buffering=1) as log:
        begin = time.monotonic()
        ledger = Ledger(lambda text: print(f"{time.strftime('%H:%M:%S')} {time.monotonic() - begin:8.2f} {text}", file=log))
        network = Network()
        world: World | None = None
        try:
            network.open()
            world = World(directory, network, ledger, options.seed, options.nodes, MEMBERS)
            _rounds(world, options)
        except (Broken, Refused) as broken:
            ledger.find("the cluster is out of use", str(broken))
        except Unavailable as unavailable:
            print(unavailable, file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("\nInterrupted.", flush=True)
        finally:
            # A second interrupt must not leave anything behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if world is not None:
                world.close()
                code = _summary(world, time.monotonic() - begin)
            network.close()
    if code or options.keep:
        print(f"The logs are in {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def _rounds(world: World, options: argparse.Namespace) -> None:
    ledger = world.ledger
    world.start()
    world.begin()
    end = time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        ledger.round += 1
        before = len(ledger.findings)
        seconds = min(ROUND, max(10.0, end - time.monotonic()))
        ledger.say(f"round {ledger.round}")
        world.run(draw(f"{options.seed} {ledger.round}", seconds, len(world.nodes), MEMBERS, options.faults), seconds)
        if "leave" in options.faults and ledger.round % 2 == 0:
            world.heal()
            world.wait_whole()
            leave_and_return(world, random.Random(f"{options.seed} {ledger.round} leave").choice(world.nodes))
        settle(world, drains_all=ledger.round % 2 == 0 or time.monotonic() > end)
        if len(ledger.findings) > before:
            if options.stop:
                return
            world.begin()       # what is broken now must not be found again in every round
        else:
            resume(world)


def _summary(world: World, seconds: float) -> int:
    ledger = world.ledger
    print(f"\n{ledger.round} rounds in {seconds / 60:.1f} minutes, {world.faults} faults: "
          + ", ".join(f"{count} {name}" for name, count in sorted(ledger.totals.items())))
    for reason, count in ledger.reasons.most_common(12):
        print(f"  closed {count} times: {reason}")
    kinds = Counter(finding.kind for finding in ledger.findings)
    print(f"{len(ledger.findings)} findings" + "".join(f"\n  {count} times: {kind}" for kind, count in kinds.most_common()))
    for finding in ledger.findings[:40]:
        print(f"\nround {finding.round}, {finding.at:.0f} s: {finding.kind}: {finding.text[:1500]}")
    return int(bool(ledger.findings))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Real nodes under random faults.")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--nodes", type=int, default=3, choices=(3, 5))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--dir", default="", help="where data and logs go; a new one below the directory for temporary files")
    parser.add_argument("--stop", action="store_true", help="after the first round with a finding")
    parser.add_argument("--keep", action="store_true", help="the directory, though nothing was found")
    parser.add_argument("--faults", type=lambda text: text.split(","), default=[*WEIGHTS, "leave"],
                        help="only these, with commas: " + ", ".join([*WEIGHTS, "leave"]))
    return parser.parse_args()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
