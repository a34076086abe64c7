"""The chunk: the unit of the log, on disk and on the wire. Compiled.

A chunk is a self-contained block of consecutive entries of one queue. The same bytes lie in the write-ahead log, in the
queue's segments, and travel to mirrors and to the lake; nothing in them depends on where they lie.

Layout of version 1, little-endian::

    header, 56 bytes
      0  magic        4   b"MQCH"
      4  version      u8  1
      5  flags        u8  1 MESSAGES: at least one ENQUEUE inside; 2 SNAPSHOT; 4 DROPPED; 8 DAMAGED; 16 CUT; 32 EXTENDED:
                          a standing lies before the rest (all but the first and the last are records about the queue:
                          they have count 0 and their payload is not entries)
      6  reserved     u16 0
      8  queue_id     u64
     16  epoch        u64
     24  first_index  u64 index of the first entry
     32  count        u32 how many indexes the chunk covers (a SKIP covers many)
     36  time_ms      u64 when everything in it was enqueued
     44  length       u32 bytes of payload
     48  payload crc  u32 crc32 of the payload
     52  header crc   u32 crc32 of the 52 bytes before
    payload, length bytes: entries (see entries.py), or what the flags say
    trailer, 24 bytes
      0  queue_id     u64 again: one flipped byte in the header does not hide whose chunk it is
      8  first_index  u64 again
     16  total        u32 bytes of the whole chunk, so that it can be found from its end
     20  crc          u32 crc32 of the 20 bytes before
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from mirrormq.log.errors import DamagedChunk

MAGIC: Final = b"MQCH"
VERSION: Final = 1
MESSAGES: Final = 1
SNAPSHOT: Final = 2
DROPPED: Final = 4
DAMAGED: Final = 8
CUT: Final = 16
EXTENDED: Final = 32
RECORD: Final = SNAPSHOT | DROPPED | DAMAGED | CUT

HEADER: Final = Struct("<4sBBHQQQIQIII")
HEADER_FRONT: Final = Struct("<4sBBHQQQIQII")
TRAILER: Final = Struct("<QQII")
TRAILER_FRONT: Final = Struct("<QQI")
U32: Final = Struct("<I")
HEADER_SIZE: Final = 56
TRAILER_SIZE: Final = 24
OVERHEAD: Final = 80
SMALL: Final = 2048
MAX_PAYLOAD: Final = 0xFFFF_FF00


class Chunk:
    """A decoded chunk header; `offset` is where the chunk starts in the data it was decoded from."""

    __slots__ = (
        "count", "epoch", "first_index", "flags", "header_crc", "length", "offset", "payload_crc", "queue_id", "time_ms",
    )

    def __init__(
        self, offset: int, flags: int, queue_id: int, epoch: int, first_index: int, count: int, time_ms: int,
        length: int, payload_crc: int, header_crc: int,
    ) -> None:
        self.offset: int = offset
        self.flags: int = flags
        self.queue_id: int = queue_id
        self.epoch: int = epoch
        self.first_index: int = first_index
        self.count: int = count
        self.time_ms: int = time_ms
        self.length: int = length
        self.payload_crc: int = payload_crc
        self.header_crc: int = header_crc

    @property
    def payload(self) -> int:
        """Where the payload starts."""
        return self.offset + HEADER_SIZE

    @property
    def end(self) -> int:
        """Where the chunk ends."""
        return self.offset + self.length + OVERHEAD

    @property
    def size(self) -> int:
        """Bytes of the whole chunk."""
        return self.length + OVERHEAD

    @property
    def next_index(self) -> int:
        return self.first_index + self.count


def decode_chunk(data: bytes, offset: int = 0) -> Chunk:
    """The header at offset; raises DamagedChunk. The payload is not looked at."""
    if offset + HEADER_SIZE > len(data):
        raise DamagedChunk("the header of a chunk is cut short")
    magic, version, flags, _, queue_id, epoch, first, count, time_ms, length, payload_crc, header_crc = HEADER.unpack_from(
        data, offset
    )
    if magic != MAGIC:
        raise DamagedChunk("no chunk starts here")
    if header_crc != crc32(data[offset : offset + 52]):
        raise DamagedChunk("the checksum of a chunk header is wrong")
    if version != VERSION:
        raise DamagedChunk(f"a chunk has format version {version}, this program reads version {VERSION}")
    return Chunk(offset, flags, queue_id, epoch, first, count, time_ms, length, payload_crc, header_crc)


def payload_is_sound(data: bytes, chunk: Chunk) -> bool:
    """Is the whole chunk within data, and are its payload and trailer as they were written?"""
    start = chunk.offset + HEADER_SIZE
    end = start + chunk.length
    if end + TRAILER_SIZE > len(data):
        return False
    payload = data[start:end] if chunk.length < SMALL else memoryview(data)[start:end]
    if crc32(payload) != chunk.payload_crc:
        return False
    queue_id, first, total, crc = TRAILER.unpack_from(data, end)
    if queue_id != chunk.queue_id or first != chunk.first_index or total != chunk.length + OVERHEAD:
        return False
    return bool(crc == crc32(data[end : end + 20]))


def verify_payload(data: bytes, chunk: Chunk) -> None:
    """As payload_is_sound, with a sentence."""
    if not payload_is_sound(data, chunk):
        raise DamagedChunk("a chunk is cut short" if chunk.end > len(data) else "the checksum of a chunk is wrong")


def trailer(queue_id: int, first_index: int, total: int) -> bytes:
    front = TRAILER_FRONT.pack(queue_id, first_index, total)
    return front + U32.pack(crc32(front))


def trailer_before(data: bytes, end: int) -> tuple[int, int, int] | None:
    """(queue_id, first_index, total) of the trailer that ends at `end`, or None where there is no sound one."""
    if end < TRAILER_SIZE:
        return None
    queue_id, first, total, crc = TRAILER.unpack_from(data, end - TRAILER_SIZE)
    return (queue_id, first, total) if crc == crc32(data[end - TRAILER_SIZE : end - 4]) else None


def header(
    flags: int, queue_id: int, epoch: int, first_index: int, count: int, time_ms: int, length: int, payload_crc: int
) -> bytes:
    front = HEADER_FRONT.pack(
        MAGIC, VERSION, flags, 0, queue_id, epoch, first_index, count, time_ms, length, payload_crc
    )
    return front + U32.pack(crc32(front))


def encode_chunk(
    flags: int, queue_id: int, epoch: int, first_index: int, count: int, time_ms: int, payload: bytes
) -> bytes:
    """A chunk around a ready payload."""
    head = header(flags, queue_id, epoch, first_index, count, time_ms, len(payload), crc32(payload))
    return b"".join((head, payload, trailer(queue_id, first_index, len(payload) + OVERHEAD)))
