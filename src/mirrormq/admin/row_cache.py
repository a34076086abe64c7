"""Rows of things in which nothing happens, kept as they were encoded.

A list of thousands of queues or connections is asked for every few seconds, and most of them are as they were. Of a quiet thing
(no rates) the row follows from a few numbers, its mark: as long as these are the same, so is the row. Things of which the mark
does not tell everything have none, and are shown anew every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from mirrormq.admin.rates import Key, Rates

T = TypeVar("T")
VARIANTS: Final = 12            # different questions whose rows are kept
MOST: Final = 20_000            # rows of each
HARMLESS: Final = frozenset(("columns", "page", "page_size", "name", "use_regex", "sort", "sort_reverse", "pagination"))
Mark = tuple[Any, ...]
Rows = dict[Key, tuple[Mark, str]]


class RowCache:
    def __init__(self) -> None:
        self._variants: dict[tuple[str, str], Rows] = {}

    def rows(self, kind: str, query: Mapping[str, str]) -> Rows | None:
        """For questions that get the same rows; None for those that have to be answered anew."""
        if not HARMLESS.issuperset(query):
            return None
        variant = (kind, query.get("columns", ""))
        found = self._variants.get(variant)
        if found is None or len(found) > MOST:
            if len(self._variants) >= VARIANTS:
                self._variants.pop(next(iter(self._variants)))
            found = self._variants[variant] = {}
        return found


class Memory(Generic[T]):
    """What is needed to tell rows of one kind from memory: under which key rates are kept, of which counters, and the mark."""

    def __init__(self, key: Callable[[T], Key], counters: Callable[[T], dict[str, int]],
                 mark: Callable[[T], Mark | None]) -> None:
        self.key = key
        self.counters = counters
        self.mark = mark

    def rows(self, known_rows: Rows, text: Callable[[T], str], rates: Rates, now: int) -> Callable[[T], str]:
        """The same rows, told from memory where that is certain."""
        key_of, mark_of, still = self.key, self.mark, rates.still

        def row(thing: T) -> str:
            key, mark = key_of(thing), mark_of(thing)
            known = known_rows.get(key)
            if mark is not None and known is not None and known[0] == mark and still(key, now):
                return known[1]
            was_still = rates.is_still(key) and rates.is_quiet(key, self.counters(thing))       # also since the last look
            encoded = text(thing)
            if mark is not None and was_still and rates.is_still(key):
                known_rows[key] = (mark, encoded)
            else:
                known_rows.pop(key, None)
            return encoded

        return row
