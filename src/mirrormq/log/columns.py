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
    """One row for each entry.

    `flags`, `address`, `properties`, `body` and `body_size` are as long as there are rows; None where an entry is no message.
    What follows from where an entry stands is kept by runs: rows from starts[k] on have index firsts[k], firsts[k] + 1, …, and
    epochs[k] and times[k]. What is no message is in `other_rows`, with its kind, reason, count and ranges beside it. `publisher`
    and `sequence` are empty while no message is numbered, and else as long as there are rows.
    """

    __slots__ = (
        "address", "addresses", "body", "body_size", "epochs", "firsts", "flags", "has_skips", "next_index", "other_counts",
        "other_kinds", "other_ranges", "other_reasons", "other_rows", "properties", "property_lists", "publisher", "sequence",
        "starts", "times", "with_body",
    )

    def __init__(self, with_body: bool) -> None:
        self.with_body: bool = with_body
        self.addresses: Distinct = Distinct()
        self.property_lists: Distinct = Distinct()
        self.next_index: int = 0
        self.has_skips: bool = False
        self.starts: list[int] = []
        self.firsts: list[int] = []
        self.epochs: list[int] = []
        self.times: list[int] = []
        self.flags: list[int] = []
        self.address: list[int | None] = []
        self.properties: list[int | None] = []
        self.body: list[bytes | None] = []
        self.body_size: list[int | None] = []
        self.other_rows: list[int] = []
        self.other_kinds: list[int] = []
        self.other_reasons: list[int] = []
        self.other_counts: list[int] = []
        self.other_ranges: list[list[int] | None] = []
        self.publisher: list[int | None] = []
        self.sequence: list[int | None] = []

    @property
    def rows(self) -> int:
        return len(self.flags)

    def take(self, data: bytes, offset: int, upto: int) -> int:
        """Append the entries of the chunk at offset that lie below `upto`; returns where the chunk ends. Raises DamagedChunk."""
        chunk = decode_chunk(data, offset)
        verify_payload(data, chunk)
        run = len(self.starts)
        origins = self._entries(data, chunk, upto)
        for at in origins:
            self._note_origin(data, at, run)
        if self.publisher:
            self._pad()
        return chunk.end

    def _begin_run(self, index: int, chunk: Chunk) -> None:
        self.starts.append(len(self.flags))
        self.firsts.append(index)
        self.epochs.append(chunk.epoch)
        self.times.append(chunk.time_ms)

    def _entries(self, data: bytes, chunk: Chunk, upto: int) -> list[int]:
        at = chunk.payload
        end = at + chunk.length
        index = chunk.first_index
        origins: list[int] = []
        self._begin_run(index, chunk)
        while at < end:
            kind = data[at]
            if index >= upto and kind != ORIGIN:        # whose the messages are may stand behind all of them
                at += entry_length(data, at)
            elif kind == ENQUEUE:
                at = self._message(data, at)
                index += 1
            elif kind == ORIGIN:
                origins.append(at)
                at += entry_length(data, at)
            elif kind == SKIP:
                count = min(number_at(data, at), upto - index)
                self._other(kind, 0, count, None)
                self.has_skips = True
                index += count
                at += entry_length(data, at)
                self._begin_run(index, chunk)
            else:
                self._settling(data, at)
                index += 1
                at += entry_length(data, at)
        self.next_index = index
        return origins

    def _message(self, data: bytes, at: int) -> int:
        """Returns where the entry ends."""
        _, flags, address_length, size, content_length = ENQUEUE_HEAD.unpack_from(data, at)
        start = at + ENQUEUE_SIZE
        if flags & (SEQUENCED | EXTRA):
            start = _behind_options(data, start, flags)
        content = start + int(address_length)
        end = content + int(content_length)
        self.flags.append(flags)
        self.address.append(self.addresses.number(data[start:content]))
        head = data[content + 3] << 24 | data[content + 4] << 16 | data[content + 5] << 8 | data[content + 6]
        self.properties.append(self.property_lists.number(data[content + PROPERTIES_AT : content + 7 + head]))
        self.body_size.append(size)
        self.body.append(body_at(data, content + HEAD_END + head, end) if self.with_body else None)
        return end

    def _other(self, kind: int, reason: int, count: int, ranges: list[int] | None) -> None:
        self.other_rows.append(len(self.flags))
        self.other_kinds.append(kind)
        self.other_reasons.append(reason)
        self.other_counts.append(count)
        self.other_ranges.append(ranges)
        self.flags.append(0)
        self.address.append(None)
        self.properties.append(None)
        self.body.append(None)
        self.body_size.append(None)

    def _settling(self, data: bytes, at: int) -> None:
        kind = data[at]
        if kind == ACK or kind == DROP or kind == REQUEUE:
            self._other(kind, data[at + 1], 1, ranges_at(data, at))
            self.body_size[-1] = RANGES.unpack_from(data, at)[5]
        elif kind == CONFIG:
            self._other(kind, 0, 1, None)
            self.body[-1] = data[at + CONFIG_SIZE : at + entry_length(data, at)]
        else:
            number = number_at(data, at)
            self._other(kind, 0, 1, [number, number])

    def _pad(self) -> None:
        while len(self.publisher) < len(self.flags):
            self.publisher.append(None)
            self.sequence.append(None)

    def _note_origin(self, data: bytes, at: int, run: int) -> None:
        """The messages are in runs from `run` on."""
        publisher, sequence, first, count = origin_at(data, at)
        self._pad()
        while run < len(self.starts):
            start = self.starts[run]
            shift = self.firsts[run] - start
            stop = self.starts[run + 1] if run + 1 < len(self.starts) else len(self.flags)
            row = max(start, first - shift)
            stop = min(stop, first + count - shift)
            while row < stop:
                if self.address[row] is not None:
                    self.publisher[row] = publisher
                    self.sequence[row] = sequence + row + shift - first
                row += 1
            run += 1


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
