"""The log's lines, its levels, and its form for machines."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import sys
from pathlib import Path

import pytest

from mirrormq.node.logs import LEVELS, JsonLines, LogFile


def record(level: int, text: str, *arguments: object, fault: bool = False) -> logging.LogRecord:
    info = None
    if fault:
        try:
            raise ValueError("broken")
        except ValueError:
            info = sys.exc_info()
    return logging.LogRecord("mirrormq", level, __file__, 1, text, arguments, info)


def test_a_line_of_json_has_time_level_node_and_words() -> None:
    line = json.loads(JsonLines("rabbit@a").format(record(logging.WARNING, "low on %s", "memory")))
    assert (line["level"], line["node"], line["msg"]) == ("warning", "rabbit@a", "low on memory")
    assert line["time"].endswith("+00:00")


def test_names_with_line_ends_stay_on_one_line() -> None:
    text = JsonLines("rabbit@a").format(record(logging.INFO, "queue %r", "a\nb\udcff"))
    assert "\n" not in text
    assert text.isascii()


def test_a_fault_brings_its_traceback() -> None:
    line = json.loads(JsonLines("rabbit@a").format(record(logging.ERROR, "a fault", fault=True)))
    assert "ValueError: broken" in line["traceback"]


def test_the_levels_are_rabbitmqs() -> None:
    assert list(LEVELS) == ["debug", "info", "warning", "error", "critical", "none"]
    assert sorted(LEVELS.values()) == list(LEVELS.values())


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    handler = LogFile(path, encoding="utf-8")
    handler.emit(record(logging.INFO, "before"))
    path.rename(tmp_path / "node.log.1")
    handler.emit(record(logging.INFO, "after"))
    handler.close()
    assert ((tmp_path / "node.log.1").read_text(), path.read_text()) == ("before\n", "after\n")


def test_a_log_whose_folder_is_gone_is_begun_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    handler = LogFile(folder / "node.log", encoding="utf-8")
    shutil.rmtree(folder)
    with contextlib.suppress(OSError):
        handler.emit(record(logging.INFO, "lost"))
    folder.mkdir()
    handler.emit(record(logging.INFO, "kept"))
    handler.close()
    assert (folder / "node.log").read_text() == "kept\n"


def test_a_log_that_cannot_be_written_is_told_of_once_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    handler = LogFile(folder / "node.log", encoding="utf-8")
    for _ in range(2):
        shutil.rmtree(folder)
        for _ in range(2):
            handler.emit(record(logging.INFO, "lost"))
        folder.mkdir()
        handler.emit(record(logging.INFO, "kept"))
    handler.close()
    told = f"the log cannot be written to {folder / 'node.log'} (No such file or directory): lines are lost until it can\n"
    assert capsys.readouterr().err == told * 2


def test_a_line_that_a_full_disk_did_not_take_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    path = tmp_path / "node.log"
    path.symlink_to("/dev/full")
    handler = LogFile(path, encoding="utf-8")
    handler.emit(record(logging.INFO, "lost"))
    path.unlink()
    handler.emit(record(logging.INFO, "kept"))
    handler.close()
    assert path.read_text() == "kept\n"
