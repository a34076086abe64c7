"""The fold that trails: the same as recovery's, however often a snapshot is taken on the way."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.log.chunk import decode_chunk
from mirrormq.log.entries import TRANSIENT, ChunkBuilder
from mirrormq.log.fold import MAX_PUBLISHERS, MAX_STRETCHES, RecoveredQueue
from mirrormq.log.snapshot import Snapshot, decode_snapshot
from mirrormq.log.trail import Trail, trail_from

from .ledger import QUEUE, Fold, Ledger, Writer


def live_of(state: RecoveredQueue, fold: Fold) -> set[int]:
    """Which of the messages that the ledger ever had are live."""
    return set(state.live) | {index for index in range(state.cursor, state.next_index) if index not in state.gone}


def live_in(snapshot: Snapshot) -> set[int]:
    return set(snapshot.live) | set(range(snapshot.cursor, snapshot.next_index))


def messages_of(ledger: Ledger, *, transient: bool) -> set[int]:
    return {
        at + 1 for at, (_, entry, _) in enumerate(ledger.entries)
        if entry.kind == 1 and (transient or not entry.flags & TRANSIENT)
    }


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 3), min_size=1, max_size=25))
def test_a_trail_folds_to_what_recovery_finds(seed: int, steps: list[int]) -> None:
    writer = Writer(Random(seed), b"t")
    ledger = Ledger()
    recovered = RecoveredQueue(QUEUE)
    trail = trail_from(QUEUE, None)
    for step in steps:
        _, chunk = writer.chunk(ledger, 1)
        ledger.take(1, chunk)
        recovered.fold(chunk, decode_chunk(chunk, 0))
        trail.fold(chunk)
        if step == 1:
            trail.snapshot()
        elif step == 2:
            trail = trail_from(QUEUE, decode_snapshot(trail.snapshot().encode()))
        elif step == 3:
            trail = Trail(trail.recovered())
    fold = ledger.fold(ledger.end)
    snapshot = trail.snapshot()
    assert live_in(snapshot) & messages_of(ledger, transient=True) == set(fold.live)
    assert len(snapshot.live) <= len(fold.live) or {2, 3} & set(steps)    # a state taken out may list what is no message
    found = trail.recovered()
    recovered.settle()
    persistent = messages_of(ledger, transient=False)
    assert live_of(found, fold) & persistent == live_of(recovered, fold) & persistent == set(fold.persistent())
    assert (found.count, found.bytes, found.reserved) == (recovered.count, recovered.bytes, recovered.reserved)
    assert found.publishers == recovered.publishers == fold.publishers
    assert list(found.publishers) == list(recovered.publishers)
    if 2 not in steps:
        assert set(found.transients) == set(fold.live) - persistent


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.booleans(), min_size=2, max_size=25))
def test_what_has_ended_stays_so_however_often_a_trail_is_served_from(seed: int, steps: list[bool]) -> None:
    writer = Writer(Random(seed), b"t")
    ledger = Ledger()
    trail = trail_from(QUEUE, None)
    for is_served in steps:
        _, chunk = writer.chunk(ledger, 1)
        ledger.take(1, chunk)
        trail.fold(chunk)
        if is_served:
            trail = Trail(trail.recovered())
    fold = ledger.fold(ledger.end)
    assert live_of(trail.recovered(), fold) & messages_of(ledger, transient=True) == set(fold.live)


def test_the_oldest_publishers_beyond_a_thousand_are_forgotten() -> None:
    builder = ChunkBuilder(QUEUE, 1, 1)
    for publisher in range(MAX_PUBLISHERS + 10):
        builder.origin(publisher, 5, builder.enqueue(0, b"", b"x", 1), 1)
    builder.origin(10, 6, builder.enqueue(0, b"", b"x", 1), 1)
    builder.forget(500)
    trail = trail_from(QUEUE, None)
    trail.fold(builder.seal(1))
    publishers = trail.state.publishers
    assert len(publishers) == MAX_PUBLISHERS - 1
    assert 9 not in publishers
    assert 500 not in publishers
    assert publishers[10] == (6, MAX_PUBLISHERS + 11)
    again = trail_from(QUEUE, decode_snapshot(trail.snapshot().encode())).state.publishers
    assert list(again.items()) == list(publishers.items())


def test_a_trail_knows_which_of_a_publishers_messages_it_has_since_it_began() -> None:
    builder = ChunkBuilder(QUEUE, 1, 1)
    for sequence in (3, 4, 7):
        builder.origin(1, sequence, builder.enqueue(0, b"", b"x", 1), 1)
    trail = trail_from(QUEUE, None)
    trail.fold(builder.seal(1))
    assert (trail.state.unsure[1], trail.state.taken[1].ranges()) == (2, [(3, 4), (7, 7)])
    again = trail_from(QUEUE, decode_snapshot(trail.snapshot().encode()))
    builder.origin(1, 9, builder.enqueue(0, b"", b"x", 1), 1)
    again.fold(builder.seal(1))
    assert (again.state.unsure[1], again.state.taken[1].ranges()) == (7, [(9, 9)])
    builder.forget(1)
    again.fold(builder.seal(1))
    assert (again.state.unsure, again.state.taken) == ({}, {})


def test_of_a_publisher_with_many_gaps_only_the_newest_are_known() -> None:
    builder = ChunkBuilder(QUEUE, 1, 1)
    for sequence in range(1, 2 * MAX_STRETCHES + 3, 2):
        builder.origin(1, sequence, builder.enqueue(0, b"", b"x", 1), 1)
    trail = trail_from(QUEUE, None)
    trail.fold(builder.seal(1))
    assert trail.state.unsure[1] == MAX_STRETCHES - 1
    assert trail.state.taken[1].lowest() == MAX_STRETCHES + 1
