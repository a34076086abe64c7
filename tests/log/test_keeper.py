"""Tidying up while the store is in use: files stay few, nothing live is lost, one old message holds nothing else."""

from __future__ import annotations

import asyncio
import errno
import os
from array import array
from pathlib import Path

import pytest

from mirrormq.log.committer import Committer
from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.helper import Job, perform
from mirrormq.log.keeper import Keeper, due_work
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store
from mirrormq.log.syncer import ThreadSyncer, Worker

from .keeping import KIB, Node
from .support import append_messages, read_all


def test_one_old_message_pins_neither_log_files_nor_segments(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=256 * KIB, segment_bytes=128 * KIB)
    (oldest,) = node.publish(1, [b"unacknowledged" * 10])
    backlog: list[int] = []
    for turn in range(400):
        backlog += node.publish(1, [b"%d" % turn * 100 for _ in range(20)])
        if turn >= 100:
            node.ack(1, backlog[:20])
            del backlog[:20]
        node.commit()
    node.ack(1, backlog)
    node.publish(1, [b"x" * 1000 for _ in range(300)])
    node.ack(1, sorted(node.queue(1).live - {oldest}))
    for _ in range(3):
        node.publish(2, [b"y"])
        node.store.commit(roll=True)
        node.tidy()
    assert node.live_bodies(1) == [b"unacknowledged" * 10]
    assert node.bytes_in_use() < 10 * KIB
    node.restart()
    entry = node.store.read_one(1, oldest)
    assert entry is not None
    assert entry.content == b"unacknowledged" * 10


def test_scattered_old_messages_are_brought_together(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=256 * KIB, segment_bytes=64 * KIB)
    indexes: list[int] = []
    for turn in range(200):
        indexes += node.publish(1, [b"%d" % turn * 50 for _ in range(20)], per_chunk=20)
        node.commit()
    assert node.store.stats().segment_files > 5
    kept = indexes[::100]
    node.ack(1, sorted(set(indexes) - set(kept)))
    for _ in range(3):
        node.publish(2, [b"y"])
        node.store.commit(roll=True)
        node.tidy()
    assert node.store.stats().segment_files <= 1
    assert node.bytes_in_use() < 30 * KIB
    assert [entry.index for entry in read_all(node.store, 1) if entry.index in node.queue(1).live] == kept
    node.restart()
    assert len(node.live_bodies(1)) == len(kept)


def test_thousands_of_small_queues_have_no_files_of_their_own(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for turn in range(3):
        for queue_id in range(2000):
            node.publish(queue_id, [b"%d" % turn])
        node.store.commit(roll=True)
        node.tidy()
    assert list((tmp_path / "queues").iterdir()) == []
    node.restart()
    assert all(node.live_bodies(queue_id) == [b"0", b"1", b"2"] for queue_id in range(0, 2000, 37))


def test_when_all_states_together_outgrow_a_file_tidying_up_still_ends(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=4 * KIB)
    for queue_id in range(100):
        node.publish(queue_id, [b"m" * 100])
    node.commit()
    for _ in range(5):
        node.publish(1, [b"more"])
        node.commit()
    assert len(node.store.wal.files) <= 2
    node.restart()
    assert all(node.live_bodies(queue_id)[0] == b"m" * 100 for queue_id in range(100))


def test_a_dropped_queue_leaves_nothing_behind(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=64 * KIB, segment_bytes=32 * KIB)
    for _ in range(100):
        node.publish(1, [b"m" * 1000 for _ in range(5)])
        node.commit()
    assert list((tmp_path / "queues").iterdir())
    del node.queues[1]
    node.store.drop(1)
    node.commit()
    assert list((tmp_path / "queues").iterdir()) == []
    node.restart()
    assert 1 not in node.store._queues


def test_trim_gives_segments_back_as_a_backlog_is_consumed(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=64 * KIB, segment_bytes=32 * KIB)
    indexes: list[int] = []
    for _ in range(100):
        indexes += node.publish(1, [b"m" * 1000 for _ in range(5)])
        node.commit()
    before = node.store.stats().segment_files
    node.ack(1, indexes[: len(indexes) // 2])
    snapshot = node.snapshot(1)
    assert snapshot is not None
    assert node.store.trim(1, snapshot)
    assert not node.store.trim(1, snapshot)
    node.commit()
    assert len(list((tmp_path / "queues" / "1").iterdir())) == node.store.stats().segment_files <= before // 2 + 1
    assert len(node.live_bodies(1)) == len(indexes) - len(indexes) // 2


def test_a_queue_may_start_with_a_snapshot(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    store.put_snapshot(Snapshot(7, 3, 1000, 1000, array("Q"), extra=b"from a mirror"))
    append_messages(store, 7, [b"first here"])
    store.close()
    store = Store(tmp_path)
    queue = store.open().queues[7]
    assert (queue.next_index, queue.cursor, queue.count, queue.extra) == (1001, 1000, 1, b"from a mirror")
    assert [entry.index for entry in read_all(store, 7)] == [1000]
    store.close()


def test_retired_files_are_used_again(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=64 * KIB)
    for turn in range(200):
        indexes = node.publish(1, [b"%d" % turn * 300 for _ in range(5)])
        node.ack(1, indexes)
        node.commit()
    assert node.store.wal.current.sequence > 5
    assert node.store.wal.current.capacity > 0
    assert len(list((tmp_path / "wal").iterdir())) <= 4
    node.restart()


async def test_the_keeper_works_beside_publishers_on_an_event_loop(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    node = Node(tmp_path, wal_bytes=64 * KIB, segment_bytes=32 * KIB)
    committer = Committer(node.store, loop, lambda _: None, lambda _: None)
    keeper = Keeper(node.store, committer, loop, node.snapshot)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        live: list[int] = []
        for turn in range(300):
            live += node.publish(1 + turn % 3, [b"%d" % turn * 50 for _ in range(10)])
            if turn % 3 == 0:
                node.ack(1, sorted(node.queue(1).live)[:9])
            committer.kick()
            await asyncio.sleep(0)
        await committer.drain()
        while len(node.store.wal.files) > 1:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
        keeping.cancel()
    committer.close()
    for queue_id in (1, 2, 3):
        queue = node.queue(queue_id)
        assert node.live_bodies(queue_id) == [queue.messages[index][2] for index in sorted(queue.live)]
    node.restart()
    for queue_id in (1, 2, 3):
        assert len(node.live_bodies(queue_id)) == len(node.queue(queue_id).live)


def test_reading_goes_on_where_it_stopped_within_a_large_chunk(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=1024 * KIB)
    builder = ChunkBuilder(1, 1, 1)
    for number in range(5000):
        builder.enqueue(0, b"", b"%d" % number * 20, 1)
    node.store.append(1, 1, 5000, builder.seal(1))
    node.store.commit()
    found = read_all(node.store, 1, max_bytes=3000)
    assert [entry.content for entry in found] == [b"%d" % number * 20 for number in range(5000)]
    assert node.store.reader._partials == {}
    node.store.close()


def test_a_segment_is_not_given_up_while_it_is_written_to(tmp_path: Path) -> None:
    """Everything in it ended, and its owner trims, just when live chunks are being copied behind them."""
    node = Node(tmp_path, wal_bytes=512 * KIB, segment_bytes=512 * KIB)
    old = node.publish(1, [b"old" * 100 for _ in range(500)])
    node.store.commit(roll=True)
    node.publish(2, [b"x"])
    node.store.commit(roll=True)
    node.tidy()
    assert node.store.stats().segment_files == 1
    node.publish(1, [b"new" * 100 for _ in range(500)])
    node.ack(1, old)
    node.store.commit()
    node.publish(2, [b"x"])
    node.store.commit(roll=True)
    for step in due_work(node.store, node.snapshot):
        if step.job is not None:
            snapshot = node.snapshot(1)
            assert snapshot is not None
            node.store.trim(1, snapshot)
            perform(step.job)
        elif step.position > node.store.durable:
            node.store.commit()
    assert node.live_bodies(1) == [b"new" * 100] * 500
    node.restart()
    assert node.live_bodies(1) == [b"new" * 100] * 500


async def test_publishers_that_outrun_the_keeper_are_slowed_down(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    node = Node(tmp_path, wal_bytes=16 * KIB, segment_bytes=64 * KIB)
    committer = Committer(node.store, loop, lambda _: None, lambda _: None)
    keeper = Keeper(node.store, committer, loop, node.snapshot)
    most = 0
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        for _ in range(1500):
            node.publish(1, [b"m" * 1000 for _ in range(4)])
            committer.kick()
            await asyncio.sleep(0)
            most = max(most, len(node.store.wal.files))
        await committer.drain()
        keeping.cancel()
    committer.close()
    assert most < 40
    assert len(node.live_bodies(1)) == 6000
    node.store.close()


def test_a_small_old_message_does_not_hold_large_ones_beside_it(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=1024 * KIB, segment_bytes=1024 * KIB)
    large = node.publish(1, [b"L" * 200 * KIB, b"M" * 200 * KIB])
    small = node.publish(1, [b"small", b"little"])
    node.commit()
    node.publish(2, [b"x"])
    node.store.commit(roll=True)
    node.tidy()
    assert node.store.stats().segment_bytes > 400 * KIB
    node.ack(1, large)
    node.ack(1, node.publish(1, [b"beyond"]))
    for _ in range(2):
        node.publish(2, [b"x"])
        node.store.commit(roll=True)
        node.tidy()
    assert node.bytes_in_use() < 10 * KIB
    assert sorted(node.queue(1).live) == small
    assert node.live_bodies(1) == [b"small", b"little"]
    node.restart()
    assert node.live_bodies(1) == [b"small", b"little"]


def test_a_large_message_is_not_held_by_small_ones_of_the_same_chunk(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=1024 * KIB, segment_bytes=1024 * KIB)
    large, *small = node.publish(1, [b"L" * 400 * KIB, b"small", b"little"])
    node.commit()
    node.ack(1, [large])
    node.ack(1, node.publish(1, [b"beyond"]))
    for _ in range(2):
        node.publish(2, [b"x"])
        node.store.commit(roll=True)
        node.tidy()
    assert node.bytes_in_use() < 10 * KIB
    assert sorted(node.queue(1).live) == small
    node.restart()
    assert node.live_bodies(1) == [b"small", b"little"]


def test_what_was_thinned_out_is_not_written_anew_before_more_of_it_is_gone(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=1024 * KIB, segment_bytes=1024 * KIB)
    published = node.publish(1, [b"%4d" % number * KIB for number in range(100)], per_chunk=100)
    node.ack(1, [index for number, index in enumerate(published) if number % 10])
    node.ack(1, node.publish(1, [b"beyond"]))
    node.commit()
    files = []
    for _ in range(4):
        node.ack(1, node.publish(1, [b"x"]))
        node.store.commit(roll=True)
        node.tidy()
        files.append(sorted(tmp_path.rglob("*.seg")))
    assert files[0]
    assert files[0] == files[1] == files[2] == files[3]
    assert node.bytes_in_use() < 60 * KIB
    assert node.live_bodies(1) == [b"%4d" % number * KIB for number in range(0, 100, 10)]


class SpareRefuser(Worker):
    """Whatever the reason is: no spare file."""

    def __init__(self, loop: asyncio.AbstractEventLoop, error: int) -> None:
        super().__init__(loop)
        self.error = error
        self.refused = 0

    async def perform(self, job: Job) -> None:
        if job[0] == "fill":
            self.refused += 1
            raise OSError(self.error, os.strerror(self.error))
        perform(job)


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES, errno.ENOENT, errno.ENOSPC])
async def test_a_spare_that_cannot_be_made_is_no_fault_and_holds_up_nothing(tmp_path: Path, error: int) -> None:
    loop = asyncio.get_running_loop()
    node = Node(tmp_path, wal_bytes=16 * KIB, segment_bytes=64 * KIB)
    faults: list[str | None] = []
    committer = Committer(node.store, loop, lambda _: None, faults.append, syncer=ThreadSyncer(loop))
    worker = SpareRefuser(loop, error)
    keeper = Keeper(node.store, committer, loop, node.snapshot, faults.append, worker=worker)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        node.publish(1, [b"m" * 1000])
        await committer.drain()
        while not worker.refused:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)
        for _ in range(4):
            node.publish(1, [b"m" * 1000 for _ in range(10)])
            await committer.drain()
        while len(node.store.wal.files) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        keeping.cancel()
    committer.close()
    assert faults == []
    assert len(node.live_bodies(1)) == 41


def test_a_job_that_fills_a_file_and_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.spare").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        perform(("fill", str(tmp_path / "x.spare"), KIB))
    assert [path.name for path in tmp_path.iterdir()] == ["x.spare"]
