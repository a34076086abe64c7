"""The write-ahead log: numbered files of batches. Compiled.

One batch is under way at a time: begin() plans it, write() puts its bytes into the file, syncing its targets() makes them
last, finish() accounts for it. A write may be repeated as often as it fails. A batch lies in one file; when the current
file is full the batch begins the next one, and the file before is synced first, so that only the newest file can have an
unfinished end.

After a failed fdatasync the page cache may call pages clean that never reached the disk. Then relocate() moves the batch,
and all that was written since the last good sync, into a new file whose header says up to where the old one is good.

Overwriting a file that is already on disk makes fdatasync about twice as fast as growing one, for no block is allocated
and no size changes. So retired files are kept as spares and used again under a new number and a new salt.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from mirrormq.log.batch import FILE_HEADER_SIZE, encode_batch_head, encode_file_header
from mirrormq.log.disk import Disk, write_all
from mirrormq.log.queue import Pending

SUFFIX: Final = ".wal"
SPARE_SUFFIX: Final = ".spare"
MAX_SPARES: Final = 2
JOIN_BELOW: Final = 64 * 1024
PAGE: Final = 4096
MAX_RETIRED: Final = 6
CROWDED_SECONDS: Final = 0.01
MAX_CROWDED_SECONDS: Final = 0.25


class WalFile:
    """`end` is where the next batch goes, `synced` how far the file is known to be on disk, `capacity` how many bytes of
    it were on disk before it was begun."""

    __slots__ = ("capacity", "end", "fd", "path", "queues", "salt", "sequence", "synced")

    def __init__(self, sequence: int, path: Path, salt: int) -> None:
        self.sequence: int = sequence
        self.path: Path = path
        self.salt: int = salt
        self.fd: int = -1
        self.end: int = FILE_HEADER_SIZE
        self.synced: int = 0
        self.capacity: int = 0
        self.queues: set[int] = set()

    @property
    def is_durable(self) -> bool:
        """Has it a batch that is on disk? Without one, it may be gone after a crash."""
        return self.synced > FILE_HEADER_SIZE


class Batch:
    """One group commit: its items, and where their bytes go.

    `length` is that of the batch itself, `size` what is written for it. A batch that begins its file has `begins` set, with
    the file before (if any) and up to where that one is good.
    """

    __slots__ = (
        "begins", "buffers", "file", "items", "length", "offset", "position", "previous", "previous_end", "size",
        "sync", "written",
    )

    def __init__(self, items: list[Pending], file: WalFile, offset: int, position: int, sync: bool) -> None:
        self.items: list[Pending] = items
        self.file: WalFile = file
        self.offset: int = offset
        self.position: int = position
        self.sync: bool = sync
        self.begins: bool = False
        self.previous: WalFile | None = None
        self.previous_end: int = 0
        self.buffers: list[bytes] = []
        self.length: int = 0
        self.size: int = 0
        self.written: int = 0


class Wal:
    def __init__(self, directory: Path, disk: Disk, file_bytes: int) -> None:
        self.directory: Path = directory
        self.directory_fd: int = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        self.disk: Disk = disk
        self.file_bytes: int = file_bytes
        self.files: list[WalFile] = []
        self.by_sequence: dict[int, WalFile] = {}
        self.spares: list[Path] = []
        self.unspared: int = 0              # the file during which a spare was asked for
        self.unsynced: list[Pending] = []
        self.unsynced_bytes: int = 0

    @property
    def current(self) -> WalFile:
        return self.files[-1]

    @property
    def retired(self) -> list[WalFile]:
        """The files that wait to be dissolved, oldest first."""
        return self.files[:-1]

    def path(self, sequence: int) -> Path:
        return self.directory / f"{sequence:09d}{SUFFIX}"

    def adopt(self, file: WalFile) -> None:
        """Take in a file, as the newest."""
        self.files.append(file)
        self.by_sequence[file.sequence] = file

    def begin(self, items: list[Pending], position: int, *, sync: bool, roll: bool = False) -> Batch:
        """Plan a batch of items behind everything written so far."""
        size = 0
        for item in items:
            size += len(item.chunk)
        previous = self.files[-1] if self.files else None
        if previous is None or roll or self._is_full(previous, size + 16 * len(items)):
            return self._in_new_file(items, position, size, previous)
        batch = Batch(items, previous, previous.end, position, sync)
        _lay_out(batch, size)
        return batch

    def begin_sync(self, position: int) -> Batch:
        """A batch without bytes: syncing its targets makes everything last that was written before."""
        current = self.files[-1]
        return Batch([], current, current.end, position, True)

    def _is_full(self, file: WalFile, size: int) -> bool:
        """A file that grows is left early when a spare, which is faster, is there."""
        if file.end == FILE_HEADER_SIZE:
            return False
        if file.end + size > self.file_bytes:
            return True
        return file.capacity == 0 and len(self.spares) > 0 and file.end > self.file_bytes // 16

    def _in_new_file(self, items: list[Pending], position: int, size: int, previous: WalFile | None) -> Batch:
        """Such a batch is always synced."""
        sequence = previous.sequence + 1 if previous is not None else 1
        file = WalFile(sequence, self.path(sequence), int.from_bytes(os.urandom(8), "little"))
        batch = Batch(items, file, FILE_HEADER_SIZE, position, True)
        batch.begins = True
        batch.previous = previous
        if previous is not None:
            batch.previous_end = previous.end
        _lay_out(batch, size)
        return batch

    def write(self, batch: Batch, limit: int = 1 << 62) -> bool:
        """Up to about limit bytes into the file, going on where the last call stopped; True when all are there.

        Raises OSError, and may then be repeated.
        """
        file = batch.file
        if batch.begins and batch.written == 0:
            if file.fd < 0:
                self._create(file)
            front = encode_file_header(file.sequence, file.salt, batch.previous_end)
            write_all(self.disk, file.fd, front, 0)
        start = batch.written
        while batch.written < batch.size and batch.written - start < limit:
            part = _rest(batch.buffers, batch.written, limit)
            batch.written += self.disk.write(file.fd, part, batch.offset + batch.written)
        return batch.written == batch.size

    def _create(self, file: WalFile) -> None:
        while self.spares and not file.capacity:
            spare = self.spares[-1]
            # Somebody who needed the space may have taken it away, or it cannot be renamed: then a new file is made.
            with suppress(OSError):
                size = spare.stat().st_size
                self.disk.rename(spare, file.path)
                file.capacity = size
            self.spares.pop()
        file.fd = self.disk.create(file.path)

    def targets_before(self, batch: Batch) -> list[int]:
        """The descriptors to sync before the batch may be written: a new file's header vouches for the file before."""
        previous = batch.previous
        if batch.begins and previous is not None and previous.synced < previous.end:
            return [previous.fd]
        return []

    def previous_synced(self, batch: Batch) -> None:
        assert batch.previous is not None
        batch.previous.synced = batch.previous.end

    def targets(self, batch: Batch) -> list[int]:
        """The descriptors to sync, when it is written, before the batch counts as done."""
        if batch.begins:
            return [batch.file.fd, self.directory_fd]
        return [batch.file.fd] if batch.sync else []

    def commit(self, batch: Batch) -> None:
        """Write and sync the batch here and now."""
        for fd in self.targets_before(batch):
            self.disk.sync(fd)
            self.previous_synced(batch)
        self.write(batch)
        for fd in self.targets(batch):
            self.disk.sync(fd)

    def finish(self, batch: Batch) -> None:
        """The batch is written, and synced if it asked for it."""
        file = batch.file
        if batch.begins:
            self.adopt(file)
        file.end = batch.offset + batch.length
        if batch.sync:
            file.synced = file.end
            self.unsynced = []
            self.unsynced_bytes = 0
        else:
            self.unsynced += batch.items
            self.unsynced_bytes += batch.length

    def relocate(self, batch: Batch) -> Batch:
        """After a failed sync: the same items, with all that was written but not synced before them, in a new file.

        The items before may still be read at their old place until finish() tells their new one.
        """
        previous: WalFile | None = batch.file
        if batch.begins:
            previous = batch.previous
            self._abandon(batch.file)
        lost = previous is not None and previous.synced < previous.end
        items = self.unsynced + batch.items if lost else batch.items
        if previous is not None:
            previous.end = previous.synced
        size = 0
        for item in items:
            size += len(item.chunk)
        return self._in_new_file(items, batch.position, size, previous)

    def _abandon(self, file: WalFile) -> None:
        if file.fd >= 0:
            self.disk.close(file.fd)
            file.fd = -1
        self.disk.unlink(file.path)

    def crowding(self) -> float:
        """Seconds that a commit should wait because retired files pile up faster than they are dissolved."""
        excess = len(self.files) - 1 - MAX_RETIRED
        return min(excess * CROWDED_SECONDS, MAX_CROWDED_SECONDS) if excess > 0 else 0.0

    def wants_spare(self) -> bool:
        """Is it time to prepare a file to overwrite? Not on an idle node, and not while a retired file will become one."""
        if self.spares or len(self.files) != 1:
            return False
        file = self.files[-1]
        if file.sequence == self.unspared:
            return False
        return file.end > (self.file_bytes // 2 if file.capacity else self.file_bytes // 64)

    def spare_path(self) -> Path:
        """Where to prepare one."""
        return self.directory / f"{self.current.sequence:09d}-filled{SPARE_SUFFIX}"

    def remove(self, file: WalFile, *, keep: bool) -> Path | None:
        """Nothing in the file is needed: it becomes a spare, or is set aside. Returns what is left to be deleted."""
        self.files.remove(file)
        del self.by_sequence[file.sequence]
        size = os.fstat(file.fd).st_size
        self.disk.close(file.fd)
        file.fd = -1
        if keep:
            aside = self.directory.parent / "damaged"
            aside.mkdir(exist_ok=True)
            self.disk.rename(file.path, aside / file.path.name)
            return None
        if len(self.spares) < MAX_SPARES and self.file_bytes // 2 < size <= self.file_bytes * 2:
            spare = file.path.with_suffix(SPARE_SUFFIX)
            try:
                self.disk.rename(file.path, spare)
            except OSError:
                return file.path
            self.spares.append(spare)
            return None
        return file.path

    def seal(self) -> None:
        """Mark the end of the newest file, so that damage in its last batch can be told from an unfinished write."""
        if self.files:
            batch = self.begin([], 0, sync=True)
            self.commit(batch)
            self.finish(batch)

    def close(self) -> None:
        for file in self.files:
            if file.fd >= 0:
                self.disk.close(file.fd)
                file.fd = -1
        os.close(self.directory_fd)


def _lay_out(batch: Batch, size: int) -> None:
    """Fill in the buffers and each item's offset; small chunks are joined, large ones are not copied again.

    Zeros up to the end of the page are written along, so that the kernel need not read the page of a recycled file in first.
    """
    chunks = [item.chunk for item in batch.items]
    head = encode_batch_head(batch.file.sequence, batch.file.salt, batch.file.synced, chunks, size)
    at = batch.offset + len(head)
    for item in batch.items:
        item.offset = at
        at += len(item.chunk)
    batch.length = len(head) + size
    padding = bytes(-at % PAGE)
    batch.size = batch.length + len(padding)
    pieces = [head, *chunks, padding]
    batch.buffers = _joined(pieces) if size > JOIN_BELOW else [b"".join(pieces)]


def _rest(buffers: list[bytes], written: int, limit: int) -> list[bytes | memoryview]:
    """What follows the first `written` bytes, at most `limit` of them."""
    out: list[bytes | memoryview] = []
    for buffer in buffers:
        size = len(buffer)
        if written >= size:
            written -= size
        elif limit > 0:
            out.append(buffer if written == 0 and size <= limit else memoryview(buffer)[written : written + limit])
            limit -= min(size - written, limit)
            written = 0
    return out


def _joined(pieces: list[bytes]) -> list[bytes]:
    out: list[bytes] = []
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) < JOIN_BELOW:
            small.append(piece)
            continue
        if small:
            out.append(b"".join(small))
            small = []
        out.append(piece)
    if small:
        out.append(b"".join(small))
    return out
