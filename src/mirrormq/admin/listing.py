"""Lists: sorting, columns, pages and names, and answers that do not hold the broker up.

A list may have thousands of rows. They are built and encoded in slices, between which the event loop goes on; what is
deleted meanwhile is still shown. With pages, and an order that names alone decide, only the rows of the page are built.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from mirrormq.admin.call import Answer, Call, Json, is_whole
from mirrormq.admin.errors import ApiError, bad_request

T = TypeVar("T")
R = TypeVar("R")
SLICE: Final = 0.004        # seconds of work before others get their turn
LOOK: Final = 16            # items between two looks at the clock
DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500


class Rows(Generic[T]):
    """The objects of a list in their default order, how to show one, and what can be told of it cheaply."""

    def __init__(self, items: Sequence[T], show: Callable[[T], Json], name: Callable[[T], str] | None = None,
                 vhost: Callable[[T], str] | None = None) -> None:
        self.items = items
        self.show = show
        self.name = name
        self.vhost = vhost


class Page:
    def __init__(self, number: int, size: int, name: str, *, use_regex: bool) -> None:
        self.number = number
        self.size = size
        self.is_of_all = not name       # whatever its name is
        self.wanted = _name_filter(name, use_regex=use_regex)

    def cut(self, items: Sequence[T], count: int | None = None) -> Sequence[T]:
        """The page's part of the items, which may be the first of so many."""
        start = (self.number - 1) * self.size
        count = len(items) if count is None else count
        if start and start >= count:
            raise ApiError(400, "page_out_of_range",
                           f"Page out of range, page: {self.number} page size: {self.size}, len: {count}")
        return items[start:start + self.size]

    def around(self, rows: bytes, count: int, *, total: int, filtered: int) -> bytes:
        """The encoded rows with the numbers of the page around them."""
        pages = max(1, -(-filtered // self.size))
        head = f'{{"filtered_count":{filtered},"item_count":{count},"items":'
        tail = f',"page":{self.number},"page_count":{pages},"page_size":{self.size},"total_count":{total}}}'
        return head.encode() + rows + tail.encode()


def _name_filter(name: str, *, use_regex: bool) -> Callable[[str], bool]:
    if not use_regex:
        folded = name.casefold()
        return lambda text: folded in text.casefold()
    try:
        pattern = re.compile(name, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError):
        raise bad_request("Pagination parameters are invalid") from None
    return lambda text: pattern.search(text) is not None


def page_of(query: Mapping[str, str]) -> Page | None:
    if "page" not in query:
        return None
    number, size = query["page"], query.get("page_size", str(DEFAULT_PAGE_SIZE))
    if not (is_whole(number) and is_whole(size)):
        raise bad_request("Pagination parameters are invalid")
    if int(number) < 1 or not 1 <= int(size) <= MAX_PAGE_SIZE:
        told = int(size) if "page_size" in query else "undefined"
        raise ApiError(400, "invalid_pagination_parameters",
                       f"Invalid pagination parameters: page number {int(number)}, page size {told}")
    return Page(int(number), int(size), query.get("name", ""), use_regex=query.get("use_regex") == "true")


# --- sorting and columns --------------------------------------------------------------------------------------------


def value_at(row: object, path: Sequence[str]) -> object:
    for part in path:
        row = row.get(part) if isinstance(row, dict) else None
    return row


def sort_key(value: object) -> tuple[int, Any]:
    """Numbers before text before everything else; what is missing comes first."""
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (1, value)
    return (2, value) if isinstance(value, str) else (3, str(value))


def project(row: Json, columns: Sequence[Sequence[str]]) -> Any:
    """Only the wanted columns, in their places; a row with none of them is an empty list, as RabbitMQ has it."""
    kept: Json = {}
    for path in columns:
        value = value_at(row, path)
        if value is not None or (len(path) == 1 and path[0] in row):
            _put(kept, path, value)
    return kept or []


def _put(target: Json, path: Sequence[str], value: object) -> None:
    for part in path[:-1]:
        inner = target.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        target = inner
    target[path[-1]] = value


def columns_of(query: Mapping[str, str]) -> list[list[str]] | None:
    if "columns" not in query:
        return None
    return [column.split(".") for column in sorted(query["columns"].split(",")) if column]


# --- answers --------------------------------------------------------------------------------------------------------


async def answer_rows(call: Call, rows: Rows[T], *, is_paged: bool = False) -> Answer:
    page = page_of(call.query) if is_paged else None
    items = rows.items
    total = len(items)
    if page is not None and rows.name is not None and not page.is_of_all:
        name = rows.name
        items = [item for item in items if page.wanted(name(item))]
    filtered = len(items)
    items = await _in_order(call, rows, items)
    if page is None:
        return Answer(200, await _encoded(call, rows, items))
    items = page.cut(items)
    encoded = await _encoded(call, rows, items)
    return Answer(200, page.around(encoded, len(items), total=total, filtered=filtered))


async def _in_order(call: Call, rows: Rows[T], items: Sequence[T]) -> Sequence[T]:
    """Only an order by something else than names needs the rows; they are built for their keys and dropped again."""
    column = call.query.get("sort", "")
    backwards = call.flag("sort_reverse")
    if not column:
        return list(reversed(items)) if backwards else items
    key = {"name": rows.name, "vhost": rows.vhost}.get(column)
    if key is not None:
        return sorted(items, key=key, reverse=backwards)
    path = column.split(".")
    keys = await in_slices(items, lambda item: sort_key(value_at(rows.show(item), path)))
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=backwards)
    return [items[at] for at in order]


async def _encoded(call: Call, rows: Rows[T], items: Sequence[T]) -> bytes:
    columns = columns_of(call.query)
    if columns is None:
        pieces = await in_slices(items, lambda item: encode(rows.show(item)))
    else:
        pieces = await in_slices(items, lambda item: encode(project(rows.show(item), columns)))
    return b"[" + b",".join(pieces) + b"]"


async def in_slices(items: Sequence[T], work: Callable[[T], R], at_once: int = LOOK) -> list[R]:
    """The results for all items; the event loop gets its turn in between."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SLICE
    results: list[R] = []
    for start in range(0, len(items), at_once):
        results += [work(item) for item in items[start:start + at_once]]
        if loop.time() > until:
            await asyncio.sleep(0)
            until = loop.time() + SLICE
    return results


def batches(items: list[T], size: int) -> list[list[T]]:
    return [items[start:start + size] for start in range(0, len(items), size)]


def answer_one(call: Call, row: Json) -> Answer:
    columns = columns_of(call.query)
    return Answer(200, row if columns is None else project(row, columns))


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def encode(value: object) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "replace")
