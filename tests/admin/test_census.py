"""Putting the lists of several nodes together."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.admin.census import Entry, Order, Scope, Survey, add_surveys, read_survey, tell_survey
from mirrormq.admin.listing import page_of, sort_key

values = st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["a", "b"]), st.booleans(), st.just([1]))
things = st.dictionaries(st.text("xyz", min_size=1, max_size=3), st.tuples(st.sampled_from("abc"), values), max_size=30)


def entries(found: dict[str, tuple[str, Any]], *, has_column: bool) -> list[Entry]:
    return [Entry(node, (name,), sort_key(value) if has_column else None) for name, (node, value) in found.items()]


def order(column: str, *, is_backwards: bool) -> Order:
    return Order({"sort": column, "sort_reverse": str(is_backwards).lower()})


def over_the_wire(node: str, part: Survey) -> Survey:
    return read_survey(node, json.loads(json.dumps(tell_survey(part))))


@given(things, st.sampled_from(["", "messages"]), st.booleans(), st.integers(1, 4), st.integers(1, 7))
def test_a_page_needs_no_more_of_a_node_than_can_be_on_it(
    found: dict[str, tuple[str, Any]], column: str, is_backwards: bool, number: int, size: int,
):  # fmt: skip
    """What the nodes send for a page gives the same page as everything would."""
    wanted = order(column, is_backwards=is_backwards)
    everything = entries(found, has_column=bool(column))
    parts = []
    for node in "abc":
        own = [entry for entry in everything if entry.node == node]
        parts.append(over_the_wire(node, Survey(len(own), len(own), wanted.arrange(own)[:number * size])))
    together = add_surveys(parts)
    assert together.total == together.filtered == len(found)
    start = (number - 1) * size
    assert wanted.arrange(together.entries)[start:start + size] == wanted.arrange(everything)[start:start + size]


def test_equal_values_keep_the_order_of_their_places_backwards_too():
    found = {"q3": ("a", 1), "q1": ("b", 1), "q2": ("a", 2)}
    shown = order("messages", is_backwards=True).arrange(entries(found, has_column=True))
    assert [entry.place for entry in shown] == [("q2",), ("q1",), ("q3",)]


def test_without_a_column_backwards_is_the_whole_order_backwards():
    found = {"q3": ("a", 1), "q1": ("b", 1), "q2": ("a", 2)}
    shown = order("", is_backwards=True).arrange(entries(found, has_column=False))
    assert [entry.place for entry in shown] == [("q3",), ("q2",), ("q1",)]


def test_the_same_name_on_two_nodes_is_two_things():
    twins = [Entry("b", ("client",)), Entry("a", ("client",))]
    assert [entry.node for entry in order("", is_backwards=False).arrange(twins)] == ["a", "b"]


def test_a_survey_comes_through_the_wire_as_it_was():
    part = Survey(5, 3, [Entry("a", ("v", "q", 1), (2, "x"), '{"name":"q"}'), Entry("a", ("v", "\udcff"), None, None)])
    assert over_the_wire("a", part) == part


def test_a_page_may_be_cut_from_the_first_of_many():
    page = page_of({"page": "2", "page_size": "2"})
    assert page is not None
    assert page.cut(["a", "b", "c"], 90) == ["c"]


def test_a_scope_without_virtual_hosts_means_all_and_an_empty_one_none():
    assert Scope().has_vhost("/")
    assert not Scope(vhosts=[]).has_vhost("/")
    assert Scope(**json.loads(json.dumps(Scope(vhosts=["/"], user="u")._asdict()))) == Scope(vhosts=["/"], user="u")
