"""A node whose lease ran out: it is seen again, however the store behaves meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest_asyncio

from mirrormq.cluster.coordination import Compare, Coordination, Outcome, Unreachable, Write, open_coordination
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.cluster.membership import NODE, Membership

KEY = NODE + "a@localhost"


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Coordination]:
    store = await open_coordination(f"sqlite:{tmp_path / 'store.db'}")
    yield store
    await store.close()


@pytest_asyncio.fixture
async def node(store: Coordination, tmp_path: Path) -> Membership:
    node = Membership(store, Keepsake.load(tmp_path, "a@localhost"), tmp_path)
    await node.enter()
    return node


async def test_a_node_that_took_long_to_recover_its_log_is_seen_all_the_same(store: Coordination, node: Membership) -> None:
    await store.revoke(node.lease)
    await node.announce("127.0.0.1", 1, {})
    assert KEY in (await store.read(NODE)).items


async def test_a_return_that_the_store_did_not_hear_is_tried_again(store: Coordination, node: Membership) -> None:
    await node.announce("127.0.0.1", 1, {})
    returns: list[str] = []
    node.on_expired = lambda: returns.append("said again")
    await store.revoke(node.lease)
    node.store = Deaf(store)
    await node._return()
    assert returns == []
    node.store = store
    await node._return()
    assert returns == ["said again"]
    assert (await store.read(NODE)).items[KEY].lease == node.lease


class Deaf:
    """Grants leases and hears nothing else."""

    def __init__(self, store: Coordination) -> None:
        self.grant = store.grant

    async def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> Outcome:
        raise Unreachable("the store is away")
