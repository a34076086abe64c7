"""What the tests of the log share: a disk that loses power, queues as plain dictionaries, small stores."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path
from random import Random

from mirrormq.log.disk import Disk
from mirrormq.log.entries import TRANSIENT, ChunkBuilder, Entry
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.helper import Job, perform
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store


class PowerDisk(Disk):
    """Remembers what was written since the last sync of each file, and can take it back as a power failure would."""

    def __init__(self) -> None:
        self.undone: dict[str, list[tuple[int, bytes, int]]] = {}
        self.synced_bytes = 0

    def write(self, fd: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        size = sum(map(len, buffers))
        self.undone.setdefault(path, []).append((offset, os.pread(fd, size, offset), size))
        return super().write(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.undone.pop(str(Path(f"/proc/self/fd/{fd}").readlink()), None)

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        if str(old) in self.undone:
            self.undone[str(new)] = self.undone.pop(str(old))

    def lose_power(self, random: Random) -> None:
        """Each unsynced sector is new, old, zero or garbage."""
        for path, writes in self.undone.items():
            if Path(path).exists():
                with Path(path).open("r+b") as file:
                    for offset, old, size in reversed(writes):
                        _spoil(file.fileno(), offset, old, size, random)
        self.undone.clear()


def _spoil(fd: int, offset: int, old: bytes, size: int, random: Random) -> None:
    style = random.choice(("cut", "old", "mixed", "mixed", "keep"))
    if style == "cut" and len(old) < size:
        os.ftruncate(fd, offset + len(old) + random.randrange(size - len(old)))
        return
    for start in range(0, size, 512):
        stop = min(start + 512, size)
        choice = style if style != "mixed" else random.choice(("old", "keep", "zero", "garbage"))
        if choice == "old" or choice == "cut":
            os.pwrite(fd, old[start:stop].ljust(stop - start, b"\0"), offset + start)
        elif choice == "zero":
            os.pwrite(fd, bytes(stop - start), offset + start)
        elif choice == "garbage":
            os.pwrite(fd, random.randbytes(stop - start), offset + start)


class ModelQueue:
    """A queue as a dictionary: what the store should know of it."""

    def __init__(self, queue_id: int, next_index: int = 1) -> None:
        self.queue_id = queue_id
        self.next_index = next_index
        self.messages: dict[int, tuple[int, bytes, bytes, int, int]] = {}
        self.live: set[int] = set()
        self.ended = 0
        self.reserved = 0
        self.transient_below = 0

    def copy(self) -> ModelQueue:
        """The messages are shared: an index that was lost and given again means another message only after a restart."""
        other = ModelQueue(self.queue_id, self.next_index)
        other.messages = self.messages
        other.live = set(self.live)
        other.ended = self.ended
        other.reserved = self.reserved
        other.transient_below = self.transient_below
        return other

    def persistent(self) -> list[int]:
        return sorted(index for index in self.live if not self.messages[index][0] & TRANSIENT)

    def end(self, indexes: list[int]) -> tuple[list[int], int, int]:
        """Take messages away; returns what an ACK or DROP entry says of it."""
        count = [index for index in indexes if not self.messages[index][0] & TRANSIENT]
        size = sum(self.messages[index][3] for index in count)
        self.live.difference_update(indexes)
        self.ended = max([self.ended, *indexes])
        return flat_ranges(indexes), len(count), size

    def snapshot(self, epoch: int = 1) -> Snapshot:
        cursor = self.ended + 1
        live = array("Q", sorted(index for index in self.live if index < cursor))
        kept = self.persistent()
        size = sum(self.messages[index][3] for index in kept)
        return Snapshot(self.queue_id, epoch, self.next_index, cursor, live, self.reserved, len(kept), size, b"extra")

    def restarted(self) -> None:
        """Transient messages do not survive."""
        self.live = set(self.persistent())
        self.transient_below = self.next_index


def flat_ranges(indexes: list[int]) -> list[int]:
    out: list[int] = []
    for index in sorted(indexes):
        if out and out[-1] + 1 == index:
            out[-1] = index
        else:
            out += [index, index]
    return out


def read_all(store: Store, queue_id: int, start: int = 1, max_bytes: int = 4096) -> list[Entry]:
    """Everything from start on, in reads of about max_bytes."""
    out: list[Entry] = []
    while True:
        found = store.read(queue_id, start, max_bytes)
        if not found:
            return out
        out += found
        start = found[-1].index + 1


def recovered_live(queue: RecoveredQueue, messages: dict[int, tuple[int, bytes, bytes, int, int]]) -> list[int]:
    """The persistent messages that recovery calls live."""
    above = [index for index in messages if queue.cursor <= index < queue.next_index and index not in queue.gone]
    return sorted(index for index in [*queue.live, *above] if not messages[index][0] & TRANSIENT)


def append_messages(
    store: Store, queue_id: int, bodies: list[bytes], *, per_chunk: int = 1, flags: int = 0, time_ms: int = 1
) -> list[int]:
    """Append messages behind what the queue has; returns their indexes."""
    builder = ChunkBuilder(queue_id, 1, store.next_index(queue_id))
    indexes = []
    for body in bodies:
        indexes.append(builder.enqueue(flags, b"to", body, len(body)))
        if builder.count >= per_chunk:
            seal(store, builder, time_ms)
    seal(store, builder, time_ms)
    return indexes


def append_ack(store: Store, queue_id: int, indexes: list[int], size: int) -> None:
    builder = ChunkBuilder(queue_id, 1, store.next_index(queue_id))
    builder.ack(flat_ranges(indexes), len(indexes), size)
    seal(store, builder, 1)


def seal(store: Store, builder: ChunkBuilder, time_ms: int) -> None:
    if builder.count:
        first, count = builder.first_index, builder.count
        store.append(builder.queue_id, first, count, builder.seal(time_ms))


def half_done(job: Job, random: Random) -> None:
    """What a crash leaves of a job: some of its files, with some of their bytes, perhaps garbage."""
    if job[0] == "copy":
        for target, offset, head, _ in job[1]:
            if random.random() < 0.7:
                _half_written(Path(target), offset, head, random)
    elif job[0] == "fill":
        Path(job[1] + ".new").write_bytes(bytes(random.randrange(job[2])))
    elif job[0] == "remove":
        perform(("remove", [path for path in job[1] if random.random() < 0.5]))
    elif job[0] == "remove_tree" and Path(job[1]).exists():
        names = job[2] if len(job) > 2 else [path.name for path in Path(job[1]).iterdir()]
        perform(("remove", [f"{job[1]}/{name}" for name in names if random.random() < 0.5]))


def _half_written(target: Path, offset: int, head: bytes, random: Random) -> None:
    target.parent.mkdir(exist_ok=True)
    if not target.exists():
        target.write_bytes(head[: random.randrange(len(head) + 1)])
    with target.open("r+b") as file:
        file.seek(offset)
        file.write(random.randbytes(random.randrange(3000)))


def fast_folder() -> Path:
    """A new folder in memory where there is one: what these tests sync need not be on a disk."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))


def abandon(store: Store) -> None:
    """Let go of the store's files as a killed process would: nothing is written."""
    store.reader.close()
    store.wal.close()
    os.close(store.lock_fd)
