"""Tidying up where the disk has no room: nothing is lost, and what frees space does not wait for what needs some."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.log.committer import Committer
from mirrormq.log.helper import Job, perform
from mirrormq.log.keeper import Keeper
from mirrormq.log.syncer import ThreadSyncer, Worker

from .keeping import KIB, Node


class FullDiskWorker(Worker):
    """Refuses every other copy, and the first try of anything else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.tries: dict[str, int] = {}

    async def perform(self, job: Job) -> None:
        key = "copy" if job[0] == "copy" else repr(job)
        tries = self.tries.get(key, 0)
        self.tries[key] = tries + 1
        if tries < 1 or (job[0] == "copy" and tries % 2 == 0):
            raise OSError(errno.ENOSPC, "No space left on device")
        perform(job)


async def test_a_full_disk_delays_tidying_up_and_is_reported_until_it_works(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    node = Node(tmp_path, wal_bytes=16 * KIB, segment_bytes=64 * KIB)
    faults: list[str | None] = []
    committer = Committer(node.store, loop, lambda _: None, lambda _: None, syncer=ThreadSyncer(loop))
    keeper = Keeper(node.store, committer, loop, node.snapshot, faults.append, worker=FullDiskWorker(loop))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        for _ in range(4):
            node.publish(1, [b"m" * 1000 for _ in range(10)])
            await committer.drain()
        while len(node.store.wal.files) > 1 or not faults or faults[-1] is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        keeping.cancel()
    committer.close()
    assert "No space left on device" in str(faults[0])
    assert len(node.live_bodies(1)) == 40
    node.restart()
    assert len(node.live_bodies(1)) == 40


class CrampedWorker(Worker):
    """Has no room for copies until it is given some."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.has_room = False
        self.refused = 0

    async def perform(self, job: Job) -> None:
        if job[0] == "copy" and not self.has_room:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        perform(job)


def filled(tmp_path: Path) -> tuple[Node, dict[int, list[int]]]:
    """Two queues in segments, nothing in the log but their states."""
    node = Node(tmp_path, wal_bytes=1024 * KIB, segment_bytes=128 * KIB)
    indexes = {queue_id: node.publish(queue_id, [b"%d" % number * 100 for number in range(1000)]) for queue_id in (1, 2)}
    for _ in range(2):
        node.publish(3, [b"y"])
        node.store.commit(roll=True)
        node.tidy()
    assert len(list((tmp_path / "queues").iterdir())) == 2
    return node, indexes


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.01)


async def test_where_there_is_no_room_to_bring_segments_together_what_frees_some_goes_on(tmp_path: Path) -> None:
    node, indexes = filled(tmp_path)
    files = len(list((tmp_path / "queues/1").iterdir()))
    node.ack(1, sorted(set(indexes[1]) - set(indexes[1][::50])))
    loop = asyncio.get_running_loop()
    faults: list[str | None] = []
    committer = Committer(node.store, loop, lambda _: None, lambda _: None, syncer=ThreadSyncer(loop))
    worker = CrampedWorker(loop)
    keeper = Keeper(node.store, committer, loop, node.snapshot, faults.append, worker=worker)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        keeper.compact(1)
        committer.kick()
        await until(lambda: worker.refused > 0)
        del node.queues[2]
        node.store.drop(2)
        committer.kick()
        await until(lambda: not (tmp_path / "queues/2").exists())
        assert worker.refused == 1, "it is given up, and not tried again by itself"
        assert faults == [], "nothing waits for it"
        worker.has_room = True
        keeper.try_again()
        committer.kick()
        await until(lambda: (committer.kick(), len(list((tmp_path / "queues/1").iterdir())) < files)[1])
        keeping.cancel()
    committer.close()
    assert len(node.live_bodies(1)) == 20
    node.restart()
    assert len(node.live_bodies(1)) == 20


@pytest.mark.parametrize("deleted", [1, 2])
async def test_while_a_file_cannot_be_dissolved_for_lack_of_room_a_deleted_queue_makes_some(tmp_path: Path, deleted: int) -> None:
    """Be it another queue, or the one whose messages are about to be moved."""
    node, _ = filled(tmp_path)
    node.publish(1, [b"%d" % number * 200 for number in range(500)])
    loop = asyncio.get_running_loop()
    faults: list[str | None] = []
    committer = Committer(node.store, loop, lambda _: None, lambda _: None, syncer=ThreadSyncer(loop))
    worker = CrampedWorker(loop)
    keeper = Keeper(node.store, committer, loop, node.snapshot, faults.append, worker=worker)
    node.store.commit()
    node.publish(3, [b"y"])
    node.store.commit(roll=True)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        committer.kick()
        await until(lambda: worker.refused > 0)
        del node.queues[deleted]
        node.store.drop(deleted)
        committer.kick()
        await until(lambda: not (tmp_path / f"queues/{deleted}").exists())
        assert deleted == 1 or len(faults) == 1, "what was removed does not end the trouble, unless it was what had to be moved"
        assert "No space left on device" in str(faults[0])
        worker.has_room = True
        await until(lambda: (committer.kick(), len(node.store.wal.files) == 1 and faults[-1] is None)[1])
        keeping.cancel()
    committer.close()
    other = 3 - deleted
    expected = node.queue(other).messages
    assert node.live_bodies(other) == [expected[index][2] for index in sorted(expected)]
    node.restart()
    assert len(node.live_bodies(other)) == len(expected)
    assert [path.name for path in (tmp_path / "queues").iterdir()] == [str(other)]


async def test_while_a_file_cannot_be_dissolved_the_queue_that_was_to_be_moved_may_be_drained(tmp_path: Path) -> None:
    """Then there is nothing to be moved, and its segments go, although there never was any room."""
    node, indexes = filled(tmp_path)
    node.ack(2, indexes[2])
    more = node.publish(1, [b"%d" % number * 200 for number in range(500)])
    loop = asyncio.get_running_loop()
    faults: list[str | None] = []
    committer = Committer(node.store, loop, lambda _: None, lambda _: None, syncer=ThreadSyncer(loop))
    worker = CrampedWorker(loop)
    keeper = Keeper(node.store, committer, loop, node.snapshot, faults.append, worker=worker)
    node.store.commit()
    node.publish(3, [b"y"])
    node.store.commit(roll=True)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        committer.kick()
        await until(lambda: worker.refused > 0)
        node.ack(1, indexes[1] + more)

        def has_gone() -> bool:
            for queue_id in (1, 2):
                snapshot = node.snapshot(queue_id)
                assert snapshot is not None
                node.store.trim(queue_id, snapshot)
            committer.kick()
            return len(node.store.wal.files) == 1 and not list(tmp_path.rglob("*.seg"))

        await until(has_gone)
        await until(lambda: faults[-1] is None)
        keeping.cancel()
    committer.close()
    assert (len(faults), worker.has_room) == (2, False)
    node.restart()
    assert (node.live_bodies(1), len(node.live_bodies(3))) == ([], 3)


async def test_large_messages_that_could_not_be_brought_together_are_tried_again(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=8192 * KIB, segment_bytes=8192 * KIB)
    large = node.publish(1, [b"L" * 500 * KIB, b"s", b"L" * 500 * KIB, b"s"], per_chunk=1)
    for _ in range(2):
        node.publish(3, [b"y"])
        node.store.commit(roll=True)
        node.tidy()
    node.ack(1, large[::2])
    node.ack(1, node.publish(1, [b"beyond"]))
    loop = asyncio.get_running_loop()
    committer = Committer(node.store, loop, lambda _: None, lambda _: None, syncer=ThreadSyncer(loop))
    worker = CrampedWorker(loop)
    keeper = Keeper(node.store, committer, loop, node.snapshot, worker=worker)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        keeper.compact(1)
        committer.kick()
        await until(lambda: worker.refused > 0)
        worker.has_room = True
        await until(lambda: (keeper.try_again(), committer.kick(), node.store.stats().segment_bytes < 10 * KIB)[2])
        keeping.cancel()
    committer.close()
    assert node.live_bodies(1) == [b"s", b"s"]
    node.store.close()
