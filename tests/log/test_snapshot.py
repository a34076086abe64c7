"""Snapshots: encoding, and what they call live."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.log.errors import DamagedChunk
from mirrormq.log.snapshot import Snapshot, decode_snapshot, is_live

U64 = st.integers(0, 2**64 - 1)


@given(
    st.tuples(U64, U64, U64, U64, U64, U64, U64), st.sets(st.one_of(st.integers(0, 40), st.integers(0, 2**62))),
    st.binary(max_size=50),
)
def test_a_snapshot_comes_back_as_it_was(numbers: tuple[int, ...], live: set[int], extra: bytes) -> None:
    queue_id, epoch, next_index, cursor, reserved, count, size = numbers
    snapshot = Snapshot(queue_id, epoch, next_index, cursor, array("Q", sorted(live)), reserved, count, size, extra)
    found = decode_snapshot(snapshot.encode())
    assert (found.queue_id, found.epoch, found.next_index, found.cursor) == (queue_id, epoch, next_index, cursor)
    assert (found.reserved, found.count, found.bytes, found.extra) == (reserved, count, size, extra)
    assert list(found.live) == sorted(live)


def test_a_changed_snapshot_is_noticed() -> None:
    data = Snapshot(1, 2, 30, 20, array("Q", [3, 4, 5, 9]), 7, 4, 400, b"extra").encode()
    for at in range(len(data)):
        with pytest.raises(DamagedChunk):
            decode_snapshot(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with pytest.raises(DamagedChunk):
            decode_snapshot(data[:at])


def test_many_live_messages_in_a_row_take_little_room() -> None:
    data = Snapshot(1, 1, 10**6, 10**6, array("Q", range(1, 10**6)), 0, 10**6, 0).encode()
    assert len(data) < 100


@given(st.sets(st.integers(1, 50)), st.integers(1, 60), st.integers(1, 60), st.integers(0, 20))
def test_live_is_what_the_snapshot_says(live: set[int], cursor: int, first: int, count: int) -> None:
    below = sorted(index for index in live if index < cursor)
    snapshot = Snapshot(1, 1, 100, cursor, array("Q", below))
    expected = any(index >= cursor or index in below for index in range(first, first + count))
    if count:
        assert is_live(snapshot, first, first + count) == expected
