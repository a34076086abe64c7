"""kill -9 at random moments under load: everything reported durable is back, in order, and nothing comes back that ended.

MIRRORMQ_KILLS=200 kills more often.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

from mirrormq.log.store import Store

from .support import read_all

KILLS = int(os.environ.get("MIRRORMQ_KILLS", "12"))
CHILD = Path(__file__).with_name("crash_child.py")


def run_and_kill(folder: Path, seed: int, durable: dict[int, tuple[int, int]]) -> None:
    """Let the child work for a while, kill it, and note what it last told of each queue."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(seed)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout is not None
    with child.stdout as told:
        assert told.readline() == "ready\n"
        killer = threading.Timer(Random(seed).uniform(0.05, 1.5), child.kill)
        killer.start()
        for line in told:
            if line.endswith("\n"):
                queue_id, last, acked = map(int, line.split())
                durable[queue_id] = (last, acked)
    killer.join()
    assert child.wait() == -9


def check(folder: Path, durable: dict[int, tuple[int, int]]) -> int:
    """Open what the killed process left; returns how many messages are live."""
    store = Store(folder)
    recovery = store.open()
    assert recovery.missing == []
    total = 0
    for queue_id, (last, acked) in durable.items():
        found = recovery.queues[queue_id]
        assert found.damage is None
        assert list(found.live) == []
        live = [entry for entry in read_all(store, queue_id, found.cursor, 50_000) if entry.index not in found.gone]
        numbers = [tuple(map(int, entry.content.split()[:2])) for entry in live]
        assert [number[0] for number in numbers] == [entry.index for entry in live]
        assert all(numbers[at][1] == numbers[at - 1][0] for at in range(1, len(numbers)))
        assert found.count == len(live)
        assert found.bytes == sum(entry.size for entry in live)
        assert not live or live[0].index > acked
        assert found.next_index > last
        assert (live[-1].index if live else found.cursor) >= last
        total += len(live)
    store.close()
    return total


def test_everything_durable_is_back_after_each_kill(tmp_path: Path) -> None:
    durable: dict[int, tuple[int, int]] = {}
    seen = 0
    for seed in range(KILLS):
        run_and_kill(tmp_path, seed, durable)
        seen += check(tmp_path, durable)
    assert seen > 0


def test_a_start_waits_for_the_helper_of_a_killed_process(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    script = str(CHILD.with_name("worker_child.py"))
    child = subprocess.Popen([sys.executable, script, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    with child.stdout as told:
        assert told.readline() == "filling\n"
        child.kill()
    store = Store(tmp_path)
    store.open()
    child.wait()
    assert not list((tmp_path / "wal").glob("*.new"))
    assert [path.name for path in store.wal.spares] == ["x.spare"]
    store.close()
