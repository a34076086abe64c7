"""Segments that cannot be read, and more of them than a process may have open."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mirrormq.log.committer import Committer
from mirrormq.log.keeper import Keeper
from mirrormq.log.reader import MAX_OPEN

from .test_keeper import KIB, Node


def segments_of(folder: Path, queue_id: int) -> list[Path]:
    return sorted((folder / "queues" / f"{queue_id:x}").glob("*.seg"))


@pytest.mark.parametrize("harm", ["header", "entry", "cut", "gone"])
@pytest.mark.parametrize("kept", [2, 20])
def test_a_segment_that_cannot_be_read_is_named_and_other_queues_are_tidied_up(tmp_path: Path, harm: str, kept: int) -> None:
    """With 2 of 40 kept it is found while a segment is written anew, with 20 while its live bytes are counted."""
    node = Node(tmp_path, wal_bytes=256 * KIB, segment_bytes=2048 * KIB)
    bodies = [b"m" * 40 * KIB if number < 20 else b"s" * 20 * KIB for number in range(40)]
    found = {queue_id: node.publish(queue_id, bodies, per_chunk=10) for queue_id in (1, 2)}
    node.store.commit(roll=True)
    node.publish(3, [b"y"])
    node.store.commit(roll=True)
    node.tidy()
    (path,) = segments_of(tmp_path, 1)
    segment = node.store.queue(1).segments[0]       # type: ignore[union-attr]
    node.store.reader.close_segment(segment)
    if harm == "gone":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[{"header": 40 + 30, "entry": 40 + 56 + 12 + 2 + 40 * KIB, "cut": 0}[harm]] ^= 0x55
        path.write_bytes(data[: 60 if harm == "cut" else len(data)])
    for queue_id, indexes in found.items():
        node.ack(queue_id, [index for number, index in enumerate(indexes) if number % 40 >= kept])
    node.publish(3, [b"y"])
    node.store.commit(roll=True)
    node.tidy()
    assert len(node.store.wal.files) == 1
    assert str(path) in node.store.queue(1).damage          # type: ignore[union-attr]
    assert kept > 2 or sum(path.stat().st_size for path in segments_of(tmp_path, 2)) < 100 * KIB
    assert node.live_bodies(2) == bodies[:kept]


def test_reading_ahead_does_not_close_the_segment_that_is_read(tmp_path: Path) -> None:
    """Only so many segments are open at once, and the one to be closed may be the one in use."""
    node = Node(tmp_path, wal_bytes=4096 * KIB, segment_bytes=64 * KIB)
    first, second, _ = [node.publish(1, [b"%d" % number * 70 * KIB])[0] for number in range(3)]
    others = range(2, MAX_OPEN + 1)
    for queue_id in others:
        node.publish(queue_id, [b"m" * 70 * KIB])
    node.store.commit(roll=True)
    node.publish(1000, [b"y"])
    node.store.commit(roll=True)
    node.tidy()
    assert node.store.stats().segment_files == 3 + len(others)
    assert len(node.store.read(1, second, 1)) == 1          # opens the second and the third
    assert len(node.store.read(1, first, 1)) == 1           # and the first, which is the oldest when those are closed
    for queue_id in others:
        assert len(node.store.read(queue_id, 1, 1)) == 1
    assert [entry.index for entry in node.store.read(1, first, 1)] == [first]
    node.restart()


def take_every_descriptor() -> list[int]:
    taken: list[int] = []
    with suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    return taken


@contextmanager
def every_descriptor_taken() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))    # noqa: PTH208 - names, not files
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, highest + 16), hard))
        taken = take_every_descriptor()
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def segmented(folder: Path) -> Node:
    """Queues 1 and 2 have three segments each."""
    node = Node(folder, wal_bytes=1024 * KIB, segment_bytes=64 * KIB)
    for queue_id in (1, 2):
        node.publish(queue_id, [b"%d" % number * 70 * KIB for number in range(3)], per_chunk=1)
    node.store.commit(roll=True)
    node.publish(3, [b"y"])
    node.store.commit(roll=True)
    node.tidy()
    assert node.store.stats().segment_files == 6
    return node


def test_segments_are_read_though_clients_have_taken_every_descriptor(tmp_path: Path) -> None:
    node = segmented(tmp_path)
    with every_descriptor_taken():
        for _ in range(2):
            for queue_id in (1, 2):
                assert len(node.live_bodies(queue_id)) == 3
    node.restart()


def test_a_queue_is_deleted_though_clients_have_taken_every_descriptor(tmp_path: Path) -> None:
    node = segmented(tmp_path)
    with every_descriptor_taken():
        for queue_id in (1, 2):
            del node.queues[queue_id]
            node.store.drop(queue_id)
    node.commit()
    assert list((tmp_path / "queues").iterdir()) == []
    node.restart()


async def test_little_that_is_left_holds_no_space_though_the_log_does_not_move_on(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=8192 * KIB, segment_bytes=512 * KIB)
    published = node.publish(1, [b"m" * 100 * KIB for _ in range(60)], per_chunk=1)
    node.store.commit(roll=True)
    node.ack(1, node.publish(1, [b"beyond"]))
    node.store.commit(roll=True)
    node.tidy()
    node.ack(1, [index for number, index in enumerate(published) if number % 10])
    loop = asyncio.get_running_loop()
    committer = Committer(node.store, loop, lambda _: None, lambda _: None)
    keeper = Keeper(node.store, committer, loop, node.snapshot)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run())
        await committer.drain()
        assert node.store.stats().segment_bytes > 6000 * KIB
        keeper.compact(1)
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if len(segments_of(tmp_path, 1)) < 3:
                break
        keeping.cancel()
    assert node.bytes_in_use() < 700 * KIB
    node.restart()
    assert len(node.live_bodies(1)) == 6
