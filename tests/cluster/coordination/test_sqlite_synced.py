"""What several processes know of how far their common file is on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirrormq.cluster.coordination import Put, open_coordination
from mirrormq.cluster.coordination.sqlite.synced import Synced


class Disk:
    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, _: int) -> None:
        self.syncs += 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Path(f"{tmp_path}/file-wal").touch()
    return tmp_path / "file"


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
    def refuse(_: int) -> None:
        raise OSError(5, "input/output error")

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


async def test_changes_are_noted_and_reads_find_them_synced(tmp_path: Path) -> None:
    store = await open_coordination(f"sqlite:{tmp_path / 'file'}")
    try:
        outcome = await store.transact([], [Put("a", "1")])
        assert int.from_bytes((tmp_path / "file-turn").read_bytes(), "little") == outcome.revision
        with os.fdopen(os.open(tmp_path / "file-turn", os.O_WRONLY), "wb") as note:
            note.write(bytes(8))
        snapshot = await store.read("")
        assert int.from_bytes((tmp_path / "file-turn").read_bytes(), "little") == snapshot.revision == outcome.revision
    finally:
        await store.close()
