"""A part of a chunk as a chunk of its own. Compiled.

Needed where a follower's log ends, or a cut falls, within a chunk. Entries are copied as they are; a SKIP and an ORIGIN are
clipped to what is left, and an ORIGIN goes along wherever in the chunk it lay.
"""

from __future__ import annotations

from mirrormq.log.chunk import decode_chunk
from mirrormq.log.entries import ENQUEUE, ORIGIN, SKIP, ChunkBuilder, entry_length, indexes_at, origin_at


def sliced(data: bytes, first: int, next_index: int) -> bytes:
    """The entries with first <= index < next_index of a sound chunk, of which there must be one."""
    chunk = decode_chunk(data, 0)
    first = max(first, chunk.first_index)
    next_index = min(next_index, chunk.next_index)
    assert first < next_index
    if first == chunk.first_index and next_index == chunk.next_index:
        return data
    builder = ChunkBuilder(chunk.queue_id, chunk.epoch, first)
    at = chunk.payload
    index = chunk.first_index
    while at < chunk.payload + chunk.length:
        length = entry_length(data, at)
        if data[at] == ORIGIN:
            _clip_origin(builder, data, at, first, next_index)
        elif data[at] == SKIP:
            _clip_skip(builder, index, index + indexes_at(data, at), first, next_index)
        elif first <= index < next_index:
            builder.raw(data[at : at + length], messages=1 if data[at] == ENQUEUE else 0)
        index += indexes_at(data, at)
        at += length
    return builder.seal(chunk.time_ms)


def _clip_origin(builder: ChunkBuilder, data: bytes, at: int, first: int, next_index: int) -> None:
    publisher, sequence, low, count = origin_at(data, at)
    start = max(low, first)
    stop = min(low + count, next_index)
    if start < stop:
        builder.origin(publisher, sequence + start - low, start, stop - start)


def _clip_skip(builder: ChunkBuilder, low: int, high: int, first: int, next_index: int) -> None:
    start = max(low, first)
    stop = min(high, next_index)
    if start < stop:
        builder.skip(stop - start)
