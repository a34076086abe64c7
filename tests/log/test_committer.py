"""Group commit from an event loop, on a disk that works and on one that does not."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.log.committer import Committer
from mirrormq.log.store import Store
from mirrormq.log.syncer import ProcessSyncer, Syncer, ThreadSyncer

from .failing import FailingDisk, FailingSyncer
from .support import abandon, append_messages, read_all


class Bench:
    """A store, its committer, and what the committer told."""

    def __init__(self, folder: Path, make: Callable[[asyncio.AbstractEventLoop], Syncer], **sizes: int) -> None:
        self.folder = folder
        self.disk = FailingDisk()
        self.store = Store(folder, disk=self.disk, **sizes)
        self.store.open()
        self.durable: list[int] = []
        self.faults: list[str | None] = []
        loop = asyncio.get_running_loop()
        self.syncer = make(loop)
        self.committer = Committer(
            self.store, loop, self.durable.append, self.faults.append, syncer=self.syncer
        )

    def publish(self, body: bytes, queue_id: int = 1) -> None:
        append_messages(self.store, queue_id, [body])

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)

    def bodies(self, queue_id: int = 1) -> list[bytes]:
        return [entry.content for entry in read_all(self.store, queue_id)]

    def reopened(self) -> list[bytes]:
        """What a crash now would leave."""
        abandon(self.store)
        self.store = Store(self.folder)
        recovery = self.store.open()
        assert all(queue.damage is None for queue in recovery.queues.values())
        return self.bodies()

    def close(self) -> None:
        self.committer.close()
        abandon(self.store)


@pytest.mark.parametrize("make", [ThreadSyncer, ProcessSyncer])
async def test_what_is_appended_during_a_commit_goes_into_the_next(tmp_path: Path, make: type[ThreadSyncer]) -> None:
    bench = Bench(tmp_path, make)
    bench.publish(b"1")
    bench.committer.kick()
    for number in range(2, 6):
        bench.publish(b"%d" % number)
        bench.committer.kick()
    assert bench.committer.busy
    assert bench.bodies() == [b"1", b"2", b"3", b"4", b"5"]
    await bench.committer.drain()
    assert len(bench.durable) == 2
    assert bench.durable[-1] == bench.store.position == bench.store.durable
    assert bench.store.pending_bytes == 0
    assert bench.reopened() == [b"1", b"2", b"3", b"4", b"5"]
    bench.close()


async def test_a_large_batch_is_written_in_slices(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ThreadSyncer)
    bodies = [bytes([n]) * 3_000_000 for n in range(3)]
    for body in bodies:
        bench.publish(body)
    await bench.committer.drain()
    assert bench.reopened() == bodies
    bench.close()


async def test_what_needs_no_durability_is_not_synced(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FailingSyncer)
    bench.publish(b"first of its file")
    await bench.committer.drain()
    requests = bench.syncer.requests  # type: ignore[attr-defined]
    bench.publish(b"spilled")
    bench.committer.kick(sync=False)
    await bench.until(lambda: not bench.committer.busy)
    assert bench.syncer.requests == requests  # type: ignore[attr-defined]
    assert bench.reopened() == [b"first of its file", b"spilled"]
    bench.close()


async def test_what_was_written_without_a_sync_is_synced_when_somebody_waits_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FailingSyncer)
    bench.publish(b"first of its file")
    await bench.committer.drain()
    synced = bench.store.position
    requests = bench.syncer.requests  # type: ignore[attr-defined]
    bench.publish(b"spilled")
    bench.committer.kick(sync=False)
    await bench.until(lambda: not bench.committer.busy)
    assert (bench.store.durable, bench.durable[-1]) == (synced, synced)
    bench.committer.kick()
    await bench.until(lambda: not bench.committer.busy)
    assert bench.durable[-1] == bench.store.durable == bench.store.position
    assert bench.syncer.requests == requests + 1  # type: ignore[attr-defined]
    bench.committer.kick()
    assert not bench.committer.busy
    bench.close()


async def test_what_joins_a_commit_before_its_sync_was_asked_for_is_not_told_durable_until_then(tmp_path: Path) -> None:
    """The turn in which a mirror's entry came has not ended when the commit under way does."""
    bench = Bench(tmp_path, FailingSyncer)
    bench.publish(b"first")
    bench.committer.kick()
    synced = bench.store.position
    bench.publish(b"second")
    await bench.until(lambda: not bench.committer.busy)
    assert bench.store.pending_bytes == 0
    assert bench.durable == [synced, synced]
    bench.committer.kick()
    await bench.until(lambda: not bench.committer.busy)
    assert bench.durable[-1] == bench.store.position
    bench.close()


async def test_when_a_later_sync_fails_what_was_written_before_is_written_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FailingSyncer)
    bench.publish(b"before")
    await bench.committer.drain()
    good = bench.store.wal.current.end
    bench.publish(b"unsynced")
    bench.committer.kick(sync=False)
    await bench.until(lambda: not bench.committer.busy)
    bench.syncer.failures = 1  # type: ignore[attr-defined]
    await bench.committer.drain()
    assert bench.faults[1:] == [None]
    first = bench.store.wal.files[0]
    assert (len(bench.store.wal.files), first.end) == (2, good)
    os.truncate(first.path, good)
    assert bench.store.pending_bytes == 0
    assert bench.reopened() == [b"before", b"unsynced"]
    bench.close()


@pytest.mark.parametrize("partly", [0, 10, 100])
async def test_a_full_disk_loses_nothing_and_is_left_behind_when_space_returns(tmp_path: Path, partly: int) -> None:
    bench = Bench(tmp_path, ThreadSyncer)
    bench.publish(b"before")
    await bench.committer.drain()
    bench.disk.error, bench.disk.partly = errno.ENOSPC, partly
    bench.publish(b"during")
    bench.committer.kick()
    await bench.until(lambda: bench.disk.refused >= 2)
    bench.publish(b"more")
    bench.committer.kick()
    assert len(bench.faults) == 1
    assert "No space left on device" in str(bench.faults[0])
    assert bench.bodies() == [b"before", b"during", b"more"]
    assert len(bench.durable) == 1
    bench.disk.error = 0
    await bench.committer.drain()
    assert bench.faults[1:] == [None]
    assert bench.reopened() == [b"before", b"during", b"more"]
    bench.close()


@pytest.mark.parametrize("failures", [1, 3])
async def test_after_a_failed_sync_the_data_is_written_anew_elsewhere(tmp_path: Path, failures: int) -> None:
    bench = Bench(tmp_path, FailingSyncer)
    bench.publish(b"before")
    await bench.committer.drain()
    good = bench.store.wal.current.end
    bench.publish(b"unsynced")
    bench.committer.kick(sync=False)
    await bench.until(lambda: not bench.committer.busy)
    bench.syncer.failures = failures  # type: ignore[attr-defined]
    bench.publish(b"during")
    bench.committer.kick()
    bench.publish(b"after")
    bench.committer.kick()
    await bench.committer.drain()
    assert bench.faults[-1] is None
    assert "Input/output error" in str(bench.faults[0])
    first = bench.store.wal.files[0]
    assert len(bench.store.wal.files) == 2
    assert first.end == good
    # What the failed sync was for may have been lost by the kernel: it must not matter.
    os.truncate(first.path, good)
    assert bench.bodies() == [b"before", b"unsynced", b"during", b"after"]
    assert bench.store.pending_bytes == 0
    assert bench.reopened() == [b"before", b"unsynced", b"during", b"after"]
    bench.close()


async def test_a_failed_sync_while_a_file_is_begun_begins_it_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FailingSyncer, wal_bytes=1000)
    bench.syncer.failures = 1  # type: ignore[attr-defined]
    bench.publish(b"1" * 900)
    await bench.committer.drain()
    bench.publish(b"2" * 900)
    bench.committer.kick(sync=False)
    bench.syncer.failures = 2  # type: ignore[attr-defined]
    bench.publish(b"3" * 900)
    await bench.committer.drain()
    assert bench.reopened() == [b"1" * 900, b"2" * 900, b"3" * 900]
    bench.close()


async def test_when_the_helper_is_killed_a_thread_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ProcessSyncer)
    bench.publish(b"1")
    await bench.committer.drain()
    helper = bench.syncer._helper  # type: ignore[attr-defined]
    os.kill(helper.process.pid, signal.SIGKILL)
    helper.process.wait()
    for number in range(2, 5):
        bench.publish(b"%d" % number)
        await bench.committer.drain()
    assert bench.faults == []
    assert bench.reopened() == [b"1", b"2", b"3", b"4"]
    bench.close()


async def test_when_the_helper_is_killed_at_a_sync_the_data_is_written_anew(tmp_path: Path) -> None:
    """The sync may have failed, and no other sync of these files would say so."""
    bench = Bench(tmp_path, ProcessSyncer)
    bench.publish(b"1")
    await bench.committer.drain()
    helper = bench.syncer._helper  # type: ignore[attr-defined]
    os.kill(helper.process.pid, signal.SIGSTOP)
    bench.publish(b"2")
    bench.committer.kick()
    os.kill(helper.process.pid, signal.SIGKILL)
    await bench.committer.drain()
    assert "is gone" in str(bench.faults[0])
    assert bench.faults[1:] == [None]
    assert len(bench.store.wal.files) == 2
    assert bench.reopened() == [b"1", b"2"]
    bench.close()


@pytest.mark.parametrize("name", ["gone.spare", "a file/out of reach.spare"])
async def test_a_spare_that_cannot_be_taken_is_not_missed(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path, ThreadSyncer, wal_bytes=1000)
    (tmp_path / "wal" / "a file").touch()
    bench.store.wal.spares.append(tmp_path / "wal" / name)
    async with asyncio.timeout(60):
        for number in range(3):
            bench.publish(b"%d" % number * 900)
            await bench.committer.drain()
    assert bench.faults == []
    bench.close()


async def test_a_signal_to_the_group_does_not_take_the_helper_away(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ProcessSyncer)
    bench.publish(b"1")
    await bench.committer.drain()
    helper = bench.syncer._helper  # type: ignore[attr-defined]
    os.kill(helper.process.pid, signal.SIGTERM)
    os.kill(helper.process.pid, signal.SIGINT)
    bench.publish(b"2")
    await bench.committer.drain()
    assert helper.process.poll() is None
    bench.close()
    assert helper.process.poll() == 0
