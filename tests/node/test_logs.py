"""The log's lines, its levels, and its form for machines."""

from __future__ import annotations

import json
import logging
import sys

from mirrormq.node.logs import LEVELS, JsonLines


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
