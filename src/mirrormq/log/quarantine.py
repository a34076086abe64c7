"""Quarantine: what was cut off a queue's log, or ended in it although it was confirmed, kept until somebody has looked at it.
Compiled.

One file for each cut, DIR/quarantine/QUEUE-EPOCH-FIRST-LAST.cut, little-endian::

    magic b"MQQUAR\\0\\0", version u8, 7 bytes 0, queue_id u64, epoch u64 (of the last entry), first u64, last u64, time_ms u64,
    reason length u32, reason (UTF-8), crc32 of all that; behind it the chunks

The same cut, made again after a crash, writes the same file. It is on disk before the record of the cut is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from mirrormq.log.chunk import Chunk, decode_chunk, verify_payload
from mirrormq.log.disk import Disk, write_all
from mirrormq.log.entries import Entry, messages_in
from mirrormq.log.errors import DamagedChunk, LogError
from mirrormq.log.packer import Packer
from mirrormq.log.queue import QueueLog
from mirrormq.log.raw import read_raw
from mirrormq.log.reader import Reader

MAGIC: Final = b"MQQUAR\0\0"
VERSION: Final = 1
FRONT: Final = Struct("<8sB7xQQQQQI")
U32: Final = Struct("<I")
SUFFIX: Final = ".cut"
READ_BYTES: Final = 1024 * 1024
FILE_BYTES: Final = 16 * 1024 * 1024


class Quarantined:
    """One file: entries first..last of a queue, of which the last was of that epoch. `start` is where its chunks start."""

    __slots__ = ("epoch", "first", "last", "path", "queue_id", "reason", "start", "time_ms")

    def __init__(
        self, path: Path, queue_id: int, epoch: int, first: int, last: int, time_ms: int, reason: str, start: int
    ) -> None:
        self.path: Path = path
        self.queue_id: int = queue_id
        self.epoch: int = epoch
        self.first: int = first
        self.last: int = last
        self.time_ms: int = time_ms
        self.reason: str = reason
        self.start: int = start


def put(
    directory: Path, disk: Disk, reader: Reader, queue: QueueLog, first: int, reason: str, time_ms: int
) -> Path:
    """Keep the queue's entries from `first` on; returns when they are on disk. Raises OSError and QueueDamaged."""
    epoch = queue.epochs[-1] if queue.epochs else 0
    chunks = _chunks(reader, queue, first)
    return _write(directory, disk, queue.queue_id, epoch, first, queue.next_index - 1, chunks, reason, time_ms)


def put_orphans(
    directory: Path, disk: Disk, reader: Reader, queue: QueueLog, ranges: list[int], epoch: int, reason: str, time_ms: int
) -> int:
    """Keep the messages in these flat ranges, which are live no longer since that epoch. Returns how many there are."""
    count = 0
    for entries in _portions(reader, queue, ranges):
        count += len(entries)
        first, last = entries[0].index, entries[-1].index
        _write(directory, disk, queue.queue_id, epoch, first, last, [packed(queue.queue_id, epoch, entries)], reason, time_ms)
    return count


def _portions(reader: Reader, queue: QueueLog, ranges: list[int]) -> Iterator[list[Entry]]:
    """About a file's worth of messages at a time."""
    portion: list[Entry] = []
    size = 0
    for pair in range(0, len(ranges), 2):
        at, last = ranges[pair], ranges[pair + 1]
        while at <= last:
            found = [entry for entry in reader.read(queue, at, READ_BYTES) if entry.index <= last]
            portion += found
            size += sum([len(entry.content) for entry in found])
            at = found[-1].index + 1 if found else last + 1
            if size > FILE_BYTES:
                yield portion
                portion, size = [], 0
    if portion:
        yield portion


def packed(queue_id: int, epoch: int, entries: list[Entry]) -> bytes:
    """Messages in order as chunks, one for each time at which messages were enqueued."""
    packer = Packer(queue_id, epoch)
    for entry in entries:
        packer.add(entry)
    return packer.close()


def _write(
    directory: Path, disk: Disk, queue_id: int, epoch: int, first: int, last: int, chunks: Iterable[bytes], reason: str,
    time_ms: int,
) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{queue_id:x}-{epoch}-{first}-{last}{SUFFIX}"
    unfinished = path.with_suffix(".new")
    fd = disk.create(unfinished)
    try:
        disk.truncate(fd, 0)
        at = _put_header(disk, fd, queue_id, epoch, first, last, time_ms, reason)
        for data in chunks:
            write_all(disk, fd, data, at)
            at += len(data)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.rename(unfinished, path)
    disk.sync_directory(directory)
    disk.sync_directory(directory.parent)
    return path


def _put_header(
    disk: Disk, fd: int, queue_id: int, epoch: int, first: int, last: int, time_ms: int, reason: str
) -> int:
    text = reason.encode()
    front = FRONT.pack(MAGIC, VERSION, queue_id, epoch, first, last, time_ms, len(text)) + text
    write_all(disk, fd, front + U32.pack(crc32(front)), 0)
    return len(front) + 4


def _chunks(reader: Reader, queue: QueueLog, first: int) -> Iterator[bytes]:
    while first < queue.next_index:
        found = read_raw(reader, queue, first, READ_BYTES)
        if not found:
            raise LogError(f"queue {queue.queue_id:x} cannot be cut: its entry {first} is not in the log")
        yield b"".join(found)
        first = decode_chunk(found[-1], 0).next_index


def listed(directory: Path) -> list[Quarantined]:
    """Every file, oldest first. One that cannot be read has an empty range, and says why in place of the reason."""
    out = [_look(path) for path in sorted(directory.glob("*" + SUFFIX))]
    out.sort(key=_time_of)
    return out


def _time_of(found: Quarantined) -> int:
    return found.time_ms


def _look(path: Path) -> Quarantined:
    try:
        with path.open("rb") as file:
            return _decode(path, file.read(1 << 16))
    except (OSError, DamagedChunk) as problem:
        return Quarantined(path, 0, 0, 0, 0, 0, f"cannot be read: {problem}", 0)


def _decode(path: Path, data: bytes) -> Quarantined:
    if len(data) < FRONT.size + 4 or data[:8] != MAGIC:
        raise DamagedChunk("it is no quarantine file")
    _, version, queue_id, epoch, first, last, time_ms, length = FRONT.unpack_from(data, 0)
    if version != VERSION:
        raise DamagedChunk(f"it has format version {version}, this program reads version {VERSION}")
    end = FRONT.size + length
    if end + 4 > len(data) or U32.unpack_from(data, end)[0] != crc32(data[:end]):
        raise DamagedChunk("the checksum of its header is wrong")
    return Quarantined(path, queue_id, epoch, first, last, time_ms, data[FRONT.size : end].decode(), end + 4)


def messages(path: Path) -> list[Entry]:
    """The messages in the file; raises DamagedChunk and OSError."""
    data = path.read_bytes()
    at = _decode(path, data).start
    out: list[Entry] = []
    while at < len(data):
        chunk: Chunk = decode_chunk(data, at)
        verify_payload(data, chunk)
        out += messages_in(data, at, 0)
        at = chunk.end
    return out


def drop(path: Path, disk: Disk) -> None:
    """Somebody has decided that it is not needed."""
    disk.unlink(path)
    disk.sync_directory(path.parent)
