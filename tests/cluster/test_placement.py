"""Where new queues go."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirrormq.cluster.placement import choose_home


def last(names: Sequence[str]) -> str:
    return names[-1]


@pytest.mark.parametrize(("locator", "homed", "home"), [
    ("client-local", {"a": 9}, "b"),
    ("random", {}, "c"),
    ("min-masters", {"a": 2, "b": 3, "c": 1}, "c"),
    ("min-masters", {"a": 2, "b": 3}, "c"),
    ("min-masters", {"a": 1, "b": 1, "c": 1}, "b"),
    ("min-masters", {"a": 1, "b": 2, "c": 1}, "a"),
    ("no such rule", {"b": 9}, "b"),
])  # fmt: skip
def test_the_rule_decides(locator: str, homed: dict[str, int], home: str):
    assert choose_home(locator, "b", ["c", "a", "b"], homed, last) == home


@pytest.mark.parametrize("locator", ["client-local", "random", "min-masters"])
def test_with_nobody_to_choose_from_it_stays_where_it_is_declared(locator: str):
    assert choose_home(locator, "b", [], {}, last) == "b"


@pytest.mark.parametrize("locator", ["random", "min-masters"])
def test_a_node_that_takes_no_queues_gets_none(locator: str):
    assert choose_home(locator, "b", ["a"], {"a": 9}, last) == "a"


def test_queues_are_spread_evenly():
    homed = {"a": 5}
    for _ in range(10):
        home = choose_home("min-masters", "a", ["a", "b", "c"], homed, last)
        homed[home] = homed.get(home, 0) + 1
    assert homed == {"a": 5, "b": 5, "c": 5}
