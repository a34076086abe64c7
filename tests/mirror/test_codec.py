"""Messages as bytes: what goes in comes out, and nonsense is an error of one kind."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.log.chunk import encode_chunk
from mirrormq.mirror import codec
from mirrormq.mirror.machine import messages as m
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.records import Batch


def lineage() -> Lineage:
    made = Lineage(4, 2)
    made.extend(2, 3)
    made.extend(9, 1)
    return made


MESSAGES = [
    m.Mark(7, 1, 2, True, 0), m.Mark(7, 1, 2, False, 5), m.AskMark(7), m.Follow(7, 3, lineage(), True),
    m.Follow(7, 3, Lineage(), False), m.Followed(7, 3, 4, 5, 6, 7, 8), m.FollowAgain(7), m.AskSum(7, 9),
    m.TellSum(7, 9, 3, 40, -1), m.TakeAnew(7), m.Barred(7, True), m.Reach(7, ("a@b", "ü")),
    m.Reach(7, ()), m.Leaving(7), m.AskStatus(7), m.Status(7, 1, 2), m.StableNote(7, 1, 2), m.SyncAsked(7, True, 3),
    m.PieceWanted(7, 1, 2, 3, 4), m.Piece(7, 1, 2, 3, b"data", True),
]


def fields(message: object) -> dict[str, object]:
    names = [name for kind in type(message).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: repr(getattr(message, name)) for name in names}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_out_as_it_went_in(message: m.Message) -> None:
    queue, decoded = codec.decode(codec.encode(2**40, message))
    assert queue == 2**40
    assert type(decoded) is type(message)
    assert fields(decoded) == fields(message)


def test_entries_are_their_chunk_and_little_more() -> None:
    chunk = encode_chunk(0, 5, 3, 10, 4, 0, b"payload")
    encoded = codec.encode(5, m.Entries(7, 2, Batch(3, 10, 4, chunk, True), 8, 9))
    assert len(encoded) - len(chunk) == codec.ENTRIES_SIZE
    _, decoded = codec.decode(encoded)
    assert isinstance(decoded, m.Entries)
    batch = decoded.batch
    assert (batch.epoch, batch.first, batch.count, batch.data, batch.waits) == (3, 10, 4, chunk, True)


@given(st.binary(max_size=80))
def test_nonsense_is_refused(data: bytes) -> None:
    with suppress(codec.BadMessage):
        codec.decode(data)


def test_a_short_message_is_refused() -> None:
    for message in MESSAGES:
        encoded = codec.encode(1, message)
        with pytest.raises(codec.BadMessage):
            codec.decode(encoded[:10])
