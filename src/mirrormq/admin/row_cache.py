"""Rows of things in which nothing happens, kept as they were encoded.

A list of thousands of queues or connections is asked for every few seconds, and most of them are as they were.

Rules
 1. Of a quiet thing (no rates) the row follows from a few numbers, its mark: as long as these are the same, so is the row. Things
    of which the mark does not tell everything have none, and are shown anew every time.
 2. Where all things of a group are quiet, their marks are read and compared together, and their rows are kept as one piece.
 3. A look that a group has spared its rates is made up for when the group is taken apart: when something has happened in it, and
    now and then, before the rates are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from mirrormq.admin.rates import FORGET_AFTER, Key, Rates

T = TypeVar("T")
VARIANTS: Final = 12            # different questions whose rows are kept
MOST: Final = 20_000            # rows of each
GROUP: Final = 64               # things
RENEW_AFTER: Final = FORGET_AFTER // 4
HARMLESS: Final = frozenset(("columns", "page", "page_size", "name", "use_regex", "sort", "sort_reverse", "pagination"))
Mark = tuple[Any, ...]


class Group:
    """What was told of some things together."""

    __slots__ = ("generation", "keys", "looked", "marks", "since", "text")

    def __init__(self, marks: list[Any], keys: list[Key], text: bytes, now: int, generation: int) -> None:
        self.marks = marks
        self.keys = keys
        self.text = text
        self.since = now
        self.looked = now
        self.generation = generation


class Rows:
    """What is kept for one question. Groups are of one list: another choice of things is another list."""

    def __init__(self) -> None:
        self.by_key: dict[Key, tuple[Mark, str]] = {}
        self._scope: object = None
        self._groups: dict[int, Group] = {}

    def groups(self, scope: object, count: int) -> dict[int, Group]:
        """By the place of their first thing in a list of so many things."""
        if scope != self._scope or len(self._groups) * GROUP > count + GROUP:
            self._scope, self._groups = scope, {}
        return self._groups


class RowCache:
    def __init__(self) -> None:
        self._variants: dict[tuple[str, str], Rows] = {}

    def rows(self, kind: str, query: Mapping[str, str]) -> Rows | None:
        """For questions that get the same rows; None for those that have to be answered anew."""
        if not HARMLESS.issuperset(query):
            return None
        variant = (kind, query.get("columns", ""))
        found = self._variants.get(variant)
        if found is None or len(found.by_key) > MOST:
            if len(self._variants) >= VARIANTS:
                self._variants.pop(next(iter(self._variants)))
            found = self._variants[variant] = Rows()
        return found


class Memory(Generic[T]):
    """What is needed to tell rows of one kind from memory: under which key rates are kept, of which counters, and the mark.
    `together` reads what many marks consist of, or None if one of them consists of more; `is_special` tells which do."""

    def __init__(self, key: Callable[[T], Key], counters: Callable[[T], dict[str, int]], mark: Callable[[T], Mark | None], *,
                 together: Callable[[Sequence[T]], list[Any] | None] | None = None,
                 is_special: Callable[[T], bool] = lambda _: False) -> None:
        self.key = key
        self.counters = counters
        self.mark = mark
        self.together = together
        self.is_special = is_special

    def rows(self, known_rows: dict[Key, tuple[Mark, str]], text: Callable[[T], str], rates: Rates,
             now: int) -> Callable[[T], str]:
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


class Teller(Generic[T]):
    """Tells the rows of groups for one request."""

    def __init__(self, memory: Memory[T], row: Callable[[T], str], rates: Rates, now: int) -> None:
        self._memory = memory
        self._row = row
        self._rates = rates
        self._now = now

    def tell(self, rows: Rows, groups: dict[int, Group], at: int, things: Sequence[T]) -> bytes:
        """The rows of these things, which are at this place of the list, joined."""
        marks = None if self._memory.together is None else self._memory.together(things)
        known = groups.get(at)
        if known is not None and self._is_valid(known) and known.marks == marks:
            known.looked = self._now
            return known.text
        if known is not None:
            self._make_up(known)
            del groups[at]
        text = ",".join([self._row(thing) for thing in things]).encode()
        keys = [self._memory.key(thing) for thing in things]
        if marks is not None and rows.by_key.keys() >= set(keys) and not any(map(self._memory.is_special, things)):
            groups[at] = Group(marks, keys, text, self._now, self._rates.generation)
        return text

    def _is_valid(self, group: Group) -> bool:
        return group.generation == self._rates.generation and self._now - group.since < RENEW_AFTER

    def _make_up(self, group: Group) -> None:
        if group.generation == self._rates.generation:
            for key in group.keys:
                self._rates.still(key, group.looked)
