"""A node's disk: files in memory, a note of everything that is not synced yet, and a loss of power that takes some of it.

Files lie in a directory of a file system in memory and are read as always. What changes them comes through the log's `Disk` port;
each change is noted with what it replaced until its file, or its directory, has been synced. `lose_power` takes back the changes
of each file, and the names of each directory, from some point on. What goes past the port (small files that are synced where
they are written, and jobs of the worker) is durable when it is done.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.cluster.coordination import Coordination
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.log.disk import Disk
from mirrormq.log.helper import Job, perform
from mirrormq.log.syncer import Callback, Syncer, Worker
from mirrormq.node.config import NodeConfig
from mirrormq.node.surroundings import Surroundings
from simnodes.store import SimStore

if TYPE_CHECKING:
    from simnodes.loop import SimLoop
    from simnodes.world import World


class Change:
    """Bytes that were written and not synced, with what was there before."""

    def __init__(self, offset: int, old: bytes, size: int) -> None:
        self.offset = offset
        self.old = old
        self.size = size


class Naming:
    """A name that was given or taken and is not synced, and how to take that back."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self.undo = undo


class SimDisk(Disk):
    """It outlives the processes of its node, as a disk does."""

    def __init__(self, world: World, root: Path) -> None:
        self.world = world
        self.root = root
        self.is_failing = False
        self.changes: dict[int, list[Change]] = {}
        self.paths: dict[int, Path] = {}
        self.namings: dict[str, list[Naming]] = {}
        self._attic = 0

    def _check(self) -> None:
        if self.is_failing:
            raise OSError(errno.EIO, "Input/output error")

    def _keep(self, path: Path) -> Path:
        """Another name for a file, so that it can come back."""
        self._attic += 1
        spare = self.root.parent / "attic" / f"{self.root.name}-{self._attic}"
        spare.parent.mkdir(exist_ok=True)
        os.link(path, spare)
        return spare

    def _named(self, path: Path, undo: Callable[[], None]) -> None:
        self.namings.setdefault(str(path.parent), []).append(Naming(undo))

    # --- the port ----------------------------------------------------------------------------------------------------

    def create(self, path: Path) -> int:
        self._check()
        is_new = not path.exists()
        fd = super().create(path)
        inode = os.fstat(fd).st_ino
        self.paths[inode] = path
        if is_new:
            self._named(path, lambda: path.unlink(missing_ok=True))
        return fd

    def write(self, fd: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
        self._check()
        status = os.fstat(fd)
        length = sum(len(buffer) for buffer in buffers[:512])
        old = os.pread(fd, length, offset)
        self.changes.setdefault(status.st_ino, []).append(Change(offset, old, status.st_size))
        return super().write(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        self._check()
        self.changes.pop(os.fstat(fd).st_ino, None)

    def sync_directory(self, path: Path) -> None:
        self._check()
        self.namings.pop(str(path), None)

    def truncate(self, fd: int, length: int) -> None:
        self._check()
        status = os.fstat(fd)
        old = os.pread(fd, max(0, status.st_size - length), length)
        self.changes.setdefault(status.st_ino, []).append(Change(length, old, status.st_size))
        super().truncate(fd, length)

    def rename(self, old: Path, new: Path) -> None:
        self._check()
        kept = self._keep(new) if new.exists() else None

        def undo() -> None:
            if new.exists():
                new.rename(old)
            if kept is not None:
                kept.rename(new)

        super().rename(old, new)
        self.paths[new.stat().st_ino] = new
        self._named(new, undo)

    def unlink(self, path: Path) -> None:
        self._check()
        if path.exists():
            kept = self._keep(path)
            self._named(path, lambda: None if path.exists() else _move(kept, path))
        super().unlink(path)

    # --- what a sync and a loss of power do --------------------------------------------------------------------------

    def stand(self, fd: int) -> tuple[str, Any, int]:
        """What a sync that begins now will have covered."""
        link = Path(f"/proc/self/fd/{fd}")
        if link.is_dir():
            path = str(link.readlink())
            return "names", path, len(self.namings.get(path, []))
        inode = os.fstat(fd).st_ino
        return "bytes", inode, len(self.changes.get(inode, []))

    def covered(self, stand: tuple[str, Any, int]) -> None:
        kind, key, count = stand
        noted: Any = self.namings if kind == "names" else self.changes
        if key in noted:
            del noted[key][:count]

    def lose_power(self) -> None:
        """Everything that was not synced may be gone, from some point on."""
        rng = self.world.rng
        lost = 0
        for inode, changes in self.changes.items():
            keep = rng.choice([0, 0, len(changes), rng.randrange(len(changes) + 1)])
            lost += len(changes) - keep
            path = self.paths.get(inode)
            if path is None or not path.exists() or path.stat().st_ino != inode:
                continue
            with path.open("r+b") as file:
                for change in reversed(changes[keep:]):
                    file.seek(change.offset)
                    file.write(change.old)
                    file.truncate(change.size)
        for namings in self.namings.values():
            keep = rng.choice([0, len(namings), rng.randrange(len(namings) + 1)])
            for naming in reversed(namings[keep:]):
                naming.undo()
                lost += 1
        self.forget()
        self.world.note(self.root.name, f"power lost: {lost} unsynced changes are gone")

    def forget(self) -> None:
        """Nothing that is not synced can be taken back any more."""
        self.changes.clear()
        self.namings.clear()


def _move(kept: Path, path: Path) -> None:
    kept.rename(path)


class SimSyncer(Syncer):
    """Waits as long as the world says, and then calls what was written before durable."""

    def __init__(self, disk: SimDisk, loop: SimLoop) -> None:
        self._disk = disk
        self._sim = loop

    def sync(self, fds: list[int], kinds: bytes, callback: Callback) -> None:
        stands = [self._disk.stand(fd) for fd in fds]
        world = self._disk.world
        world.later(world.disk_delay(self._sim.host), self._synced, stands, callback)

    def _synced(self, stands: list[tuple[str, Any, int]], callback: Callback) -> None:
        """The disk goes on where the process is frozen; where it is dead, the kernel may have finished or not."""
        if self._sim.is_dead:
            return
        if self._disk.is_failing:
            self._sim.call_soon(callback, (0, errno.EIO, "Input/output error"))
            return
        for stand in stands:
            self._disk.covered(stand)
        self._sim.call_soon(callback, (len(stands), 0, ""))

    def close(self) -> None:
        return


class SimWorker(Worker):
    def __init__(self, disk: SimDisk, loop: SimLoop) -> None:
        super().__init__(loop)
        self._disk = disk
        self._sim = loop
        self._busy = asyncio.Lock()

    async def perform(self, job: Job) -> None:
        async with self._busy:
            await asyncio.sleep(3 * self._disk.world.disk_delay(self._sim.host))
            if self._disk.is_failing:
                raise OSError(errno.EIO, "Input/output error")
            perform(job)
            await asyncio.sleep(0)

    def close(self) -> None:
        return


class SimSurroundings(Surroundings):
    wal_bytes = 64 << 10
    segment_bytes = 16 << 10

    def __init__(self, world: World, disk: SimDisk) -> None:
        self._world = world
        self._disk = disk

    def wall(self) -> float:
        return time.time()          # of the node whose code runs (see timing.py)

    def steady(self) -> float:
        return time.monotonic()

    def disk(self) -> Disk:
        return self._disk

    def syncer(self, loop: asyncio.AbstractEventLoop) -> Syncer:
        return SimSyncer(self._disk, loop)  # type: ignore[arg-type]

    def worker(self, loop: asyncio.AbstractEventLoop, lock_fd: int) -> Worker:
        return SimWorker(self._disk, loop)  # type: ignore[arg-type]

    async def open_store(self, config: NodeConfig, keepsake: Keepsake) -> Coordination:
        return SimStore(self._world.server, asyncio.get_running_loop())  # type: ignore[arg-type]
