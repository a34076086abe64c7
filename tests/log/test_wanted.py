"""Entries that somebody may want back stay in the log, though their messages have ended."""

from __future__ import annotations

from array import array
from pathlib import Path

from mirrormq.log import lives
from mirrormq.log.compact import Compactor
from mirrormq.log.dissolve import Dissolver
from mirrormq.log.entries import DROP, PURGED, ChunkBuilder
from mirrormq.log.helper import perform
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.steps import Step
from mirrormq.log.store import Store

from .support import append_messages, read_all, seal

QUEUE = 7
COUNT = 40


def purge(store: Store) -> int:
    """Everything is purged; returns the index of the entry that says so."""
    builder = ChunkBuilder(QUEUE, 1, store.next_index(QUEUE))
    index = builder.drop(PURGED, [1, COUNT], COUNT, COUNT)
    seal(store, builder, 0)
    return index


def empty(store: Store) -> Snapshot:
    end = store.next_index(QUEUE)
    return Snapshot(QUEUE, 1, end, end, array("Q"))


def follow(store: Store, step: Step) -> None:
    if step.position:
        store.commit()
    elif step.job is not None:
        perform(step.job)


def tidy(store: Store) -> None:
    """Dissolve every retired file, and compact what came of it."""
    store.commit(roll=True)
    for file in store.wal.files[:-1]:
        for step in Dissolver(store, lambda _: empty(store)).dissolve(file):
            follow(store, step)
    for step in Compactor(store, lambda _: empty(store)).compact_all({QUEUE}):
        follow(store, step)
    store.commit()


def filled(directory: Path, size: int) -> Store:
    store = Store(directory, wal_bytes=64 * 1024, segment_bytes=32 * 1024)
    store.open()
    append_messages(store, QUEUE, [bytes([number]) * size for number in range(COUNT)])
    return store


def test_what_is_wanted_outlives_its_files_and_a_restart(tmp_path: Path) -> None:
    for size in (10, 4000):
        directory = tmp_path / str(size)
        store = filled(directory, size)
        index = purge(store)
        lives.want(store, QUEUE, [1, index])
        for _ in range(3):
            append_messages(store, QUEUE, [bytes(4000)] * 20)
            tidy(store)
        store.close()
        store = Store(directory, wal_bytes=64 * 1024, segment_bytes=32 * 1024)
        store.open()
        lives.want(store, QUEUE, [1, index])
        tidy(store)
        assert [entry.index for entry in read_all(store, QUEUE) if entry.index <= COUNT] == list(range(1, COUNT + 1))
        entry = lives.entry_at(store, QUEUE, index)
        assert entry is not None
        assert (entry.kind, entry.reason, entry.ranges) == (DROP, PURGED, [1, COUNT])
        store.close()


def test_what_is_wanted_no_more_goes(tmp_path: Path) -> None:
    store = filled(tmp_path, 4000)
    index = purge(store)
    lives.want(store, QUEUE, [1, index])
    tidy(store)
    lives.want(store, QUEUE, [])
    append_messages(store, QUEUE, [bytes(4000)] * 20)
    tidy(store)
    assert [entry.index for entry in read_all(store, QUEUE) if entry.index <= COUNT] == []
    assert lives.entry_at(store, QUEUE, index) is None
    store.close()


def test_an_unknown_queue_wants_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    lives.want(store, QUEUE, [1, 2])
    assert lives.entry_at(store, QUEUE, 1) is None
    store.close()
