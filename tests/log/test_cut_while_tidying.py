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
