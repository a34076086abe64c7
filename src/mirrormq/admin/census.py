"""Lists of things that live on several nodes, from any of them the same.

Rules
 1. Each node shows what it has; the node that was asked puts the lists together. It asks every other node once for a list that is
    short or not cut into pages, and a second time, for the rows of its page alone, where the list is cut.
 2. What decides the order goes ahead of the rows: for a page that is a few values of each thing, and of these only as many as can
    be on the page.
 3. Long lists travel in pieces, so that no node is held up by a list.
 4. A node that does not answer is not waited for twice. What is known of its things without it is shown, the rest is left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mirrormq.admin.call import Answer, Json, State
from mirrormq.admin.listing import Page, batches, columns_of, encode, in_slices, page_of, project, sort_key, value_at
from mirrormq.admin.row_cache import GROUP, Memory, Teller
from mirrormq.broker.broker import Broker

T = TypeVar("T")
Place = tuple[str | int, ...]
"""Where a thing is on its node. Places sort in the order in which a list is shown."""
Key = tuple[int, Any]
Query = Mapping[str, str]
PIECE: Final = 200      # rows of one answer


class Scope(NamedTuple):
    """Which things are meant; None: whichever."""

    vhosts: list[str] | None = None
    user: str | None = None
    connection: str | None = None
    channel: str | None = None

    def has_vhost(self, name: str) -> bool:
        return self.vhosts is None or name in self.vhosts


class Kind(Generic[T]):
    """A kind of things of which each node has its own."""

    word: str = ""

    def find(self, broker: Broker, scope: Scope) -> list[T]:
        """This node's own, in the order of their places."""
        raise NotImplementedError

    def pick(self, broker: Broker, places: Sequence[Place]) -> list[T | None]:
        raise NotImplementedError

    def place(self, thing: T) -> Place:
        raise NotImplementedError

    def name(self, thing: T) -> str:
        raise NotImplementedError

    def vhost(self, thing: T) -> str:
        raise NotImplementedError

    def view(self, state: State, query: Query) -> Callable[[T], Json]:
        """How one is shown in a list."""
        raise NotImplementedError

    def text(self, state: State, query: Query) -> Callable[[T], str]:
        """One row of a list, encoded."""
        plain = shown(self.view(state, query), query)
        memory, rows = self.memory(state), state.row_cache.rows(self.word, query)
        if memory is None or rows is None:
            return plain
        return memory.rows(rows.by_key, plain, state.rates, int(state.broker.now))

    async def list_all(self, state: State, query: Query, scope: Scope, things: Sequence[T]) -> bytes:
        """The encoded list of these, which are all that there are."""
        text, memory, rows = self.text(state, query), self.memory(state), state.row_cache.rows(self.word, query)
        if memory is None or rows is None:
            return _joined(await in_slices(things, text))
        teller, groups = Teller(memory, text, state.rates, int(state.broker.now)), rows.groups(scope, len(things))
        pieces = await in_slices(range(0, len(things), GROUP),
                                 lambda at: teller.tell(rows, groups, at, things[at:at + GROUP]), at_once=1)
        return _bracketed(pieces)

    def memory(self, _: State) -> Memory[T] | None:
        """How rows are told from memory; None if they are not."""
        return None

    def quick_value(self, _: State, __: str) -> Callable[[T], object] | None:
        """A column by which lists are sorted often, without the rest of the row."""
        return None

    def quick_numbers(self, _: str) -> Callable[[Sequence[T]], Iterable[int]] | None:
        """A column of numbers by which lists are sorted often, of many at once."""
        return None

    def whole_view(self, state: State, query: Query) -> Callable[[T], Json]:
        """How one is shown alone."""
        return self.view(state, query)


class Entry(NamedTuple):
    node: str
    place: Place
    key: Key | None = None
    row: str | None = None


class Survey(NamedTuple):
    """What one node has: how many, how many of them with the wanted name, and the first of these in the wanted order."""

    total: int
    filtered: int
    entries: list[Entry]


class Order:
    """By a column, or by place."""

    def __init__(self, query: Query) -> None:
        self.column = query.get("sort", "")
        self.is_backwards = query.get("sort_reverse") == "true"

    @property
    def is_by_names(self) -> bool:
        return self.column in ("", "name", "vhost")

    def keys(self, kind: Kind[T], view: Callable[[T], Json], state: State) -> Callable[[T], Key | None]:
        if not self.column:
            return lambda _: None
        if self.column == "name":
            return lambda thing: sort_key(kind.name(thing))
        if self.column == "vhost":
            return lambda thing: sort_key(kind.vhost(thing))
        quick = kind.quick_value(state, self.column)
        if quick is not None:
            return lambda thing: sort_key(quick(thing))
        path = self.column.split(".")
        return lambda thing: sort_key(value_at(view(thing), path))

    def arrange(self, entries: list[Entry]) -> list[Entry]:
        """Equal ones stay in the order of their places, backwards too."""
        entries = sorted(entries, key=_place)
        if not self.column:
            return entries[::-1] if self.is_backwards else entries
        return sorted(entries, key=_key, reverse=self.is_backwards)


def _place(entry: Entry) -> tuple[Place, str]:
    return (entry.place, entry.node)


def _key(entry: Entry) -> Key:
    assert entry.key is not None
    return entry.key


# --- on the node that has them --------------------------------------------------------------------------------------


async def survey(state: State, kind: Kind[T], scope: Scope, query: Query, *, is_paged: bool) -> Survey:
    """This node's part of a list. Of a list that is short and not cut into pages the rows come along."""
    page, order = page_of(query) if is_paged else None, Order(query)
    found = kind.find(state.broker, scope)
    total = len(found)
    if page is not None and not page.is_of_all:
        found = [thing for thing in found if page.wanted(kind.name(thing))]
    filtered = len(found)
    if page is not None:
        found = await first_of(state, kind, found, order, query, page.number * page.size)
    entries = await entries_of(state, kind, found, order, query, with_rows=page is None and filtered <= PIECE)
    return Survey(total, filtered, entries)


async def first_of(state: State, kind: Kind[T], things: list[T], order: Order, query: Query, count: int) -> list[T]:
    """Those that come first in the wanted order; equal ones stay in the order of their places, backwards too."""
    if not order.column:
        return (things[::-1] if order.is_backwards else things)[:count]
    keys = await _keys(state, kind, things, order, query)
    places = sorted(range(len(things)), key=keys.__getitem__, reverse=order.is_backwards)
    return [things[at] for at in places[:count]]


async def _keys(state: State, kind: Kind[T], things: list[T], order: Order, query: Query) -> list[Any]:
    numbers = kind.quick_numbers(order.column)
    if numbers is None:
        return await in_slices(things, order.keys(kind, kind.view(state, query), state))
    parts = await in_slices(batches(things, GROUP), lambda some: list(numbers(some)))
    return list(chain.from_iterable(parts))


async def entries_of(state: State, kind: Kind[T], things: Sequence[T], order: Order, query: Query, *,
                     with_rows: bool = False) -> list[Entry]:
    node, view = state.broker.node_name, kind.view(state, query)
    key, text = order.keys(kind, view, state), kind.text(state, query)
    return await in_slices(things, lambda thing: Entry(node, kind.place(thing), key(thing), text(thing) if with_rows else None))


async def rows_at(state: State, kind: Kind[T], places: Sequence[Place], query: Query, *,
                  is_whole: bool = False) -> list[str | None]:
    """The rows of this node's things at these places, encoded; None for what is not there any more."""
    text = shown(kind.whole_view(state, query), query) if is_whole else kind.text(state, query)
    things = kind.pick(state.broker, places)
    return await in_slices(things, lambda thing: None if thing is None else text(thing))


def shown(view: Callable[[T], Json], query: Query) -> Callable[[T], str]:
    columns = columns_of(query)
    if columns is None:
        return lambda thing: encode_text(view(thing))
    return lambda thing: encode_text(project(view(thing), columns))


def _joined(rows: Sequence[str]) -> bytes:
    return ("[" + ",".join(rows) + "]").encode()


def _bracketed(pieces: list[bytes]) -> bytes:
    """A long list is copied once: its first and its last piece get the brackets before they are joined."""
    pieces = pieces or [b""]
    pieces[0] = b"[" + pieces[0]
    pieces[-1] += b"]"
    return b",".join(pieces)


def encode_text(row: object) -> str:
    return encode(row).decode()


# --- on the node that was asked -------------------------------------------------------------------------------------


class Census(Generic[T]):
    """One list for one request."""

    def __init__(self, state: State, query: Query, kind: Kind[T], scope: Scope, *, is_paged: bool = False) -> None:
        self.state = state
        self.query = query
        self.kind = kind
        self.scope = scope
        self.order = Order(query)
        self.page: Page | None = page_of(query) if is_paged else None
        self.answered: set[str] = set()
        self._own = state.broker.node_name
        self._cluster = state.runtime.cluster

    async def answer(self) -> Answer:
        everything = None if self.page is not None or self.order.column or self.order.is_backwards else self._all_here()
        if everything is not None:
            return Answer(200, await self.kind.list_all(self.state, self.query, self.scope, everything))
        total, filtered, entries = await self.look()
        entries = self.order.arrange(entries)
        if self.page is not None:
            entries = list(self.page.cut(entries, filtered))
        rows = await self.rows(entries)
        encoded = _joined(rows)
        if self.page is None:
            return Answer(200, encoded)
        return Answer(200, self.page.around(encoded, len(rows), total=total, filtered=filtered))

    def _all_here(self) -> list[T] | None:
        """Everything that is to be listed, if it is here, so that there is nothing to put together."""
        return None if self._cluster.neighbours else self.kind.find(self.state.broker, self.scope)

    async def look(self) -> Survey:
        """What all nodes have. Of a page's list, as much as can be on the page."""
        is_paged = self.page is not None
        about = {"kind": self.kind.word, "scope": self.scope._asdict(), "query": dict(self.query), "is_paged": is_paged}
        told, own = await asyncio.gather(
            self._cluster.ask_all("survey", about),
            survey(self.state, self.kind, self.scope, self.query, is_paged=is_paged))
        self.answered = {self._own, *told}
        return add_surveys([own, *(read_survey(node, part) for node, part in told.items())])

    async def rows(self, entries: Sequence[Entry]) -> list[str]:
        """Their rows in the same order, without those that nobody can tell."""
        texts: dict[int, str] = {at: entry.row for at, entry in enumerate(entries) if entry.row is not None}
        by_node: dict[str, list[int]] = {}
        for at, entry in enumerate(entries):
            if at not in texts:
                by_node.setdefault(entry.node, []).append(at)
        for found in await asyncio.gather(*(self._of_node(node, entries, wanted) for node, wanted in by_node.items())):
            texts.update(found)
        return [texts[at] for at in sorted(texts)]

    async def _of_node(self, node: str, entries: Sequence[Entry], wanted: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        is_silent = False
        for start in range(0, len(wanted), PIECE):
            piece = wanted[start:start + PIECE]
            places = [entries[at].place for at in piece]
            rows = None if is_silent else await self._ask_rows(node, places)
            if rows is None:
                is_silent = True
                rows = self.without_home(places)
            elif None in rows:
                rows = self.without_leader(node, places, rows)
            found.update({at: row for at, row in zip(piece, rows, strict=True) if row is not None})
        return found

    async def _ask_rows(self, node: str, places: list[Place]) -> list[str | None] | None:
        if node == self._own:
            return await rows_at(self.state, self.kind, places, self.query)
        return await ask_rows(self.state, node, self.kind, places, self.query)

    def without_home(self, places: Sequence[Place]) -> list[str | None]:
        """What can be shown of things whose node does not answer."""
        return [None] * len(places)

    def without_leader(self, node: str, places: Sequence[Place], rows: list[str | None]) -> list[str | None]:
        """The same rows, with what can be shown of things that their node knows and does not serve."""
        return rows


async def collect(state: State, kind: Kind[Any], scope: Scope) -> list[Json]:
    """All such things of the cluster, for the use inside another answer."""
    census = Census(state, {}, kind, scope)
    found = await census.look()
    return [json.loads(row) for row in await census.rows(census.order.arrange(found.entries))]


async def find_one(state: State, kind: Kind[Any], place: Place, query: Query) -> Json | None:
    """One thing as it is shown alone, wherever it is."""
    query = {name: value for name, value in query.items() if name != "columns"}
    rows = await rows_at(state, kind, [place], query, is_whole=True)
    if rows[0] is None:
        about = {"kind": kind.word, "places": [place], "query": query, "is_whole": True}
        told = await state.runtime.cluster.ask_all("rows", about)
        rows = [row for answer in told.values() for row in answer if row is not None] or [None]
    return None if rows[0] is None else json.loads(rows[0])


async def ask_rows(state: State, node: str, kind: Kind[Any], places: Sequence[Place], query: Query, *,
                   is_whole: bool = False) -> list[str | None] | None:
    """Rows of another node's things; None if it does not answer."""
    about = {"kind": kind.word, "places": places, "query": dict(query), "is_whole": is_whole}
    rows = await state.runtime.cluster.ask(node, "rows", about)
    return rows if isinstance(rows, list) and len(rows) == len(places) else None


def add_surveys(surveys: Sequence[Survey]) -> Survey:
    entries = [entry for each in surveys for entry in each.entries]
    return Survey(sum(each.total for each in surveys), sum(each.filtered for each in surveys), entries)


def tell_survey(found: Survey) -> Json:
    return {"total": found.total, "filtered": found.filtered,
            "entries": [[entry.place, entry.key, entry.row] for entry in found.entries]}


def read_survey(node: str, told: Json) -> Survey:
    entries = [Entry(node, tuple(place), None if key is None else (key[0], key[1]), row) for place, key, row in told["entries"]]
    return Survey(told["total"], told["filtered"], entries)
