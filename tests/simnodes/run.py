"""make sim: run whole-node seeds on all cores, or replay one with its trace."""

from __future__ import annotations

from simnodes.timing import install, real_time

install()       # before anything of MirrorMQ is imported

import argparse  # noqa: E402
import os  # noqa: E402
import select  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402

from simnodes.seed import run_seed  # noqa: E402
from simnodes.world import MEMORY  # noqa: E402

LONGEST = 120.0         # real seconds of one seed, after which it counts as hanging


def child(seed: int, without: tuple[str, ...], scenario: str, *, is_tracing: bool, out: int) -> None:
    """A process of its own for each seed, so that nothing of another one is left in it."""
    directory = MEMORY / f"simnodes-{os.getpid()}"
    shutil.rmtree(directory, ignore_errors=True)
    try:
        try:
            violations, made = run_seed(seed, directory, without=without, is_tracing=is_tracing, scenario=scenario)
            if is_tracing:
                print("\n".join(made.world.trace))
            text = " | ".join(violations[:2]).replace("\n", " ")
            ledger, struck = made.ledger, made.faults.counts
            size = (f"{made.world.now:.0f} s, {made.world.count} events, {ledger.confirmed} confirmed, "
                    f"{ledger.delivered} delivered, {ledger.committed} commits, {made.scenario or 'any'} faults {struck}")
        except BaseException as fault:  # noqa: BLE001 - the simulation's own faults are findings too
            text, size = f"(simulation) {fault!r} {traceback.format_exc()[-1500:]}".replace("\n", " "), ""
        os.write(out, f"{seed}\t{text}\t{size}\n".encode()[:4000])
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        sys.stdout.flush()
        os._exit(0)


class Pool:
    """Children, one seed each, as many at once as there are cores."""

    def __init__(self, seeds: range, without: tuple[str, ...], scenario: str, jobs: int, *, stops: bool) -> None:
        self._seeds = iter(seeds)
        self._without = without
        self._scenario = scenario
        self._jobs = jobs
        self._stops = stops             # at the first violation
        self._running: dict[int, tuple[int, int, float]] = {}
        self.results: list[tuple[int, str, str]] = []

    def _launch(self) -> bool:
        has_ended = self._stops and any(sentence for _, sentence, _ in self.results)
        seed = None if has_ended else next(self._seeds, None)
        if seed is None:
            return False
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ours)
            child(seed, self._without, self._scenario, is_tracing=False, out=theirs)
        os.close(theirs)
        self._running[ours] = (pid, seed, real_time())
        return True

    def run(self) -> None:
        while len(self._running) < self._jobs and self._launch():
            pass
        while self._running:
            ready, _, _ = select.select(list(self._running), [], [], 1.0)
            for fd, (pid, seed, began) in list(self._running.items()):
                if fd not in ready and real_time() - began > LONGEST:
                    os.kill(pid, 9)
                    self._over(fd, pid, seed, f"{seed}\t(hangs) after {LONGEST:g} s of real time\t")
                elif fd in ready:
                    self._over(fd, pid, seed, os.read(fd, 8192).decode(errors="replace").rstrip("\n"))
            while len(self._running) < self._jobs and self._launch():
                pass

    def _over(self, fd: int, pid: int, seed: int, line: str) -> None:
        os.waitpid(pid, 0)
        os.close(fd)
        del self._running[fd]
        shutil.rmtree(MEMORY / f"simnodes-{pid}", ignore_errors=True)
        parts = (line or f"{seed}\t(died) its process ended\t").split("\t")
        self.results.append((seed, parts[1], parts[2] if len(parts) > 2 else ""))
        if parts[1]:
            print(f"seed {seed}: {parts[1]}", flush=True)
        if len(self.results) % 100 == 0:
            print(f"{len(self.results)} seeds, {sum(1 for result in self.results if result[1])} with a violation", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate clusters of whole nodes.")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stop", action="store_true", help="begin no other seed after a violation")
    parser.add_argument("--replay", type=int, help="one seed, with its trace")
    parser.add_argument("--without", default="", help="sorts of faults to leave out, with commas")
    parser.add_argument("--scenario", default="", help="gentle, forced, calm, kills, return, deposed or changing, for each seed")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":         # sets of names must have the same order each time
        os.execve(sys.executable, [sys.executable, "-m", "simnodes.run", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})
    without = tuple(filter(None, options.without.split(",")))
    if options.replay is not None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            child(options.replay, without, options.scenario, is_tracing=True, out=writing)
        os.waitpid(pid, 0)
        print(os.read(reading, 8192).decode().replace("\t", "\n  "))
        return 0
    began = real_time()
    pool = Pool(range(options.first, options.first + options.seeds), without, options.scenario, options.jobs,
                stops=options.stop)
    pool.run()
    took = real_time() - began
    failed = sorted(result for result in pool.results if result[1])
    count = len(pool.results)
    print(f"{count} seeds in {took:.0f} s, {count / took * 3600:.0f} an hour; {len(failed)} with a violation")
    for seed, sentence, _ in failed:
        print(f"  {seed}: {sentence[:300]}")
    if failed:
        print(f"replay one with: PYTHONPATH=src:tests python -m simnodes.run --replay {failed[0][0]}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
