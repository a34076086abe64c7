"""Sorting, columns and pages."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.admin.errors import ApiError
from mirrormq.admin.listing import columns_of, page_of, project, sort_key, value_at

ROW = {"name": "q", "messages": 3, "policy": None, "message_stats": {"publish": 9, "publish_details": {"rate": 1.5}}}


@pytest.mark.parametrize(("columns", "kept"), [
    ("name,messages", {"messages": 3, "name": "q"}),
    ("message_stats.publish_details.rate", {"message_stats": {"publish_details": {"rate": 1.5}}}),
    ("message_stats", {"message_stats": ROW["message_stats"]}),
    ("policy", {"policy": None}),
    ("nope", []),
    ("", []),
    ("name.inner", []),
])  # fmt: skip
def test_columns_pick_parts_of_a_row(columns: str, kept: Any):
    wanted = columns_of({"columns": columns})
    assert wanted is not None
    assert project(ROW, wanted) == kept


def test_a_sort_column_may_be_nested_or_missing():
    assert value_at(ROW, ["message_stats", "publish"]) == 9
    assert value_at(ROW, ["nope", "publish"]) is None


def test_rows_of_all_kinds_of_values_can_be_sorted():
    values = ["b", 2, None, True, 1.5, "a", [1], {}]
    assert sorted(values, key=sort_key)[:5] == [None, True, 1.5, 2, "a"]


def test_pages_are_cut_and_counted():
    page = page_of({"page": "2", "page_size": "3"})
    assert page is not None
    assert page.cut(list(range(8))) == [3, 4, 5]
    assert page.around(b"[1]", 1, total=9, filtered=8) == (
        b'{"filtered_count":8,"item_count":1,"items":[1],"page":2,"page_count":3,"page_size":3,"total_count":9}')


def test_an_empty_list_has_a_first_page():
    page = page_of({"page": "1"})
    assert page is not None
    assert page.cut([]) == []


@pytest.mark.parametrize(("query", "error", "reason"), [
    ({"page": "0"}, "invalid_pagination_parameters", "Invalid pagination parameters: page number 0, page size undefined"),
    ({"page": "-1", "page_size": "5"}, "invalid_pagination_parameters",
     "Invalid pagination parameters: page number -1, page size 5"),
    ({"page": "1", "page_size": "501"}, "invalid_pagination_parameters",
     "Invalid pagination parameters: page number 1, page size 501"),
    ({"page": "x"}, "bad_request", "Pagination parameters are invalid"),
    ({"page": "1", "name": "[", "use_regex": "true"}, "bad_request", "Pagination parameters are invalid"),
    ({"page": "9" * 5000}, "bad_request", "Pagination parameters are invalid"),
])  # fmt: skip
def test_pages_that_cannot_be_are_refused(query: dict[str, str], error: str, reason: str):
    with pytest.raises(ApiError) as refused:
        page_of(query)
    assert (refused.value.status, refused.value.error, refused.value.reason) == (400, error, reason)


def test_a_page_beyond_the_last_is_refused():
    page = page_of({"page": "9", "page_size": "3"})
    assert page is not None
    with pytest.raises(ApiError) as refused:
        page.cut([1, 2, 3])
    assert refused.value.reason == "Page out of range, page: 9 page size: 3, len: 3"


@pytest.mark.parametrize(("query", "matching"), [
    ({"page": "1", "name": "OR"}, ["orders", "work"]),
    ({"page": "1", "name": "^or", "use_regex": "true"}, ["orders"]),
    ({"page": "1", "name": "^or"}, []),
])  # fmt: skip
def test_names_are_filtered_by_text_or_pattern(query: dict[str, str], matching: list[str]):
    page = page_of(query)
    assert page is not None
    assert [name for name in ("orders", "work", "x") if page.wanted(name)] == matching
