"""The table of scenarios of mirrored queues: complete, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = (TESTS.parent / "docs" / "mirroring-tests.md").read_text(encoding="utf-8")
SCENARIOS = 143
FEATURES = 17
ROW = re.compile(r"^\| (C?\d+) \| ([^|]+) \| ([^|]+) \|", re.MULTILINE)
NAME = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_no_number_is_missing() -> None:
    numbers = [number for number, _, _ in ROW.findall(TABLE)]
    assert numbers == [*map(str, range(1, SCENARIOS + 1)), *(f"C{number}" for number in range(1, FEATURES + 1))]


def test_every_line_names_a_test() -> None:
    assert [number for number, _, tests in ROW.findall(TABLE) if not NAME.search(tests)] == []


def test_every_test_that_is_named_exists() -> None:
    named = NAME.findall(TABLE)
    assert [f"{path}::{name}" for path, name in named if not (TESTS / path).is_file() or name not in names_in(path)] == []


def test_features_are_shown_on_real_processes() -> None:
    live = ("mirror/live/", "cluster/live/", "admin/cluster/")
    rows = [(number, NAME.findall(tests)) for number, _, tests in ROW.findall(TABLE) if number.startswith("C")]
    assert [number for number, named in rows if not any(path.startswith(live) for path, _ in named)] == []
