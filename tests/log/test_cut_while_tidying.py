"""A cut at every step of tidying up, and a power failure right behind it: the log is as before the cut, or as after it."""

from __future__ import annotations

import shutil
from array import array
from random import Random

import pytest

from mirrormq.log import lives
from mirrormq.log.helper import perform
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store

from .support import PowerDisk, abandon, append_ack, append_messages, fast_folder, read_all

Q, OTHER = 1, 2
BODIES = [b"%02d" % number * 200 for number in range(24)]
SMALL = [b"%d" % number for number in range(600)]


def unfolded(queue_id: int) -> Snapshot:
    """The state of a mirror that has folded nothing yet."""
    return Snapshot(queue_id, 1, 1, 1, array("Q"))


def snapshotter(queue_id: int) -> Snapshot | None:
    return unfolded(queue_id) if queue_id == Q else None


def prepared() -> Store:
    """Half of the log in segments, half in a file that waits to be dissolved."""
    store = Store(fast_folder(), wal_bytes=4096, segment_bytes=100_000, disk=PowerDisk())
    store.open()
    for half in (BODIES[:12], BODIES[12:]):
        append_messages(store, Q, half)
        store.commit(roll=True)
        append_messages(store, OTHER, [b"x"])
        store.commit(roll=True)
        if half is not BODIES[12:] and not store.stats().segment_files:
            run_steps(store, due_work(store, snapshotter))
    return store


def prepared_small() -> Store:
    """So many small chunks in a file that waits to be dissolved that carrying them takes more than one step."""
    store = Store(fast_folder(), wal_bytes=1 << 20, disk=PowerDisk())
    store.open()
    append_messages(store, Q, SMALL)
    store.commit(roll=True)
    append_messages(store, OTHER, [b"x"])
    store.commit(roll=True)
    return store


def cut_after(steps: int, *, lose_power: bool, small: bool) -> bool:
    """False when there are not that many steps."""
    store = prepared_small() if small else prepared()
    bodies = SMALL if small else BODIES
    keeper = due_work(store, snapshotter)
    for _ in range(steps):
        step = next(keeper, None)
        if step is None:
            abandon(store)
            shutil.rmtree(store.directory)
            return False
        if step.job is not None:
            perform(step.job)
        elif step.position > store.durable:
            store.commit()
    lives.cut(store, Q, 7, "test", 0)
    step = next(keeper, None)
    if step is not None and step.job is not None:
        perform(step.job)
    if lose_power:
        assert isinstance(store.disk, PowerDisk)
        abandon(store)
        store.disk.lose_power(Random(steps))
    else:
        append_messages(store, Q, [b"new"])
        run_steps(store, keeper)
        store.close()
    check(store, bodies if lose_power else [*bodies[:7], b"new"])
    return True


def check(store: Store, expected: list[bytes], live: int = -1) -> None:
    again = Store(store.directory)
    queue = again.open().queues[Q]
    assert queue.damage is None
    assert queue.count == (live if live >= 0 else len(expected))
    assert [entry.content for entry in read_all(again, Q)] == expected
    again.close()
    shutil.rmtree(store.directory)


@pytest.mark.parametrize("lose_power", [True, False])
@pytest.mark.parametrize("small", [True, False])
def test_a_cut_in_the_middle_of_tidying_up(*, lose_power: bool, small: bool) -> None:
    steps = 0
    while cut_after(steps, lose_power=lose_power, small=small):
        steps += 1
    assert steps > 5


def test_what_follows_on_a_state_is_kept_until_a_newer_state_is_logged() -> None:
    """The acknowledgements lie in an older file than the state that does not know of them yet."""
    store = Store(fast_folder(), disk=PowerDisk())
    store.open()
    indexes = append_messages(store, Q, [b"a", b"b", b"c"])
    append_ack(store, Q, indexes[:2], 2)
    store.commit(roll=True)
    append_messages(store, OTHER, [b"x"])
    store.commit(roll=True)
    store.put_snapshot(Snapshot(Q, 1, 4, 1, array("Q"), 0, 3, 3))
    store.commit()
    oldest = store.wal.files[0].path
    for step in due_work(store, lambda queue_id: Snapshot(Q, 1, 5, 3, array("Q"), 0, 1, 1) if queue_id == Q else None):
        if step.job is not None:
            perform(step.job)
        elif step.position > store.durable:
            store.commit()
        if not oldest.exists():
            break
    assert not oldest.exists()
    abandon(store)
    check(store, [b"c"], live=1)


def folded(queue_id: int) -> Snapshot | None:
    """The state of a mirror behind the acknowledgement of three of six messages."""
    return Snapshot(Q, 1, 8, 4, array("Q"), 0, 3, 1200) if queue_id == Q else None


def cut_behind_what_ended(steps: int, *, killed: bool) -> bool:
    """No state is logged before; the one by which the dissolving passes over what has ended is. False as above."""
    store = Store(fast_folder(), wal_bytes=4096, segment_bytes=1000, disk=PowerDisk())
    store.open()
    append_messages(store, Q, BODIES[:6])
    append_ack(store, Q, [1, 2, 3], 1200)
    store.commit(roll=True)
    append_messages(store, Q, BODIES[6:10])
    store.commit(roll=True)
    keeper = due_work(store, folded)
    for _ in range(steps):
        step = next(keeper, None)
        if step is None:
            abandon(store)
            shutil.rmtree(store.directory)
            return False
        if step.job is not None:
            perform(step.job)
        elif step.position > store.durable:
            store.commit()
    assert lives.cut(store, Q, 9, "test", 0) is not None
    if killed:
        store.commit()
        abandon(store)
    else:
        store.close()
    again = Store(store.directory)
    queue = again.open().queues[Q]
    assert (queue.damage, queue.count, queue.next_index) == (None, 5, 10)
    assert [entry.content for entry in read_all(again, Q) if entry.index > 3] == [*BODIES[3:6], *BODIES[6:8]]
    again.close()
    shutil.rmtree(store.directory)
    return True


@pytest.mark.parametrize("killed", [True, False])
def test_a_cut_before_the_state_is_logged_by_which_chunks_were_passed_over(*, killed: bool) -> None:
    steps = 0
    while cut_behind_what_ended(steps, killed=killed):
        steps += 1
    assert steps > 5


def test_what_was_passed_over_cannot_be_cut_into() -> None:
    """From the moment on at which a move lets go of it, though no state is logged yet."""
    store = Store(fast_folder(), wal_bytes=4096, segment_bytes=100_000, disk=PowerDisk())
    store.open()
    append_messages(store, Q, BODIES[:6])
    append_ack(store, Q, [1, 2, 3], 1200)
    store.commit(roll=True)
    append_messages(store, OTHER, [b"x"])
    store.commit(roll=True)
    assert lives.lineage(store, Q).floor == 0
    for step in due_work(store, folded):
        if step.job is not None:
            perform(step.job)
        queue = store.queue(Q)
        assert queue is not None
        if queue.moved_upto:
            break
    assert lives.lineage(store, Q).floor == 7
    abandon(store)
    shutil.rmtree(store.directory)


def cut_beside_what_is_set_aside(steps: int) -> bool:
    """The new log is cut while the old one is moved out of a file. False as above."""
    store = Store(fast_folder(), wal_bytes=1 << 20, segment_bytes=1000)
    store.open()
    append_messages(store, Q, BODIES[:6])
    store.commit()
    lives.begin_at(store, Q, 100, 1, unfolded(Q))
    append_messages(store, Q, [b"new", b"newer", b"newest"])
    store.commit(roll=True)
    append_messages(store, OTHER, [b"x"])
    store.commit(roll=True)
    keeper = due_work(store, snapshotter)
    for _ in range(steps):
        step = next(keeper, None)
        if step is None:
            store.close()
            shutil.rmtree(store.directory)
            return False
        if step.job is not None:
            perform(step.job)
        store.commit()      # so that a state which says a part of it is in a later file already
    lives.cut(store, Q, 101, "test", 0)
    run_steps(store, keeper)
    assert len(store.wal.files) == 1
    store.close()
    again = Store(store.directory)
    assert again.open().queues[Q].damage is None
    assert [entry.content for entry in read_all(again, Q)] == [b"new", b"newer"]
    assert lives.restore_aside(again, Q) is not None
    assert [entry.content for entry in read_all(again, Q)] == BODIES[:6]
    again.close()
    check(again, BODIES[:6])
    return True


def test_a_cut_in_the_middle_of_moving_what_is_set_aside() -> None:
    steps = 0
    while cut_beside_what_is_set_aside(steps):
        steps += 1
    assert steps > 5
