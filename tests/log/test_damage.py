"""Flipped bytes, missing files and unfinished writes: named or cut, and the other queues start."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from mirrormq.log.entries import EXPIRED, ChunkBuilder
from mirrormq.log.errors import FormatRefused, LogError, QueueDamaged
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.recovery import Recovery
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store

from .support import ModelQueue, abandon, append_ack, append_messages, read_all, seal

A, B, C = 0xA, 0xB, 0xC
MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where that is to be had: hundreds of logs are opened and closed here, and none of them asks the disk."""
    has_memory = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 28
    with tempfile.TemporaryDirectory(dir=MEMORY if has_memory else None) as folder:
        yield Path(folder)


def fill(folder: Path, **sizes: int) -> int:
    """Three queues, three messages each in every batch, closed cleanly; returns where the log ends."""
    store = Store(folder, **sizes)
    store.open()
    for turn in range(10):
        for queue_id in (A, B, C):
            append_messages(store, queue_id, [f"{queue_id}-{turn}-{n}".encode() for n in range(3)], per_chunk=3)
        store.commit()
    end = store.wal.current.end
    store.close()
    return end


def flip(path: Path, offset: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def open_copy(origin: Path, folder: Path, spoil: Callable[[Path], None]) -> tuple[Store, Recovery]:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(origin, folder)
    spoil(folder)
    store = Store(folder)
    return store, store.open()


def open_flipped(tmp_path: Path, offset: int) -> tuple[Store, Recovery]:
    return open_copy(tmp_path / "origin", tmp_path / "copy", lambda folder: flip(the_wal(folder), offset))


def the_wal(folder: Path) -> Path:
    return next((folder / "wal").glob("*.wal"))


def check_sound_queues(store: Store, recovery: Recovery) -> list[int]:
    """Every queue that is not called damaged is complete; returns the damaged ones."""
    damaged = [queue_id for queue_id, queue in recovery.queues.items() if queue.damage]
    for queue_id in {A, B, C} - set(damaged):
        bodies = [entry.content for entry in read_all(store, queue_id)]
        assert bodies == [f"{queue_id}-{turn}-{n}".encode() for turn in range(10) for n in range(3)]
        assert recovery.queues[queue_id].count == 30
    return damaged


def test_a_flipped_byte_anywhere_in_the_middle_of_the_log_is_named_and_the_others_start(tmp_path: Path) -> None:
    end = fill(tmp_path / "origin")
    for offset in [*range(0, 700, 3), *range(700, end, 41)]:
        store, recovery = open_flipped(tmp_path, offset)
        damaged = check_sound_queues(store, recovery)
        assert len(damaged) <= 1
        assert damaged or recovery.notes, offset
        for queue_id in damaged:
            sentence = recovery.queues[queue_id].damage
            assert sentence is not None
            assert "000000001.wal at offset" in sentence
            assert "delete the queue" in sentence
        abandon(store)


def test_a_flipped_byte_in_any_of_several_log_files_is_named(tmp_path: Path) -> None:
    fill(tmp_path / "origin", wal_bytes=1500)
    names = sorted(path.name for path in (tmp_path / "origin" / "wal").iterdir())
    assert len(names) > 4
    for name in names:
        size = (tmp_path / "origin" / "wal" / name).stat().st_size
        for offset in range(0, min(size, 1500), 29):

            def spoil(folder: Path, name: str = name, offset: int = offset) -> None:
                flip(folder / "wal" / name, offset)

            store, recovery = open_copy(tmp_path / "origin", tmp_path / "copy", spoil)
            assert len(check_sound_queues(store, recovery)) <= 1
            abandon(store)


def test_a_damaged_queue_is_neither_read_nor_written_and_can_be_dropped(tmp_path: Path) -> None:
    fill(tmp_path / "origin")
    store, recovery = open_flipped(tmp_path, 300)
    (damaged,) = check_sound_queues(store, recovery)
    with pytest.raises(QueueDamaged, match="is damaged in"):
        store.read(damaged, 1, 1000)
    with pytest.raises(QueueDamaged):
        append_messages(store, damaged, [b"more"])
    store.drop(damaged)
    store.close()
    store = Store(tmp_path / "copy")
    assert damaged not in store.open().queues
    store.close()


def snapshots_of(store: Store) -> Callable[[int], Snapshot | None]:
    """As if nothing had ever been acknowledged."""

    def snapshot(queue_id: int) -> Snapshot | None:
        queue = ModelQueue(queue_id, store.next_index(queue_id))
        return queue.snapshot()

    return snapshot


def test_a_damaged_queue_stays_named_and_its_files_stay_when_the_log_moves_on(tmp_path: Path) -> None:
    fill(tmp_path / "origin")
    store, recovery = open_flipped(tmp_path, 300)
    (damaged,) = check_sound_queues(store, recovery)
    sentence = recovery.queues[damaged].damage
    for _ in range(3):
        append_messages(store, next(q for q in (A, B) if q != damaged), [b"x"])
        store.commit(roll=True)
        run_steps(store, due_work(store, snapshots_of(store)))
    store.close()
    assert (tmp_path / "copy" / "damaged" / "000000001.wal").exists()
    store = Store(tmp_path / "copy")
    assert store.open().queues[damaged].damage == sentence
    store.close()


def with_segments(folder: Path) -> Store:
    """One queue in several segments, another one beside it, both with everything live."""
    store = Store(folder, wal_bytes=20_000, segment_bytes=8_000)
    store.open()
    for turn in range(100):
        append_messages(store, A, [f"{turn}-{n}".encode() * 20 for n in range(8)], per_chunk=8)
        append_messages(store, B, [b"b"])
        store.commit()
        run_steps(store, due_work(store, snapshots_of(store)))
    return store


def test_a_flipped_byte_in_a_segment_is_named_when_it_is_read(tmp_path: Path) -> None:
    store = with_segments(tmp_path / "origin")
    segments = [segment.path.name for segment in store.queue(A).segments]  # type: ignore[union-attr]
    store.close()
    assert len(segments) > 5
    random = Random(5)
    for _ in range(40):
        name = random.choice(segments)

        def spoil(folder: Path, name: str = name) -> None:
            path = folder / "queues" / "a" / name
            flip(path, random.randrange(40, path.stat().st_size - 4))

        store, recovery = open_copy(tmp_path / "origin", tmp_path / "copy", spoil)
        assert [queue.damage for queue in recovery.queues.values()] == [None, None]
        with pytest.raises(QueueDamaged, match=name):
            read_all(store, A)
        with pytest.raises(QueueDamaged, match=name):
            store.read(A, 1, 100)
        assert len(read_all(store, B)) == 100
        abandon(store)


@pytest.mark.parametrize("how", ["missing", "short"])
def test_a_segment_that_is_missing_or_short_is_named_at_the_start(tmp_path: Path, how: str) -> None:
    store = with_segments(tmp_path / "origin")
    path = store.queue(A).segments[2].path  # type: ignore[union-attr]
    store.close()
    if how == "missing":
        path.unlink()
    else:
        with path.open("r+b") as file:
            file.truncate(500)
    store = Store(tmp_path / "origin")
    recovery = store.open()
    assert path.name in str(recovery.queues[A].damage)
    assert recovery.queues[B].damage is None
    store.close()


def test_a_missing_log_file_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    for turn in range(3):
        append_messages(store, A, [b"a"])
        if turn != 1:
            append_messages(store, B, [b"b"])
        store.commit(roll=True)
    store.close()
    (tmp_path / "wal" / "000000002.wal").unlink()
    store = Store(tmp_path)
    recovery = store.open()
    assert "index 2 is missing" in str(recovery.queues[A].damage)
    assert recovery.queues[B].damage is None
    assert any("000000002.wal" in note for note in recovery.notes)
    store.close()


def test_damage_in_what_nobody_needs_any_more_is_only_a_note(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    indexes = append_messages(store, A, [b"gone" * 10, b"gone too"], per_chunk=2)
    store.commit()
    append_ack(store, A, indexes, 48)
    model = ModelQueue(A, store.next_index(A))
    model.ended = model.next_index - 1
    store.put_snapshot(model.snapshot())
    store.close()
    data = the_wal(tmp_path).read_bytes()
    flip(the_wal(tmp_path), data.index(b"gonegone"))
    store = Store(tmp_path)
    recovery = store.open()
    assert recovery.queues[A].damage is None
    assert any("nothing in it is needed" in note for note in recovery.notes)
    store.close()


@pytest.mark.parametrize("style", ["cut", "zeroed", "garbled"])
def test_an_unfinished_write_at_the_end_is_cut_wherever_it_stops(tmp_path: Path, style: str) -> None:
    origin = tmp_path / "origin"
    store = Store(origin)
    store.open()
    append_messages(store, A, [b"first"])
    append_messages(store, B, [b"first"])
    store.commit()
    durable = store.wal.current.end
    append_messages(store, A, [b"second" * 10])
    append_messages(store, B, [b"second" * 10])
    store.commit()
    whole = the_wal(origin).read_bytes()[: store.wal.current.end]
    abandon(store)
    for stop in range(durable, len(whole)):
        rest = {"cut": b"", "zeroed": bytes(len(whole) - stop), "garbled": Random(stop).randbytes(len(whole) - stop)}
        torn = whole[:stop] + rest[style]


        def tear(folder: Path, torn: bytes = torn) -> None:
            the_wal(folder).write_bytes(torn)

        store, recovery = open_copy(origin, tmp_path / "copy", tear)
        for queue_id in (A, B):
            assert recovery.queues[queue_id].damage is None
            assert recovery.queues[queue_id].next_index in (2, 3)
            append_messages(store, queue_id, [b"third"])
        store.close()
        store = Store(tmp_path / "copy")
        assert store.open().notes == []
        for queue_id in (A, B):
            bodies = [entry.content for entry in read_all(store, queue_id)]
            assert bodies in ([b"first", b"third"], [b"first", b"second" * 10, b"third"])
        abandon(store)


def test_a_newer_format_is_refused_with_a_sentence(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "FORMAT").write_text("3\n")
    with pytest.raises(FormatRefused, match="has format version 3, this program reads up to version 2"):
        Store(tmp_path).open()
    (tmp_path / "FORMAT").write_text("hello\n")
    with pytest.raises(FormatRefused, match="no format version"):
        Store(tmp_path).open()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    with pytest.raises(LogError, match="in use by another process"):
        Store(tmp_path).open()
    store.close()
    again = Store(tmp_path)
    again.open()
    again.close()


def test_a_directory_that_nobody_knows_is_kept_and_named(tmp_path: Path) -> None:
    fill(tmp_path)
    stray = tmp_path / "queues" / "beef"
    stray.mkdir()
    (stray / "00000000000000000001-1.seg").write_bytes(b"?")
    store = Store(tmp_path)
    assert any("beef" in note for note in store.open().notes)
    assert stray.exists()
    store.close()


def test_a_message_is_not_dropped_where_its_dead_letter_is_torn(tmp_path: Path) -> None:
    """Both are in one unfinished write, of which the disk has the second half."""
    store = Store(tmp_path)
    store.open()
    (index,) = append_messages(store, A, [b"message"])
    append_messages(store, C, [b"other"])
    store.commit()
    append_messages(store, B, [b"dead letter"])
    append_messages(store, C, [b"sound"])
    builder = ChunkBuilder(A, 1, store.next_index(A))
    builder.drop(EXPIRED, [index, index], 1, len(b"message"))
    seal(store, builder, 1)
    append_messages(store, A, [b"behind it"])
    store.commit()
    abandon(store)
    path = the_wal(tmp_path)
    flip(path, path.read_bytes().index(b"dead letter"))
    store = Store(tmp_path)
    recovery = store.open()
    assert any("an unfinished write" in note for note in recovery.notes)
    assert not any(queue.damage for queue in recovery.queues.values())
    assert (recovery.queues[A].count, index in recovery.queues[A].gone, recovery.queues[A].cursor) == (1, False, index)
    assert [entry.content for entry in read_all(store, A)] == [b"message"]
    assert [entry.content for entry in read_all(store, C)] == [b"other", b"sound"]
    append_messages(store, A, [b"again"])
    store.close()
    store = Store(tmp_path)
    assert store.open().notes == []
    assert [entry.content for entry in read_all(store, A)] == [b"message", b"again"]
    store.close()
