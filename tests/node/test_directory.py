"""The data directory as a whole."""
from __future__ import annotations

from pathlib import Path

from mirrormq.node import directory, undo_list
from mirrormq.node.undo_list import DELETE, Item


def test_a_reset_leaves_nothing_to_undo_and_keeps_what_is_not_the_nodes(tmp_path: Path) -> None:
    (tmp_path / "log" / "wal").mkdir(parents=True)
    (tmp_path / "somebody's").write_text("else")
    undo_list.save(tmp_path, undo_list.encode([Item("rabbit@a/1", DELETE, "/", "q", 1, 0, 1 << 50, 0, 0, 1)]))
    assert undo_list.load(tmp_path)
    directory.empty(tmp_path)
    assert undo_list.load(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["somebody's"]
