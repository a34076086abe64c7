"""Entries: what a chunk's payload is made of. Compiled; building and reading them is the hot path.

Each entry starts with its kind (u8) and takes one index, except SKIP, which takes n, and ORIGIN, which takes none.
Little-endian::

    0 SKIP     n u64                                       n indexes that were never written
    1 ENQUEUE  flags u8, address length u16, size u32, content length u32,
               [publisher 16 bytes, sequence u64]          if flags & SEQUENCED (reserved)
               [extra length u32, extra]                   if flags & EXTRA
               address, content                            both opaque here
    2 RESERVE  upto u64                                    messages below upto may have been delivered; the last one counts
    3 ACK      reason u8 (0), u16 0, n u32, count u64, bytes u64, n times (low u64, high u64)
    4 REQUEUE  as ACK
    5 DROP     as ACK, with a reason
    6 CONFIG   length u32, bytes
    7 ORIGIN   publisher u64, sequence u64, first u64, count u32: whose messages first, first + 1, … of this chunk are
    8 FORGET   publisher u64                               nothing more comes from that publisher

`count` and `bytes` of ACK and DROP are those of the persistent messages in the ranges, so that counters can be kept
without looking the messages up. Ranges are inclusive. A DROP with the reason LOST is the exception: whoever leads a mirrored
queue with less than others hold ends in it, by name, what it does not have. Logs differ in how much of that they hold, so
`count` and `bytes` are those of the persistent messages that are left in the whole queue.
"""

from __future__ import annotations

from struct import Struct, pack, unpack_from
from typing import Final
from zlib import crc32

from mirrormq.log.chunk import HEADER_SIZE, MAX_PAYLOAD, MESSAGES, OVERHEAD, Chunk, decode_chunk, header, trailer, verify_payload
from mirrormq.log.errors import DamagedChunk

SKIP: Final = 0
ENQUEUE: Final = 1
RESERVE: Final = 2
ACK: Final = 3
REQUEUE: Final = 4
DROP: Final = 5
CONFIG: Final = 6
ORIGIN: Final = 7
FORGET: Final = 8

TRANSIENT: Final = 1
REDELIVERED: Final = 2
SEQUENCED: Final = 4
EXTRA: Final = 8

EXPIRED: Final = 1
MAXLEN: Final = 2
PURGED: Final = 3
REJECTED: Final = 4
NO_ACK: Final = 5
LOST: Final = 6
MOVED: Final = 7           # the message has another index now, in this log
RESTART: Final = 8         # transient messages of a mirrored queue whose members were all down

ENQUEUE_HEAD: Final = Struct("<BBHII")
ENQUEUE_SIZE: Final = 12
NUMBER: Final = Struct("<BQ")
NUMBER_SIZE: Final = 9
RANGES: Final = Struct("<BBHIQQ")
RANGES_SIZE: Final = 24
ONE_RANGE: Final = Struct("<BBHIQQQQ")
CONFIG_HEAD: Final = Struct("<BI")
CONFIG_SIZE: Final = 5
ORIGIN_FORM: Final = Struct("<BQQQI")
ORIGIN_SIZE: Final = 29
LENGTH: Final = Struct("<I")
PUBLISHER_SIZE: Final = 24
BIG_PIECE: Final = 4096


class Entry:
    """One decoded entry. Fields that its kind does not have keep their empty value."""

    __slots__ = (
        "address", "bytes", "content", "count", "extra", "flags", "index", "kind", "publisher", "ranges", "reason", "size",
        "time_ms",
    )

    def __init__(
        self, kind: int, index: int, flags: int, address: bytes, content: bytes, size: int, time_ms: int
    ) -> None:
        self.kind: int = kind
        self.index: int = index
        self.flags: int = flags
        self.address: bytes = address
        self.content: bytes = content
        self.size: int = size
        self.time_ms: int = time_ms
        self.ranges: list[int] | None = None
        self.count: int = 0
        self.bytes: int = 0
        self.reason: int = 0
        self.extra: bytes = b""
        self.publisher: bytes = b""

    def __repr__(self) -> str:
        return f"Entry(kind={self.kind}, index={self.index}, flags={self.flags}, size={self.size})"


class ChunkBuilder:
    """Collects the entries of one queue during one turn of the event loop; seal() makes the chunk.

    `count` is the number of indexes taken since the last seal, `size` the bytes that the chunk would have now.
    """

    __slots__ = ("_flags", "_pieces", "count", "epoch", "first_index", "next_index", "queue_id", "size")

    def __init__(self, queue_id: int, epoch: int, next_index: int) -> None:
        self.queue_id: int = queue_id
        self.epoch: int = epoch
        self.first_index: int = next_index
        self.next_index: int = next_index
        self.count: int = 0
        self.size: int = OVERHEAD
        self._flags: int = 0
        self._pieces: list[bytes] = []

    def enqueue(self, flags: int, address: bytes, content: bytes, size: int) -> int:
        pieces = self._pieces
        pieces.append(ENQUEUE_HEAD.pack(ENQUEUE, flags, len(address), size, len(content)))
        pieces.append(address)
        pieces.append(content)
        self._flags = MESSAGES
        self.size += ENQUEUE_SIZE + len(address) + len(content)
        self.count += 1
        index = self.next_index
        self.next_index = index + 1
        return index

    def enqueue_extra(
        self, flags: int, address: bytes, content: bytes, size: int, extra: bytes, publisher: bytes = b""
    ) -> int:
        """As enqueue, with an extra blob and, where given, 24 bytes of publisher id and sequence."""
        flags &= ~(EXTRA | SEQUENCED)
        middle = b""
        if publisher:
            assert len(publisher) == PUBLISHER_SIZE
            flags |= SEQUENCED
            middle = publisher
        if extra:
            flags |= EXTRA
            middle += LENGTH.pack(len(extra)) + extra
        self._pieces.append(ENQUEUE_HEAD.pack(ENQUEUE, flags, len(address), size, len(content)) + middle)
        self._pieces.append(address)
        self._pieces.append(content)
        self._flags = MESSAGES
        self.size += len(middle) + ENQUEUE_SIZE + len(address) + len(content)
        return self._took(1)

    def skip(self, n: int) -> int:
        assert n > 0
        self._add(NUMBER.pack(SKIP, n))
        return self._took(n)

    def reserve(self, upto: int) -> int:
        self._add(NUMBER.pack(RESERVE, upto))
        return self._took(1)

    def ack(self, ranges: list[int], count: int, bytes: int) -> int:
        self._add(encode_ranges(ACK, 0, ranges, count, bytes))
        return self._took(1)

    def requeue(self, ranges: list[int]) -> int:
        self._add(encode_ranges(REQUEUE, 0, ranges, 0, 0))
        return self._took(1)

    def drop(self, reason: int, ranges: list[int], count: int, bytes: int) -> int:
        self._add(encode_ranges(DROP, reason, ranges, count, bytes))
        return self._took(1)

    def config(self, blob: bytes) -> int:
        self._add(CONFIG_HEAD.pack(CONFIG, len(blob)) + blob)
        return self._took(1)

    def origin(self, publisher: int, sequence: int, first: int, count: int) -> None:
        """Say where messages of this chunk came from: before or behind them, but in the same chunk."""
        assert count > 0
        self._add(ORIGIN_FORM.pack(ORIGIN, publisher, sequence, first, count))

    def forget(self, publisher: int) -> int:
        self._add(NUMBER.pack(FORGET, publisher))
        return self._took(1)

    def raw(self, piece: bytes, *, messages: int) -> int:
        """An entry that is already encoded (compaction copies entries without taking them apart)."""
        self._add(piece)
        if messages:
            self._flags = MESSAGES
        return self._took(1)

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)

    def _took(self, n: int) -> int:
        index = self.next_index
        self.next_index = index + n
        self.count += n
        return index

    def seal(self, time_ms: int) -> bytes:
        """The chunk of everything since the last seal; the builder goes on behind it."""
        assert self.count > 0, "there is nothing to seal"
        length = self.size - OVERHEAD
        assert length <= MAX_PAYLOAD, "a chunk has outgrown its format: seal more often"
        chunk = self._join(length, time_ms)
        self._pieces = []
        self._flags = 0
        self.first_index = self.next_index
        self.count = 0
        self.size = OVERHEAD
        return chunk

    def _join(self, length: int, time_ms: int) -> bytes:
        """Large contents are copied once and their checksum taken piece by piece; small ones twice, which is cheaper
        than a call for each."""
        pieces = self._pieces
        end = trailer(self.queue_id, self.first_index, self.size)
        if length < BIG_PIECE * len(pieces):
            payload = b"".join(pieces)
            return b"".join((self._header(length, time_ms, crc32(payload)), payload, end))
        crc = 0
        for piece in pieces:
            crc = crc32(piece, crc)
        pieces.insert(0, self._header(length, time_ms, crc))
        pieces.append(end)
        return b"".join(pieces)

    def _header(self, length: int, time_ms: int, crc: int) -> bytes:
        return header(self._flags, self.queue_id, self.epoch, self.first_index, self.count, time_ms, length, crc)


def encode_ranges(kind: int, reason: int, ranges: list[int], count: int, size: int) -> bytes:
    numbers = len(ranges)
    assert numbers % 2 == 0
    if numbers == 2:
        return ONE_RANGE.pack(kind, reason, 0, 1, count, size, ranges[0], ranges[1])
    return RANGES.pack(kind, reason, 0, numbers // 2, count, size) + pack(f"<{numbers}Q", *ranges)


class Cursor:
    """Goes through the messages of one sound chunk, and can be left and taken up again in the middle of it.

    The payload must have been verified: its lengths are trusted.
    """

    __slots__ = ("at", "data", "end", "index", "next_index", "time_ms")

    def __init__(self, data: bytes, chunk: Chunk) -> None:
        self.data: bytes = data
        self.at: int = chunk.offset + HEADER_SIZE
        self.end: int = self.at + chunk.length
        self.index: int = chunk.first_index
        self.next_index: int = chunk.first_index + chunk.count
        self.time_ms: int = chunk.time_ms

    def take(self, out: list[Entry], from_index: int, budget: int) -> int:
        """Append messages with index >= from_index to out until their bytes reach budget; returns those bytes."""
        data = self.data
        at = self.at
        end = self.end
        index = self.index
        taken = 0
        while at < end and taken < budget:
            kind = data[at]
            if kind == ENQUEUE:
                _, flags, address_length, size, content_length = ENQUEUE_HEAD.unpack_from(data, at)
                start = at + ENQUEUE_SIZE
                if flags & 12:
                    start = _after_options(data, start, flags)
                middle = start + address_length
                stop = middle + content_length
                if index >= from_index:
                    entry = Entry(ENQUEUE, index, flags, data[start:middle], data[middle:stop], size, self.time_ms)
                    if flags & 12:
                        _read_options(entry, data, at + ENQUEUE_SIZE)
                    out.append(entry)
                    taken += stop - at
                at = stop
                index += 1
            else:
                index += indexes_at(data, at)
                at += entry_length(data, at)
        self.at = at
        self.index = index
        return taken


def messages_in(data: bytes, offset: int, from_index: int) -> list[Entry]:
    """The ENQUEUE entries with index >= from_index of the chunk at offset, which must be sound (see verify_payload)."""
    out: list[Entry] = []
    Cursor(data, decode_chunk(data, offset)).take(out, from_index, 1 << 62)
    return out


def entry_length(data: bytes, at: int) -> int:
    """Bytes of the entry at `at`."""
    kind = data[at]
    if kind == SKIP or kind == RESERVE or kind == FORGET:
        return NUMBER_SIZE
    if kind == ORIGIN:
        return ORIGIN_SIZE
    if kind == ENQUEUE:
        _, flags, address_length, _, content_length = ENQUEUE_HEAD.unpack_from(data, at)
        return _after_options(data, at + ENQUEUE_SIZE, flags) + int(address_length) + int(content_length) - at
    if kind == ACK or kind == REQUEUE or kind == DROP:
        numbers: int = LENGTH.unpack_from(data, at + 4)[0]
        return RANGES_SIZE + 16 * numbers
    if kind == CONFIG:
        length: int = LENGTH.unpack_from(data, at + 1)[0]
        return CONFIG_SIZE + length
    raise DamagedChunk(f"an entry has the unknown kind {kind}")


def number_at(data: bytes, at: int) -> int:
    """The number of the SKIP, RESERVE or FORGET entry at `at`."""
    number: int = NUMBER.unpack_from(data, at)[1]
    return number


def indexes_at(data: bytes, at: int) -> int:
    """How many indexes the entry at `at` takes."""
    kind = data[at]
    if kind == SKIP:
        return number_at(data, at)
    return 0 if kind == ORIGIN else 1


def origin_at(data: bytes, at: int) -> tuple[int, int, int, int]:
    """(publisher, sequence, first index, count) of the ORIGIN entry at `at`."""
    _, publisher, sequence, first, count = ORIGIN_FORM.unpack_from(data, at)
    return publisher, sequence, first, count


def ranges_at(data: bytes, at: int) -> list[int]:
    """The flat ranges of the ACK, REQUEUE or DROP entry at `at`."""
    numbers: int = LENGTH.unpack_from(data, at + 4)[0]
    return list(unpack_from(f"<{2 * numbers}Q", data, at + RANGES_SIZE))


def _after_options(data: bytes, at: int, flags: int) -> int:
    if flags & SEQUENCED:
        at += PUBLISHER_SIZE
    if flags & EXTRA:
        length: int = LENGTH.unpack_from(data, at)[0]
        at += 4 + length
    return at


def _read_options(entry: Entry, data: bytes, at: int) -> None:
    if entry.flags & SEQUENCED:
        entry.publisher = data[at : at + PUBLISHER_SIZE]
        at += PUBLISHER_SIZE
    if entry.flags & EXTRA:
        length: int = LENGTH.unpack_from(data, at)[0]
        entry.extra = data[at + 4 : at + 4 + length]


def entries_in(data: bytes, offset: int) -> list[Entry]:
    """Every entry of the chunk at offset, verified."""
    chunk = decode_chunk(data, offset)
    verify_payload(data, chunk)
    out: list[Entry] = []
    at = chunk.payload
    end = at + chunk.length
    index = chunk.first_index
    while at < end:
        entry = _entry_at(data, at, index, chunk.time_ms)
        out.append(entry)
        index += indexes_at(data, at)
        at += entry_length(data, at)
    return out


def _entry_at(data: bytes, at: int, index: int, time_ms: int) -> Entry:
    kind = data[at]
    entry = Entry(kind, index, 0, b"", b"", 0, time_ms)
    if kind == ENQUEUE:
        _read_enqueue(entry, data, at)
    elif kind == SKIP or kind == RESERVE or kind == FORGET:
        entry.count = number_at(data, at)
    elif kind == ORIGIN:
        entry.ranges = list(origin_at(data, at))
    elif kind == CONFIG:
        entry.content = data[at + CONFIG_SIZE : at + entry_length(data, at)]
    else:
        entry.reason = data[at + 1]
        entry.count = RANGES.unpack_from(data, at)[4]
        entry.bytes = RANGES.unpack_from(data, at)[5]
        entry.ranges = ranges_at(data, at)
    return entry


def _read_enqueue(entry: Entry, data: bytes, at: int) -> None:
    _, flags, address_length, size, content_length = ENQUEUE_HEAD.unpack_from(data, at)
    start = _after_options(data, at + ENQUEUE_SIZE, flags)
    entry.flags = flags
    entry.size = size
    entry.address = data[start : start + address_length]
    entry.content = data[start + address_length : start + address_length + content_length]
    _read_options(entry, data, at + ENQUEUE_SIZE)
