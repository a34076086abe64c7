"""A node whose lease ran out: it is seen again, however the store behaves meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from cluster.copies import until
from mirrormq.cluster.coordination import Compare, Coordination, Outcome, Unreachable, Write, open_coordination
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.cluster.membership import NODE, Membership

KEY = NODE + "a@localhost"
NEVER = 3600.0      # seconds between two renewals


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Coordination]:
    store = await open_coordination(f"sqlite:{tmp_path / 'store.db'}")
    yield store
    await store.close()


@pytest_asyncio.fixture
async def node(store: Coordination, tmp_path: Path) -> Membership:
    node = Membership(store, Keepsake.load(tmp_path, "a@localhost"), tmp_path, NEVER)
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


# --- after an outage of the store


@asynccontextmanager
async def keeping(node: Membership) -> AsyncIterator[None]:
    """In the background. It is not due for as long as a test takes."""
    keeping = asyncio.create_task(node.keep(_no_write))
    try:
        await asyncio.sleep(0)
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def _no_write(_path: Path) -> None:
    return


async def test_a_lease_that_ran_out_is_taken_anew_as_soon_as_the_store_answers(store: Coordination, node: Membership) -> None:
    await node.announce("127.0.0.1", 1, {})
    async with keeping(node):
        assert node.is_certain
        store.reachability.lost("cut off")
        assert not node.is_certain
        await store.revoke(node.lease)
        store.reachability.found()
        await until(lambda: node.is_certain)
        assert (await store.read(NODE)).items[KEY].lease == node.lease


async def test_a_lease_that_holds_is_renewed_as_soon_as_the_store_answers(store: Coordination, node: Membership) -> None:
    await node.announce("127.0.0.1", 1, {})
    before = node.lease
    async with keeping(node):
        store.reachability.lost("cut off")
        store.reachability.found()
        await until(lambda: node.is_certain)
        assert node.lease == before


async def test_what_the_store_did_not_hear_about_a_node_it_is_told_later(store: Coordination, node: Membership) -> None:
    await node.announce("127.0.0.1", 1, {})
    node.store = Deaf(store)
    with pytest.raises(Unreachable):
        await node.tell(maintenance=True)
    node.store = store
    async with keeping(node):
        store.reachability.lost("cut off")
        store.reachability.found()
        await until(lambda: not node._is_untold)
    assert '"maintenance": true' in (await store.read(NODE)).items[KEY].value
