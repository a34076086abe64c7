"""Entries as columns: the same rows however a chunk is cut."""

from __future__ import annotations

from mirrormq.broker.message import build_content
from mirrormq.log.columns import Columns
from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.slices import sliced

UPTO = 1 << 62


def chunk() -> bytes:
    """Ten messages of a publisher, whose name stands behind them."""
    builder = ChunkBuilder(7, 1, 1)
    for number in range(10):
        builder.enqueue(0, b"\x00\x01q", build_content(1, b"\x00\x00", b"body %d" % number, 131_072), 6)
    builder.origin(0xABC, 100, 1, 10)
    return builder.seal(5)


def rows(data: bytes, upto: int = UPTO) -> list[tuple[int, int | None, int | None, bytes | None]]:
    columns = Columns(True)
    at = 0
    while at < len(data):
        at = columns.take(data, at, upto)
    assert columns.next_index == min(upto, 11)
    assert (columns.starts, columns.firsts) == ([0], [1])
    return list(zip(range(1, columns.rows + 1), columns.publisher, columns.sequence, columns.body, strict=True))


def test_whose_a_message_is_does_not_depend_on_where_a_range_ends() -> None:
    whole = rows(chunk())
    assert [(index, publisher, sequence) for index, publisher, sequence, _ in whole] == [(n, 0xABC, 99 + n) for n in range(1, 11)]
    for upto in range(2, 12):
        assert rows(chunk(), upto) == whole[: upto - 1]
        assert rows(sliced(chunk(), 1, upto), upto) == whole[: upto - 1]
