"""A queue's entries as columns, for those who make tables of them. Compiled.

Strings that many messages share (addresses, property lists) become numbers into a list of the distinct ones, so that they are
taken apart once and not for each message.
"""

from __future__ import annotations

from typing import Final

from mirrormq.log.chunk import Chunk, decode_chunk, verify_payload
from mirrormq.log.entries import (
    ACK,
    CONFIG,
    CONFIG_SIZE,
    DROP,
    ENQUEUE,
    ENQUEUE_HEAD,
    ENQUEUE_SIZE,
    EXTRA,
    LENGTH,
    ORIGIN,
    PUBLISHER_SIZE,
    RANGES,
    REQUEUE,
    SEQUENCED,
    SKIP,
    entry_length,
    number_at,
    origin_at,
    ranges_at,
)

PROPERTIES_AT: Final = 19           # inside content: frame head, class, weight, body size
HEAD_END: Final = 8                 # of a frame: seven octets before its payload, one behind


class Distinct:
    """Each byte string once, by number."""

    __slots__ = ("numbers", "values")

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.numbers: dict[bytes, int] = {}

    def number(self, value: bytes) -> int:
        found = self.numbers.get(value)
        if found is None:
            found = len(self.values)
            self.numbers[value] = found
            self.values.append(value)
        return found


class Columns:
    """One row for each entry. Lists are as long as there are rows; None where the kind has no such thing."""

    __slots__ = (
        "address", "addresses", "body", "body_size", "count", "epoch", "flags", "has_origins", "has_ranges", "index", "kind",
        "next_index", "properties", "property_lists", "publisher", "ranges", "reason", "sequence", "time_ms", "with_body",
    )

    def __init__(self, with_body: bool) -> None:
        self.with_body: bool = with_body
        self.addresses: Distinct = Distinct()
        self.property_lists: Distinct = Distinct()
        self.next_index: int = 0
        self.has_ranges: bool = False
        self.has_origins: bool = False
        self.index: list[int] = []
        self.epoch: list[int] = []
        self.time_ms: list[int] = []
        self.kind: list[int] = []
        self.flags: list[int] = []
        self.reason: list[int] = []
        self.count: list[int] = []
        self.address: list[int | None] = []
        self.properties: list[int | None] = []
        self.body: list[bytes | None] = []
        self.body_size: list[int | None] = []
        self.ranges: list[list[int] | None] = []
        self.publisher: list[int | None] = []
        self.sequence: list[int | None] = []

    def take(self, data: bytes, offset: int, upto: int) -> int:
        """Append the entries of the chunk at offset that lie below `upto`; returns where the chunk ends. Raises DamagedChunk."""
        chunk = decode_chunk(data, offset)
        verify_payload(data, chunk)
        start = len(self.index)
        origins = self._entries(data, chunk, upto)
        for at in origins:
            self._note_origin(data, at, start)
        return chunk.end

    def _entries(self, data: bytes, chunk: Chunk, upto: int) -> list[int]:
        at = chunk.payload
        end = at + chunk.length
        index = chunk.first_index
        epoch = chunk.epoch
        time_ms = chunk.time_ms
        origins: list[int] = []
        while at < end:
            kind = data[at]
            if index >= upto and kind != ORIGIN:        # whose the messages are may stand behind all of them
                at += entry_length(data, at)
                continue
            if kind == ENQUEUE:
                self._row(index, epoch, time_ms, kind, data[at + 1], 0, 1, None)
                at = self._message(data, at)
                index += 1
                continue
            if kind == ORIGIN:
                origins.append(at)
            elif kind == SKIP:
                count = min(number_at(data, at), upto - index)
                self._row(index, epoch, time_ms, kind, 0, 0, count, None)
                self._no_message()
                index += count
            else:
                self._other(data, at, index, epoch, time_ms)
                index += 1
            at += entry_length(data, at)
        self.next_index = index
        return origins

    def _row(
        self, index: int, epoch: int, time_ms: int, kind: int, flags: int, reason: int, count: int, ranges: list[int] | None
    ) -> None:
        self.index.append(index)
        self.epoch.append(epoch)
        self.time_ms.append(time_ms)
        self.kind.append(kind)
        self.flags.append(flags)
        self.reason.append(reason)
        self.count.append(count)
        self.ranges.append(ranges)
        self.publisher.append(None)
        self.sequence.append(None)

    def _no_message(self) -> None:
        self.address.append(None)
        self.properties.append(None)
        self.body.append(None)
        self.body_size.append(None)

    def _message(self, data: bytes, at: int) -> int:
        """Returns where the entry ends."""
        _, flags, address_length, size, content_length = ENQUEUE_HEAD.unpack_from(data, at)
        start = at + ENQUEUE_SIZE
        if flags & (SEQUENCED | EXTRA):
            start = _behind_options(data, start, flags)
        content = start + int(address_length)
        end = content + int(content_length)
        self.address.append(self.addresses.number(data[start:content]))
        head = data[content + 3] << 24 | data[content + 4] << 16 | data[content + 5] << 8 | data[content + 6]
        self.properties.append(self.property_lists.number(data[content + PROPERTIES_AT : content + 7 + head]))
        self.body_size.append(size)
        self.body.append(body_at(data, content + HEAD_END + head, end) if self.with_body else None)
        return end

    def _other(self, data: bytes, at: int, index: int, epoch: int, time_ms: int) -> None:
        kind = data[at]
        if kind == ACK or kind == DROP or kind == REQUEUE:
            self.has_ranges = True
            self._row(index, epoch, time_ms, kind, 0, data[at + 1], 1, ranges_at(data, at))
            self._no_message()
            self.body_size[-1] = RANGES.unpack_from(data, at)[5]
            return
        self._row(index, epoch, time_ms, kind, 0, 0, 1, None)
        self._no_message()
        if kind == CONFIG:
            self.body[-1] = data[at + CONFIG_SIZE : at + entry_length(data, at)]
        else:
            number = number_at(data, at)
            self.has_ranges = True
            self.ranges[-1] = [number, number]

    def _note_origin(self, data: bytes, at: int, start: int) -> None:
        publisher, sequence, first, count = origin_at(data, at)
        self.has_origins = True
        indexes = self.index
        row = start
        while row < len(indexes) and indexes[row] < first:
            row += 1
        while row < len(indexes) and indexes[row] < first + count:
            if self.kind[row] == ENQUEUE:
                self.publisher[row] = publisher
                self.sequence[row] = sequence + indexes[row] - first
            row += 1


def body_at(data: bytes, at: int, end: int) -> bytes:
    """The body from its frames."""
    if at >= end:
        return b""
    size = data[at + 3] << 24 | data[at + 4] << 16 | data[at + 5] << 8 | data[at + 6]
    if at + size + HEAD_END == end:
        return data[at + 7 : at + 7 + size]
    pieces: list[bytes] = []
    while at < end:
        size = data[at + 3] << 24 | data[at + 4] << 16 | data[at + 5] << 8 | data[at + 6]
        pieces.append(data[at + 7 : at + 7 + size])
        at += size + HEAD_END
    return b"".join(pieces)


def _behind_options(data: bytes, at: int, flags: int) -> int:
    if flags & SEQUENCED:
        at += PUBLISHER_SIZE
    if flags & EXTRA:
        length: int = LENGTH.unpack_from(data, at)[0]
        at += 4 + length
    return at
