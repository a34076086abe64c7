"""Files of the write-ahead log that somebody took away: they are missed, and what they may have held is in doubt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mirrormq.log import lives
from mirrormq.log.helper import perform
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.recovery import Recovery
from mirrormq.log.store import Store

from .support import ModelQueue, abandon, append_messages, read_all

A, B, C = 0xA, 0xB, 0xC


def wal(folder: Path, number: int) -> Path:
    return folder / "wal" / f"{number:09d}.wal"


def in_three_files(folder: Path) -> None:
    """A has a message in each file, B in the first two, C in the last one alone; closed cleanly."""
    store = Store(folder)
    store.open()
    for number in (1, 2, 3):
        append_messages(store, A, [b"a"])
        if number < 3:
            append_messages(store, B, [b"b"])
        else:
            append_messages(store, C, [b"c"])
        store.commit(roll=True)
    store.close()


def reopened(folder: Path) -> Recovery:
    store = Store(folder)
    try:
        return store.open()
    finally:
        abandon(store)


def in_doubt(recovery: Recovery) -> set[int]:
    return {queue_id for queue_id, queue in recovery.queues.items() if queue.doubt or queue.damage}


def test_a_log_that_is_all_there_is_beyond_doubt(tmp_path: Path) -> None:
    in_three_files(tmp_path)
    recovery = reopened(tmp_path)
    assert (in_doubt(recovery), recovery.missing, recovery.notes) == (set(), [], [])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_file_that_is_missing_is_named_and_what_has_no_later_state_is_in_doubt(tmp_path: Path, number: int) -> None:
    in_three_files(tmp_path)
    wal(tmp_path, number).unlink()
    recovery = reopened(tmp_path)
    assert recovery.missing == [wal(tmp_path, number)]
    assert any(str(wal(tmp_path, number)) in note for note in recovery.notes)
    assert in_doubt(recovery) >= {A, B}
    assert (C in recovery.queues) is (number < 3)


def test_without_any_file_nothing_is_known_and_that_is_known(tmp_path: Path) -> None:
    in_three_files(tmp_path)
    for number in (1, 2, 3):
        wal(tmp_path, number).unlink()
    recovery = reopened(tmp_path)
    assert (len(recovery.missing), recovery.queues) == (3, {})


def test_a_state_behind_the_missing_file_puts_a_queue_beyond_doubt_unless_a_chunk_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    append_messages(store, A, [b"gone"])
    append_messages(store, B, [b"wanted"])
    store.commit()
    model = ModelQueue(A, store.next_index(A))
    model.ended = model.next_index - 1
    store.put_snapshot(model.snapshot())
    store.put_snapshot(ModelQueue(B, store.next_index(B)).snapshot())
    store.commit(roll=True)
    store.close()
    wal(tmp_path, 1).unlink()
    recovery = reopened(tmp_path)
    assert (recovery.queues[A].doubt, recovery.queues[A].damage) == ("", None)
    assert "000000001.wal is missing" in recovery.queues[B].doubt


def test_files_that_are_given_up_are_not_missed(tmp_path: Path) -> None:
    store = Store(tmp_path, wal_bytes=4000)
    store.open()
    for _ in range(60):
        append_messages(store, A, [b"x" * 500])
        store.commit()
        run_steps(store, due_work(store, lambda queue_id: ModelQueue(queue_id, store.next_index(queue_id)).snapshot()))
    abandon(store)
    recovery = reopened(tmp_path)
    assert (recovery.missing, in_doubt(recovery)) == ([], set())


def test_whenever_it_is_killed_no_file_is_missed_that_it_gave_up_itself(tmp_path: Path) -> None:
    """The directory is looked at between any two steps of the work that makes and removes files."""
    store = Store(tmp_path / "log", wal_bytes=4000)
    store.open()
    looks = 0
    for number in range(16):
        append_messages(store, A, [b"x" * 500] * (1 + number % 3))
        append_messages(store, B + number % 2, [b"y" * 50])
        if number == 9:
            lives.condemn(store, B, "nobody trusts it")
            lives.begin_at(store, B, 1, 0, None)
        store.commit()
        steps = due_work(store, lambda queue_id: ModelQueue(queue_id, store.next_index(queue_id)).snapshot())
        for step in steps:
            looks += 1
            assert_all_there(tmp_path)
            if step.job is not None:
                perform(step.job)
                assert_all_there(tmp_path)
            elif step.position > store.durable:
                store.commit()
    assert (looks > 100, store.wal.files[0].sequence > 5) == (True, True)
    abandon(store)


def assert_all_there(folder: Path) -> None:
    """As a process finds it that starts now."""
    shutil.copytree(folder / "log", folder / "found")
    recovery = reopened(folder / "found")
    assert (recovery.missing, in_doubt(recovery)) == ([], set())
    shutil.rmtree(folder / "found")


def test_a_directory_of_an_older_program_has_no_note_and_misses_nothing(tmp_path: Path) -> None:
    in_three_files(tmp_path)
    (tmp_path / "FILES").unlink()
    wal(tmp_path, 3).unlink()
    assert reopened(tmp_path).missing == []


@pytest.mark.parametrize("text", [b"", b"1 9", b"1 9 0badc0de\n", b"1 99999999999999999999 00000000\n", b"9" * 5000])
def test_a_note_that_is_damaged_is_told_and_puts_nothing_in_doubt(tmp_path: Path, text: bytes) -> None:
    in_three_files(tmp_path)
    (tmp_path / "FILES").write_bytes(text)
    recovery = reopened(tmp_path)
    assert (recovery.missing, in_doubt(recovery)) == ([], set())
    assert any("FILES is damaged" in note for note in recovery.notes)
    store = Store(tmp_path)
    store.open()
    store.close()
    wal(tmp_path, 3).unlink()
    assert reopened(tmp_path).missing == [wal(tmp_path, 3)]


def test_a_file_that_was_given_up_and_is_there_again_makes_none_of_the_others_missed(tmp_path: Path) -> None:
    """A power failure may take one removal back, and a later one not."""
    in_three_files(tmp_path)
    kept = {number: wal(tmp_path, number).read_bytes() for number in (1, 2)}
    store = Store(tmp_path)
    store.open()
    run_steps(store, due_work(store, lambda queue_id: ModelQueue(queue_id, store.next_index(queue_id)).snapshot()))
    abandon(store)
    assert not wal(tmp_path, 1).exists()
    assert not wal(tmp_path, 2).exists()
    wal(tmp_path, 1).write_bytes(kept[1])
    recovery = reopened(tmp_path)
    assert (recovery.missing, in_doubt(recovery)) == ([], set())


def begun_by_a_torn_batch(folder: Path, *, behind: bool) -> None:
    """A power failure in the first batch of the newest file, or of the only one."""
    store = Store(folder)
    store.open()
    if behind:
        append_messages(store, A, [b"kept"])
        store.commit()
    append_messages(store, A, [b"torn"])
    batch = store.take(roll=True)
    assert batch is not None
    store.wal.write(batch)
    abandon(store)
    path = wal(folder, 2 if behind else 1)
    path.write_bytes(path.read_bytes().replace(b"torn", b"\0\0\0\0"))


@pytest.mark.parametrize("behind", [True, False])
def test_a_file_of_which_only_its_header_was_left_is_not_missed_when_it_goes(tmp_path: Path, *, behind: bool) -> None:
    """Killed between any two steps, before it has a batch again or after."""
    begun_by_a_torn_batch(tmp_path / "log", behind=behind)
    store = Store(tmp_path / "log")
    store.open()
    for step in due_work(store, lambda queue_id: ModelQueue(queue_id, store.next_index(queue_id)).snapshot()):
        if step.job is not None:
            perform(step.job)
        elif step.position > store.durable:
            store.commit()
        assert_all_there(tmp_path)
    append_messages(store, A, [b"new"])
    store.commit(sync=False)
    assert_all_there(tmp_path)
    append_messages(store, A, [b"new"])
    store.commit()
    run_steps(store, due_work(store, lambda queue_id: ModelQueue(queue_id, store.next_index(queue_id)).snapshot()))
    newest = store.wal.current.path
    abandon(store)
    newest.unlink()
    assert reopened(tmp_path / "log").missing == [newest]


def test_the_keeper_is_woken_when_a_file_that_was_cut_to_its_header_has_a_batch_that_lasts(tmp_path: Path) -> None:
    begun_by_a_torn_batch(tmp_path, behind=False)
    store = Store(tmp_path)
    store.open()
    woken: list[bool] = []
    store.on_work = lambda: woken.append(True)
    for sync in (False, True, True):
        append_messages(store, A, [b"new"])
        store.commit(sync=sync)
        woken.append(False)
    assert woken == [False, True, False, False]
    abandon(store)


def test_a_log_that_is_condemned_stays_so_until_another_takes_its_place(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    append_messages(store, A, [b"old"])
    lives.condemn(store, A, "nobody trusts it")
    lives.condemn(store, B, "nothing was found")
    store.close()
    store = Store(tmp_path)
    recovery = store.open()
    assert [recovery.queues[queue_id].damage for queue_id in (A, B)] == ["nobody trusts it", "nothing was found"]
    for queue_id in (A, B):
        lives.begin_at(store, queue_id, 1, 0, None)
        append_messages(store, queue_id, [b"new"])
    store.close()
    store = Store(tmp_path)
    recovery = store.open()
    assert in_doubt(recovery) == set()
    assert [[entry.content for entry in read_all(store, queue_id)] for queue_id in (A, B)] == [[b"new"], [b"new"]]
    store.close()


def test_damage_behind_a_new_beginning_in_the_same_file_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    append_messages(store, A, [b"before"])
    lives.condemn(store, A, "nobody trusts it")
    lives.begin_at(store, A, 1, 0, None)
    append_messages(store, A, [b"the last one"])
    store.close()
    data = bytearray(wal(tmp_path, 1).read_bytes())
    data[data.index(b"the last one")] ^= 8
    wal(tmp_path, 1).write_bytes(data)
    assert "a checksum is wrong" in str(reopened(tmp_path).queues[A].damage)
