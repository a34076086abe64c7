"""Cuts, quarantine, new beginnings and full sync of one queue's log, step by step."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from mirrormq.log import lives, quarantine
from mirrormq.log.backfill import install_piece, live_messages, open_piece
from mirrormq.log.chunk import decode_chunk
from mirrormq.log.dissolve import collect_garbage
from mirrormq.log.entries import ChunkBuilder, entries_in
from mirrormq.log.errors import CannotCut, DamagedChunk
from mirrormq.log.keeper import run_steps
from mirrormq.log.slices import sliced
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store
from mirrormq.log.trail import recount, trail_from

from .support import append_messages, read_all
from .test_keeper import Node

Q = 5


def opened(folder: Path) -> Store:
    store = Store(folder, wal_bytes=1 << 20, segment_bytes=1 << 20)
    store.open()
    return store


def contents(store: Store) -> list[bytes]:
    return [entry.content for entry in read_all(store, Q)]


def chunk_of(first: int, epoch: int, bodies: list[bytes]) -> bytes:
    builder = ChunkBuilder(Q, epoch, first)
    for body in bodies:
        builder.enqueue(0, b"to", body, len(body))
    return builder.seal(1)


def take(store: Store, chunk: bytes) -> None:
    head = decode_chunk(chunk, 0)
    store.append(Q, head.first_index, head.count, chunk)


def test_a_chunk_from_a_predecessor_is_kept_as_it_came(tmp_path: Path) -> None:
    store = opened(tmp_path)
    chunks = [chunk_of(1, 3, [b"a", b"b"]), chunk_of(3, 4, [b"c"])]
    for chunk in chunks:
        take(store, chunk)
    assert lives.read_chunks(store, Q, 1, 1 << 20) == chunks
    store.close()
    store = opened(tmp_path)
    assert lives.read_chunks(store, Q, 1, 1 << 20) == chunks
    found = lives.lineage(store, Q)
    assert (found.base, found.end, found.epochs, found.firsts) == (0, 3, [3, 4], [1, 3])
    store.close()


def test_a_read_starts_where_it_is_asked_to_also_within_a_chunk(tmp_path: Path) -> None:
    store = opened(tmp_path)
    take(store, chunk_of(1, 1, [b"a", b"b", b"c"]))
    take(store, chunk_of(4, 1, [b"d"]))
    found = lives.read_chunks(store, Q, 2, 1 << 20)
    assert [entry.content for data in found for entry in entries_in(data, 0)] == [b"b", b"c", b"d"]
    assert len(lives.read_chunks(store, Q, 2, 1)) == 1
    assert lives.read_chunks(store, Q, 5, 1) == []
    store.close()


def test_a_cut_tail_is_in_quarantine_and_does_not_come_back(tmp_path: Path) -> None:
    store = opened(tmp_path)
    append_messages(store, Q, [b"1", b"2", b"3", b"4", b"5"], per_chunk=3)
    path = lives.cut(store, Q, 2, "epoch 2 never had them", 99)
    assert path is not None
    take(store, chunk_of(3, 2, [b"new"]))
    assert contents(store) == [b"1", b"2", b"new"]
    store.close()
    store = opened(tmp_path)
    assert contents(store) == [b"1", b"2", b"new"]
    assert lives.lineage(store, Q).firsts == [1, 3]
    (kept,) = quarantine.listed(tmp_path / "quarantine")
    assert (kept.queue_id, kept.epoch, kept.first, kept.last, kept.time_ms) == (Q, 1, 3, 5, 99)
    assert kept.reason == "epoch 2 never had them"
    assert [entry.content for entry in quarantine.messages(path)] == [b"3", b"4", b"5"]
    quarantine.drop(path, store.disk)
    assert quarantine.listed(tmp_path / "quarantine") == []
    store.close()


def test_a_cut_counts_although_what_it_cuts_is_still_on_its_way_to_disk(tmp_path: Path) -> None:
    store = opened(tmp_path)
    append_messages(store, Q, [b"1", b"2", b"3"])
    batch = store.take()
    assert batch is not None
    append_messages(store, Q, [b"4"])
    lives.cut(store, Q, 1, "test", 0)
    store.wal.commit(batch)
    store.finish(batch)
    take(store, chunk_of(2, 2, [b"two"]))
    store.commit()
    assert contents(store) == [b"1", b"two"]
    store.close()
    store = opened(tmp_path)
    assert contents(store) == [b"1", b"two"]
    store.close()


def test_what_is_written_again_after_a_failed_sync_stays_cut(tmp_path: Path) -> None:
    store = opened(tmp_path)
    append_messages(store, Q + 1, [b"x"])
    store.commit()
    append_messages(store, Q, [b"1", b"2", b"3"])
    store.commit(sync=False)
    lives.cut(store, Q, 1, "test", 0)
    take(store, chunk_of(2, 2, [b"two"]))
    batch = store.take()
    assert batch is not None
    store.wal.write(batch)
    elsewhere = store.relocate(batch)
    assert len(elsewhere.items) > len(batch.items)
    store.wal.commit(elsewhere)
    store.finish(elsewhere)
    assert contents(store) == [b"1", b"two"]
    store.close()
    store = opened(tmp_path)
    assert contents(store) == [b"1", b"two"]
    store.close()


def test_a_log_is_not_cut_below_its_newest_state(tmp_path: Path) -> None:
    store = opened(tmp_path)
    append_messages(store, Q, [b"1", b"2", b"3"])
    store.put_snapshot(Snapshot(Q, 1, 3, 1, array("Q"), 0, 2, 2))
    assert lives.lineage(store, Q).floor == 2
    with pytest.raises(CannotCut):
        lives.cut(store, Q, 1, "test", 0)
    assert contents(store) == [b"1", b"2", b"3"]
    assert lives.cut(store, Q, 3, "test", 0) is None
    store.close()


def test_a_slice_keeps_whose_messages_they_are() -> None:
    builder = ChunkBuilder(Q, 1, 10)
    builder.skip(5)
    for number in range(4):
        builder.enqueue(0, b"", b"%d" % number, 1)
    builder.origin(77, 100, 15, 4)
    chunk = builder.seal(1)
    part = entries_in(sliced(chunk, 12, 17), 0)
    assert [(entry.kind, entry.index) for entry in part] == [(0, 12), (1, 15), (1, 16), (7, 17)]
    assert part[-1].ranges == [77, 100, 15, 2]
    assert entries_in(sliced(chunk, 16, 17), 0)[-1].ranges == [77, 101, 16, 1]


def test_what_was_set_aside_can_be_had_back(tmp_path: Path) -> None:
    store = opened(tmp_path)
    append_messages(store, Q, [b"1", b"2"])
    trail = trail_from(Q, None)
    assert trail.catch_up(store, 2)
    lives.begin_at(store, Q, 100, 7, trail.snapshot())
    take(store, chunk_of(100, 7, [b"new"]))
    assert contents(store) == [b"new"]
    store.close()
    store = opened(tmp_path)
    found = lives.lineage(store, Q)
    assert (found.base, found.end, found.epochs, found.firsts, found.whole) == (99, 100, [7], [99], False)
    state = lives.restore_aside(store, Q)
    assert state is not None
    assert contents(store) == [b"1", b"2"]
    store.close()
    store = opened(tmp_path)
    assert contents(store) == [b"1", b"2"]
    assert lives.lineage(store, Q).whole
    store.close()


def synced(tmp_path: Path, pieces: int) -> tuple[Store, Store]:
    """A leader with ten messages of which two ended, and a mirror that began behind them and got that many pieces."""
    leader = opened(tmp_path / "leader")
    append_messages(leader, Q, [b"%d" % number for number in range(1, 11)], per_chunk=4)
    builder = ChunkBuilder(Q, 1, 11)
    builder.ack([2, 2, 5, 5], 2, 2)
    take(leader, builder.seal(1))
    mirror = opened(tmp_path / "mirror")
    lives.begin_at(mirror, Q, 12, 1, None)
    take(leader, chunk_of(12, 1, [b"12"]))
    for chunk in lives.read_chunks(leader, Q, 12, 1 << 20):
        take(mirror, chunk)
    for _ in range(pieces):
        install_next(leader, mirror)
    return leader, mirror


def install_next(leader: Store, mirror: Store) -> bool:
    trail = trail_from(Q, None)
    assert trail.catch_up(leader, lives.lineage(leader, Q).end)
    piece = live_messages(leader, Q, trail.snapshot(), lives.lineage(mirror, Q).filled, 12, 100)
    run_steps(mirror, install_piece(mirror, Q, piece.data, piece.next))
    return piece.done


def test_full_sync_goes_on_after_a_restart_where_it_was(tmp_path: Path) -> None:
    leader, mirror = synced(tmp_path, 1)
    filled = lives.lineage(mirror, Q).filled
    assert 1 < filled < 12
    mirror.close()
    mirror = opened(tmp_path / "mirror")
    assert lives.lineage(mirror, Q).filled == filled
    while not install_next(leader, mirror):
        assert not lives.lineage(mirror, Q).whole
    assert lives.lineage(mirror, Q).whole
    assert contents(mirror) == [b"1", b"3", b"4", b"6", b"7", b"8", b"9", b"10", b"12"]
    assert lives.read_chunks(mirror, Q, 3, 1 << 20) == []
    mirror.close()
    mirror = Store(tmp_path / "mirror")
    queue = mirror.open().queues[Q]
    assert (queue.count, queue.next_index, queue.damage) == (9, 13, None)
    mirror.close()
    leader.close()


def test_what_a_dropped_queue_left_goes_and_the_files_of_its_next_life_stay(tmp_path: Path) -> None:
    """A mirror is put away and wanted again before its files are removed."""
    leader, mirror = synced(tmp_path, 1)
    old = set((tmp_path / "mirror" / "queues").rglob("*-*"))
    assert old
    mirror.drop(Q)
    removal = list(collect_garbage(mirror))
    lives.begin_at(mirror, Q, 12, 1, None)
    for chunk in lives.read_chunks(leader, Q, 12, 1 << 20):
        take(mirror, chunk)
    install_next(leader, mirror)
    run_steps(mirror, iter(removal))
    assert old.isdisjoint((tmp_path / "mirror" / "queues").rglob("*-*"))
    while not install_next(leader, mirror):
        pass
    assert contents(mirror) == [b"1", b"3", b"4", b"6", b"7", b"8", b"9", b"10", b"12"]
    mirror.close()
    leader.close()


def test_a_log_that_was_never_whole_can_be_counted(tmp_path: Path) -> None:
    leader, mirror = synced(tmp_path, 1)
    mirror.close()
    mirror = Store(tmp_path / "mirror")
    queue = mirror.open().queues[Q]
    recount(mirror, queue)
    assert queue.count == len(contents(mirror))
    mirror.close()
    leader.close()


def test_a_damaged_piece_is_refused(tmp_path: Path) -> None:
    leader, mirror = synced(tmp_path, 0)
    piece = live_messages(leader, Q, Snapshot(Q, 1, 12, 1, array("Q")), 1, 12, 1 << 20)
    assert piece.done
    for at in range(8, len(piece.data), 7):
        bad = piece.data[:at] + bytes([piece.data[at] ^ 1]) + piece.data[at + 1 :]
        with pytest.raises(DamagedChunk):
            open_piece(bad)
    mirror.close()
    leader.close()


def test_chunks_that_were_thinned_out_are_not_given_to_followers(tmp_path: Path) -> None:
    node = Node(tmp_path, wal_bytes=64 * 1024, segment_bytes=16 * 1024)
    indexes: list[int] = []
    for turn in range(100):
        indexes += node.publish(Q, [b"%d" % turn * 50 for _ in range(20)], per_chunk=20)
        node.commit()
    kept = indexes[::100]
    node.ack(Q, sorted(set(indexes) - set(kept)))
    for _ in range(3):
        node.publish(Q + 1, [b"y"])
        node.store.commit(roll=True)
        node.tidy()
    for _ in range(2):
        assert [entry.index for entry in node.store.read(Q, 1, 1)] == kept[:1]
        assert lives.read_chunks(node.store, Q, kept[0], 1) == []
        assert lives.lineage(node.store, Q).first_kept > kept[-1]
        node.restart()
    node.store.close()
