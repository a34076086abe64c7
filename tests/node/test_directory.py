"""The data directory as a whole."""
from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirrormq.node import clock, directory, undo_list
from mirrormq.node.undo_list import DELETE, Item


def test_a_reset_leaves_nothing_to_undo_and_keeps_what_is_not_the_nodes(tmp_path: Path) -> None:
    (tmp_path / "log" / "wal").mkdir(parents=True)
    (tmp_path / "somebody's").write_text("else")
    (tmp_path / clock.FILE).write_text("{}")
    undo_list.save(tmp_path, undo_list.encode([Item("rabbit@a/1", DELETE, "/", "q", 1, 0, 1 << 50, 0, 0, 1)]))
    assert undo_list.load(tmp_path)
    directory.empty(tmp_path)
    assert undo_list.load(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["somebody's"]


def test_the_names_of_a_new_directory_and_of_those_above_it_reach_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def noted(number: int) -> None:
        synced.append(Path(f"/proc/self/fd/{number}").readlink())
        fsync(number)

    monkeypatch.setattr(os, "fsync", noted)
    directory.take(tmp_path / "one" / "two").close()
    assert sorted(synced) == [tmp_path, tmp_path / "one"]
    synced.clear()
    directory.take(tmp_path / "one" / "two").close()
    assert synced == []
