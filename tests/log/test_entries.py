"""Chunks and their entries: what goes in comes out, and nothing that was changed on the way passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.log.chunk import OVERHEAD, decode_chunk, payload_is_sound, trailer_before
from mirrormq.log.entries import (
    ACK,
    CONFIG,
    DROP,
    ENQUEUE,
    EXTRA,
    REQUEUE,
    RESERVE,
    SEQUENCED,
    SKIP,
    ChunkBuilder,
    Cursor,
    Entry,
    entries_in,
    messages_in,
)
from mirrormq.log.errors import DamagedChunk

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
BLOBS = st.binary(max_size=200)
FLAT = st.lists(st.tuples(U64, U64), max_size=5).map(lambda pairs: [number for pair in pairs for number in pair])
OPERATIONS = st.one_of(
    st.tuples(st.just("enqueue"), st.integers(0, 3), BLOBS, BLOBS, U32),
    st.tuples(st.just("enqueue_extra"), st.integers(0, 3), BLOBS, BLOBS, U32, BLOBS, st.sampled_from((b"", bytes(24)))),
    st.tuples(st.just("skip"), st.integers(1, 1000)),
    st.tuples(st.just("reserve"), U64),
    st.tuples(st.just("ack"), FLAT, U64, U64),
    st.tuples(st.just("requeue"), FLAT),
    st.tuples(st.just("drop"), st.integers(1, 5), FLAT, U64, U64),
    st.tuples(st.just("config"), BLOBS),
)
KINDS = {
    "enqueue": ENQUEUE, "enqueue_extra": ENQUEUE, "skip": SKIP, "reserve": RESERVE, "ack": ACK, "requeue": REQUEUE,
    "drop": DROP, "config": CONFIG,
}


def facts(entry: Entry) -> tuple[object, ...]:
    if entry.kind == ENQUEUE:
        flags = entry.flags & ~(EXTRA | SEQUENCED)
        return flags, entry.address, entry.content, entry.size, entry.extra, entry.publisher
    if entry.kind in (SKIP, RESERVE):
        return (entry.count,)
    if entry.kind == CONFIG:
        return (entry.content,)
    return entry.reason, entry.ranges, entry.count, entry.bytes


def expected(operation: tuple[object, ...]) -> tuple[object, ...]:
    name, *arguments = operation
    if name == "enqueue":
        return (*arguments, b"", b"")
    if name == "ack":
        return (0, *arguments)
    if name == "requeue":
        return (0, *arguments, 0, 0)
    return tuple(arguments)


@given(st.lists(OPERATIONS, min_size=1, max_size=20), U64, U64, st.integers(1, 2**63), U64)
def test_every_entry_comes_back_as_it_was_put(
    operations: list[tuple[object, ...]], queue_id: int, epoch: int, first: int, time_ms: int
) -> None:
    builder = ChunkBuilder(queue_id, epoch, first)
    indexes = [getattr(builder, str(operation[0]))(*operation[1:]) for operation in operations]
    count, size, next_index = builder.count, builder.size, builder.next_index
    chunk = builder.seal(time_ms)
    head = decode_chunk(chunk)
    assert (head.queue_id, head.epoch, head.first_index, head.count, head.time_ms) == (
        queue_id, epoch, first, count, time_ms,
    )
    assert len(chunk) == size == head.size
    assert head.next_index == next_index == builder.first_index
    entries = entries_in(chunk, 0)
    assert [entry.index for entry in entries] == indexes
    assert [entry.kind for entry in entries] == [KINDS[str(operation[0])] for operation in operations]
    assert [facts(entry) for entry in entries] == [expected(operation) for operation in operations]
    assert all(entry.time_ms == time_ms for entry in entries)


@given(st.lists(OPERATIONS, min_size=1, max_size=20), st.integers(0, 3000), st.integers(1, 500))
def test_messages_can_be_read_in_parts(operations: list[tuple[object, ...]], start: int, budget: int) -> None:
    builder = ChunkBuilder(1, 1, 1)
    for operation in operations:
        getattr(builder, str(operation[0]))(*operation[1:])
    chunk = b"before" + builder.seal(7)
    wanted = [entry for entry in entries_in(chunk, 6) if entry.kind == ENQUEUE and entry.index >= start]
    assert [facts(entry) for entry in messages_in(chunk, 6, start)] == [facts(entry) for entry in wanted]
    cursor, parts = Cursor(chunk, decode_chunk(chunk, 6)), list[Entry]()
    while cursor.at < cursor.end:
        cursor.take(parts, start, budget)
    assert [(entry.index, *facts(entry)) for entry in parts] == [(entry.index, *facts(entry)) for entry in wanted]


def small_chunk() -> bytes:
    builder = ChunkBuilder(0xABCDEF, 3, 1000)
    builder.enqueue(0, b"key", b"content", 7)
    builder.ack([1, 5, 9, 9], 6, 60)
    return builder.seal(123)


def test_a_flipped_bit_anywhere_in_a_chunk_is_noticed() -> None:
    chunk = small_chunk()
    for at in range(len(chunk)):
        for bit in range(8):
            bad = chunk[:at] + bytes([chunk[at] ^ 1 << bit]) + chunk[at + 1 :]
            with pytest.raises(DamagedChunk):
                entries_in(bad, 0)


def test_a_chunk_that_is_cut_short_is_noticed() -> None:
    chunk = small_chunk()
    for length in range(len(chunk)):
        with pytest.raises(DamagedChunk):
            entries_in(chunk[:length], 0)


def test_a_broken_header_does_not_hide_whose_chunk_it_is() -> None:
    chunk = small_chunk()
    bad = bytes(56) + chunk[56:]
    with pytest.raises(DamagedChunk):
        decode_chunk(bad)
    assert trailer_before(bad, len(bad)) == (0xABCDEF, 1000, len(chunk))
    assert trailer_before(bad[:-1] + b"x", len(bad)) is None


def test_a_large_content_is_sealed_like_a_small_one() -> None:
    builder = ChunkBuilder(1, 1, 1)
    builder.enqueue(0, b"a", b"x" * 100_000, 100_000)
    builder.enqueue(0, b"b", b"y", 1)
    chunk = builder.seal(1)
    assert payload_is_sound(chunk, decode_chunk(chunk))
    assert [entry.content[:1] for entry in messages_in(chunk, 0, 1)] == [b"x", b"y"]
    assert builder.size == OVERHEAD


def test_a_newer_chunk_format_is_named() -> None:
    import zlib

    chunk = bytearray(small_chunk())
    chunk[4] = 2
    chunk[52:56] = zlib.crc32(chunk[:52]).to_bytes(4, "little")
    with pytest.raises(DamagedChunk, match="format version 2"):
        decode_chunk(bytes(chunk))
