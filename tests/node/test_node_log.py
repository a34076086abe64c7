"""The node's log: what the disk refuses is told until nothing is refused any more."""
from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

from fuzz.world import World
from log.failing import FailingDisk
from mirrormq.log.entries import ChunkBuilder
from mirrormq.node.node_log import NodeLog


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not happen")


def idle(*, is_behind: bool) -> None:
    assert not is_behind


async def test_a_commit_that_works_again_does_not_end_the_fault_of_tidying_up(tmp_path: Path) -> None:
    told: list[str | None] = []
    log = NodeLog(tmp_path / "log", lambda _: None, told.append, idle)
    log.store.disk = disk = FailingDisk()
    log.attach(World().broker)
    log.recover(asyncio.get_running_loop())
    stuck = tmp_path / "not a file"
    stuck.mkdir()
    log.store.discard([stuck])
    await until(lambda: len(told) == 1)
    disk.error = errno.ENOSPC
    builder = ChunkBuilder(2, 1, 1)
    builder.reserve(1)
    log.append(2, 1, 1, builder.seal(1), sync=True)
    log.kick()
    await until(lambda: len(told) == 2)
    disk.error = 0
    await until(lambda: len(told) == 3)
    assert told[0] is not None
    assert told[0] == told[2] != told[1]
    stuck.rmdir()
    await until(lambda: len(told) == 4)
    assert told[3] is None
    await log.close()
