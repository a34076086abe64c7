"""A disk that is really full: a limit on the size of files, and (as root) a small file system."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mirrormq.log.helper import perform
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.store import Store

from .support import append_messages, read_all

CHILD = Path(__file__).with_name("full_disk_child.py")


def work(folder: Path, room: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(CHILD), str(folder), room], check=False, capture_output=True, text=True, env=environment,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(folder: Path, told: str) -> None:
    stored = int(told.rsplit(maxsplit=1)[-1])
    store = Store(folder)
    assert store.open().notes == []
    numbers = [int(entry.content.split()[0]) for entry in read_all(store, 1, max_bytes=100_000)]
    assert numbers == list(range(1, stored + 1))
    store.close()


def test_when_files_may_not_grow_nothing_is_lost_and_work_goes_on_afterwards(tmp_path: Path) -> None:
    told = work(tmp_path, "limit")
    assert "File too large" in told
    check(tmp_path, told)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_when_the_disk_is_full_nothing_is_lost_and_work_goes_on_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    told = work(small_disk / "data", str(ballast))
    assert "No space left on device" in told
    check(small_disk / "data", told)


def test_a_full_disk_does_not_keep_the_files_from_being_noted(small_disk: Path) -> None:
    """What would free some space waits for it."""
    note = small_disk / "FILES"
    note.write_bytes(b"1 12 old\n")
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    perform(("note", str(note), b"3 4 new\n"))
    assert (note.read_bytes(), [path.name for path in small_disk.glob("*.new")]) == (b"3 4 new\n", [])
    with pytest.raises(OSError, match="No space"):
        perform(("note", str(small_disk / "another"), b"3 4 new\n"))


def test_copies_leave_the_last_of_the_space_to_clients(small_disk: Path) -> None:
    (small_disk / "queues").mkdir()
    target = small_disk / "queues/1/a.seg"
    with pytest.raises(OSError, match="No space"):
        perform(("copy", [(str(target), 4, b"head", [(b"body", [])])]))
    assert not target.exists()


def test_where_space_is_scarce_no_spare_is_made_and_old_files_are_given_up(small_disk: Path) -> None:
    """A spare that cannot be had must not keep from the work that frees space, nor take the last of it."""
    store = Store(small_disk / "data", wal_bytes=1 << 20)
    store.open()
    for number in range(6):
        append_messages(store, 1, [b"%d" % number + bytes(100_000)])
        store.commit()
        run_steps(store, due_work(store, lambda _: None))
    assert (store.wal.spares, list((small_disk / "data/wal").glob("*spare*"))) == ([], [])
    store.commit(roll=True)
    append_messages(store, 2, [b"x"])
    store.commit(roll=True)
    run_steps(store, due_work(store, lambda _: None))
    assert len(store.wal.files) == 1
    store.close()
