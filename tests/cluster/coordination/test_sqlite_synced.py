"""What several processes know of how far their common file is on the disk."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from mirrormq.cluster.coordination import OutcomeUnknown, Put, open_coordination
from mirrormq.cluster.coordination.sqlite.schema import connect
from mirrormq.cluster.coordination.sqlite.synced import Synced


class Disk:
    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, _: int) -> None:
        self.syncs += 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """As SQLite leaves them; nobody has them open."""
    (tmp_path / "file").touch()
    (tmp_path / "file-wal").touch()
    return tmp_path / "file"


def noted(path: Path) -> int:
    return int.from_bytes(Path(f"{path}-turn").read_bytes()[:8], "little")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def refuse(_: int) -> None:
    raise OSError(5, "input/output error")


def test_each_revision_is_synced_once_by_whoever_comes_first(path: Path) -> None:
    disk = Disk()
    one, other = Synced(path, disk.sync), Synced(path, disk.sync)
    one.reach(5)
    other.reach(5)
    other.reach(4)
    assert disk.syncs == 1
    other.reach(6)
    one.reach(6)
    assert disk.syncs == 2


def test_a_probe_asks_the_disk_anyway(path: Path) -> None:
    disk = Disk()
    synced = Synced(path, disk.sync)
    synced.reach(5)
    synced.reach(5, anyway=True)
    assert disk.syncs == 2


def test_what_is_not_synced_is_not_noted(path: Path) -> None:
    disk = Disk()
    broken, sound = Synced(path, refuse), Synced(path, disk.sync)
    with pytest.raises(OSError, match="input/output"):
        broken.reach(5)
    sound.reach(5)
    assert disk.syncs == 1


def test_who_opens_the_store_trusts_no_note(path: Path) -> None:
    """The file may have been put back from a backup, with older revisions, beside the note of its later life."""
    disk = Disk()
    Synced(path, disk.sync).reach(5)
    Synced(path, disk.sync).reach(3)
    assert disk.syncs == 2


def test_a_note_about_a_file_that_was_replaced_since_counts_for_nothing(path: Path) -> None:
    """Its author was frozen, or does not know yet, while others have opened a copy with older revisions."""
    disk = Disk()
    late = Synced(path, disk.sync)
    path.rename(path.with_name("former"))
    path.touch()
    one = Synced(path, disk.sync)
    late.reach(100)
    one.reach(50)
    assert disk.syncs == 2


def take_for_clean(log: Path) -> None:
    """As the system does after a sync that failed: only what is written from now on will be on the disk."""
    os.utime(log, (0, 0))


def was_written(log: Path) -> bool:
    return log.stat().st_mtime_ns > 0


class FailingOnce:
    def __init__(self, log: Path) -> None:
        self._log = log
        self._has_failed = False
        self.lost = False

    def sync(self, _: int) -> None:
        if self._has_failed:
            self.lost = self.lost or not was_written(self._log)
        else:
            self._has_failed = True
            take_for_clean(self._log)
            raise OSError(5, "input/output error")


def test_after_a_sync_that_failed_the_log_is_written_anew_by_whoever_is_next(tmp_path: Path) -> None:
    path = tmp_path / "file"
    database = connect(path)
    database.execute("create table t (x)")
    content = (tmp_path / "file-wal").read_bytes()
    disk = FailingOnce(tmp_path / "file-wal")
    one, other = Synced(path, disk.sync), Synced(path, disk.sync)
    with pytest.raises(OSError, match="input/output"):
        one.reach(5)
    other.reach(5)
    assert (disk.lost, noted(path), (tmp_path / "file-wal").read_bytes()) == (False, 5, content)
    take_for_clean(tmp_path / "file-wal")
    one.reach(6)
    assert not was_written(tmp_path / "file-wal")
    database.close()


def test_the_log_is_not_written_anew_while_another_may_write(tmp_path: Path) -> None:
    path = tmp_path / "file"
    database = connect(path)
    synced = Synced(path, Disk().sync)
    synced.doubt()
    database.execute("begin immediate")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        synced.reach(5)
    database.execute("rollback")
    synced.reach(5)
    assert noted(path) == 5
    database.close()


async def test_a_change_whose_sync_failed_has_no_known_outcome_and_the_next_one_is_sound(tmp_path: Path) -> None:
    store = await open_coordination(f"sqlite:{tmp_path / 'file'}")
    log = tmp_path / "file-wal"
    try:
        first = await store.transact([], [Put("a", "1")])
        log.rename(tmp_path / "away")
        with pytest.raises(OutcomeUnknown):
            await store.transact([], [Put("a", "2")])
        assert noted(tmp_path / "file") == first.revision
        (tmp_path / "away").rename(log)
        take_for_clean(log)
        snapshot = await store.read("a")
        assert (snapshot.items["a"].value, noted(tmp_path / "file")) == ("2", snapshot.revision)
        assert was_written(log)
    finally:
        await store.close()


async def test_changes_are_noted_and_reads_find_them_synced(tmp_path: Path) -> None:
    store = await open_coordination(f"sqlite:{tmp_path / 'file'}")
    try:
        outcome = await store.transact([], [Put("a", "1")])
        assert noted(tmp_path / "file") == outcome.revision
        with os.fdopen(os.open(tmp_path / "file-turn", os.O_WRONLY), "wb") as note:
            note.write(bytes(8))
        snapshot = await store.read("")
        assert noted(tmp_path / "file") == snapshot.revision == outcome.revision
    finally:
        await store.close()


async def test_a_file_may_be_named_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    one = await open_coordination(f"sqlite:{tmp_path / 'link'}")
    other = await open_coordination(f"sqlite:{tmp_path / 'file'}")
    try:
        outcome = await one.transact([], [Put("a", "1")])
        assert (await other.read("a")).revision == outcome.revision == noted(tmp_path / "file")
        assert [name for name in names_in(tmp_path) if name.startswith("link")] == ["link"]
    finally:
        await one.close()
        await other.close()
