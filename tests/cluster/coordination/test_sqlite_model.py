"""The file against a model: a dict, a list of changes, a set of leases. Two clients, random steps, watches that come and go."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.cluster.coordination import (
    Absent,
    BadTransaction,
    Compare,
    Coordination,
    CoordinationError,
    Delete,
    DeletePrefix,
    Item,
    LeaseGone,
    Outcome,
    Present,
    Put,
    Transaction,
    Unchanged,
    ValueIs,
    Watch,
    Write,
    open_coordination,
)
from mirrormq.cluster.coordination.port import check

from .support import Copy, put

KEYS = ["a", "a/", "a/1", "a/2", "a0", "b/1", "é"]
PREFIXES = ["", "a", "a/", "b", "é"]
VALUES = ["", "x", "y"]
LEASES = 3


@dataclass(frozen=True)
class Transact:
    client: int
    transactions: list[Transaction]


@dataclass(frozen=True)
class Revoke:
    client: int
    lease: int


@dataclass(frozen=True)
class Follow:
    """A watch of this prefix takes what there is."""

    prefix: str


Step: TypeAlias = Transact | Revoke | Follow

keys = st.sampled_from(KEYS)
compares = st.one_of(
    st.builds(Absent, keys), st.builds(Present, keys), st.builds(Unchanged, keys, st.integers(0, 12)),
    st.builds(ValueIs, keys, st.sampled_from(VALUES)),
)  # fmt: skip
writes = st.one_of(
    st.builds(Put, keys, st.sampled_from(VALUES), st.integers(0, LEASES)),
    st.builds(Delete, keys),
    st.builds(DeletePrefix, st.sampled_from(PREFIXES)),
)
transactions = st.builds(Transaction, st.lists(compares, max_size=2), st.lists(writes, max_size=4))
steps = st.one_of(
    st.builds(Transact, st.integers(0, 1), st.lists(transactions, min_size=1, max_size=3)),
    st.builds(Revoke, st.integers(0, 1), st.integers(1, LEASES)),
    st.builds(Follow, st.sampled_from(PREFIXES)),
)


@dataclass
class Model:
    revision: int = 0
    items: dict[str, Item] = field(default_factory=dict)
    told: list[tuple[str, str | None]] = field(default_factory=list)
    leases: set[int] = field(default_factory=lambda: set(range(1, LEASES + 1)))

    def transact(self, transaction: Transaction) -> Outcome | type[CoordinationError]:
        if not all(self.holds(compare) for compare in transaction.compares):
            found = {c.key: self.items[c.key] for c in transaction.compares if c.key in self.items}
            return Outcome(succeeded=False, revision=self.revision, found=found)
        if any(isinstance(write, Put) and write.lease and write.lease not in self.leases for write in transaction.writes):
            return LeaseGone
        self.change(transaction.writes)
        return Outcome(succeeded=True, revision=self.revision)

    def change(self, writes: Sequence[Write]) -> None:
        before = len(self.told)
        revision = self.revision + 1
        for write in writes:
            match write:
                case Put(key, value, lease):
                    self.items[key] = Item(value, revision, lease)
                    self.told.append((key, value))
                case Delete(key):
                    self.delete([key] if key in self.items else [])
                case DeletePrefix(prefix):
                    self.delete(sorted(key for key in self.items if key.startswith(prefix)))
        if len(self.told) > before:
            self.revision = revision

    def delete(self, gone: list[str]) -> None:
        for key in gone:
            del self.items[key]
            self.told.append((key, None))

    def revoke(self, lease: int) -> None:
        self.leases.discard(lease)
        self.change([Delete(key) for key in sorted(key for key, item in self.items.items() if item.lease == lease)])

    def holds(self, compare: Compare) -> bool:
        item = self.items.get(compare.key)
        match compare:
            case Absent():
                return item is None
            case Present():
                return item is not None
            case Unchanged(_, revision):
                return revision == (item.revision if item else 0)
            case ValueIs(_, value):
                return item is not None and item.value == value


class World:
    def __init__(self, stores: list[Coordination]) -> None:
        self.stores = stores
        self.model = Model()
        self.watches: dict[str, tuple[Watch, Copy]] = {}

    async def take(self, step: Step) -> None:
        match step:
            case Transact(client, transactions):
                await self.transact(self.stores[client], [one for one in transactions if is_good(one)])
            case Revoke(client, lease):
                await self.stores[client].revoke(lease)
                self.model.revoke(lease)
            case Follow(prefix):
                await self.follow(prefix)
        await self.compare()

    async def transact(self, store: Coordination, transactions: list[Transaction]) -> None:
        expected = [self.model.transact(transaction) for transaction in transactions]
        for outcome, wanted in zip(await store.transact_many(transactions), expected, strict=True):
            assert type(outcome) is wanted if isinstance(wanted, type) else outcome == wanted

    async def follow(self, prefix: str) -> None:
        """What it is told is the model's list, so far as the model has come; a marker shows that it has all."""
        if prefix not in self.watches:
            self.watches[prefix] = (self.stores[len(prefix) % 2].watch(prefix, 0), Copy())
        watch, copy = self.watches[prefix]
        marker = f"{prefix}~marker"
        self.model.change([Put(marker, str(self.model.revision))])
        await put(self.stores[1], marker, str(self.model.revision - 1))
        await copy.until(watch, marker, str(self.model.revision - 1))
        assert copy.told == [(key, value) for key, value in self.model.told if key.startswith(prefix)]
        assert copy.revision == self.model.revision

    async def compare(self) -> None:
        for store in self.stores:
            snapshot = await store.read("")
            assert (snapshot.revision, snapshot.items) == (self.model.revision, self.model.items)
            assert (await store.read("a/")).items == {k: v for k, v in self.model.items.items() if k.startswith("a/")}


def is_good(transaction: Transaction) -> bool:
    try:
        check(transaction)
    except BadTransaction:
        return False
    return True


@settings(max_examples=60)
@given(st.lists(steps, max_size=20))
def test_the_file_does_what_the_model_does(script: list[Step]) -> None:
    asyncio.run(play(script))


async def play(script: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        spec = f"sqlite:{Path(directory, 'store.db')}"
        stores = [await open_coordination(spec), await open_coordination(spec)]
        world = World(stores)
        for number in range(LEASES):
            assert await stores[number % 2].grant(1000) == number + 1
        try:
            for step in script:
                await world.take(step)
        finally:
            for store in stores:
                await store.close()
