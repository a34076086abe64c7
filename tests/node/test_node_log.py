"""The node's log: what it gives back to queues, and what it tells of the disk."""
from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from fuzz.world import World
from log.failing import FailingDisk
from mirrormq.broker import registry
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.message import address_of
from mirrormq.broker.queue import Queue
from mirrormq.log.entries import ChunkBuilder
from mirrormq.node.node_log import NodeLog
from mirrormq.wire.frames import content_frames


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


async def test_a_deleted_queue_whose_record_was_brought_back_has_its_messages_and_no_grave(tmp_path: Path) -> None:
    await leave_three(tmp_path / "log")
    log, queue = with_queue(tmp_path / "log")
    log.graves[queue.log_id] = None
    log.recover(asyncio.get_running_loop())
    assert (queue.next_index, queue.backlog.count) == (4, 3)
    assert log.graves == {}
    await log.close()


async def test_what_a_queue_did_after_the_last_turn_is_in_its_log_when_that_is_closed(tmp_path: Path) -> None:
    """In a stop, links to other nodes end after the last turn, and what their clients held goes back."""
    await leave_three(tmp_path / "log")
    log, queue = with_queue(tmp_path / "log")
    log.recover(asyncio.get_running_loop())
    queue.purge()
    await log.close()
    log, queue = with_queue(tmp_path / "log")
    log.recover(asyncio.get_running_loop())
    assert (queue.next_index, queue.backlog.count) == (5, 0)
    await log.close()


def with_queue(directory: Path) -> tuple[NodeLog, Queue]:
    """A log in that directory that is not open yet, and a queue that writes to it."""
    world = World()
    log = world.broker.log = NodeLog(directory, lambda _: None, lambda _: None, idle)
    log.attach(world.broker)
    vhost = world.broker.vhosts["/"]
    registry.create_queue(world.broker, vhost, "q", QueueArguments({}), durable=True, auto_delete=False, owner=None)
    world.store.commit()
    return log, vhost.queues["q"]


async def leave_three(directory: Path) -> None:
    """Messages of that queue."""
    log, queue = with_queue(directory)
    log.recover(asyncio.get_running_loop())
    builder = ChunkBuilder(queue.log_id, 1, 1)
    for _ in range(3):
        builder.enqueue(0, address_of("", "q"), content_frames(1, bytes(2), b"", 0), 0)
    log.append(queue.log_id, 1, 3, builder.seal(1), sync=True)
    await log.close()


async def test_a_log_that_began_with_nothing_counts_as_new_until_what_was_lost_is_written_down(tmp_path: Path) -> None:
    log = opened(tmp_path / "log")
    assert log.is_short
    shutil.copytree(tmp_path / "log", tmp_path / "crashed")         # as a crash leaves it
    crashed = opened(tmp_path / "crashed")
    assert crashed.is_short
    await crashed.begin()
    shutil.copytree(tmp_path / "crashed", tmp_path / "later")
    later = opened(tmp_path / "later")
    assert not later.is_short
    for each in (log, crashed, later):
        await each.close()


def opened(directory: Path) -> NodeLog:
    log = NodeLog(directory, lambda _: None, lambda _: None, idle)
    log.attach(World().broker)
    log.recover(asyncio.get_running_loop())
    return log
