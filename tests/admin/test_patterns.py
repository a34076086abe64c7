"""Callers' regular expressions: those that could hold up the node are told from all others."""

from __future__ import annotations

import pytest

from mirrormq.admin.patterns import may_take_for_ever


@pytest.mark.parametrize("pattern", [
    "^(a+)+$", "(a*)*", "(?:a+)+b", "(a|aa)+$", "(a|b|ab)*c", "((a+)b?)*", "(?P<x>a+){2,}", "(a+){30}", "(.*a)+", "((a+))+",
    r"(\(a+)+", "([)]+)+", "([^]]+)*", "(a{2,})+", "(a?)*",
])  # fmt: skip
def test_a_repeat_of_what_can_match_in_several_ways_may_take_for_ever(pattern: str) -> None:
    assert may_take_for_ever(pattern)


@pytest.mark.parametrize("pattern", [
    "", ".*", "^orders", r"^(orders|bills)\.", "^(abc)+$", "[a-z]+-[0-9]+", "(a+)?b", r"^(?!amq\.).*", r"\(a+\)+", "[(a+)]+",
    "(?:ab)*", "a{3}", "([a-z]{3})+", "(a+)(b+)", ")(", "(", "[", "{}", "a|b+",
])  # fmt: skip
def test_all_others_do_not(pattern: str) -> None:
    assert not may_take_for_ever(pattern)
