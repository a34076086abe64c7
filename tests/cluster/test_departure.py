"""How a node leaves for good."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mirrormq.broker.metadata import key
from mirrormq.cluster import departure
from mirrormq.cluster.coordination import Coordination, Put, open_coordination


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Coordination]:
    opened = await open_coordination(f"sqlite:{tmp_path / 'store.sqlite'}")
    await opened.transact([], [Put("cluster", '{"id": "c"}'), member("a"), member("b")])
    yield opened
    await opened.close()


def member(name: str, node_id: str = "") -> Put:
    return Put(f"member/{name}", json.dumps({"id": node_id or f"id of {name}"}))


def queue(name: str, node: str) -> Put:
    return Put("meta/" + key("queue", "/", name), json.dumps({"node": node}))


def binding(queue_name: str) -> Put:
    return Put("meta/" + key("binding", "/", "queue", queue_name, "amq.direct", "k", ""), "{}")


async def keys(store: Coordination) -> set[str]:
    return set((await store.read("")).items)


async def test_a_node_goes_with_its_queues_and_their_bindings_only(store: Coordination):
    await store.transact([], [queue("mine", "b"), binding("mine"), queue("mine too", "a"), binding("mine too")])
    assert await departure.remove(store, "b") == [("/", "mine")]
    assert await keys(store) == {"cluster", "member/a", queue("mine too", "a").key, binding("mine too").key}
    assert await departure.others(store, "b") == ["a"]


def mirrored(name: str, ring: list[str], learners: list[str]) -> Put:
    record = {"node": ring[0], "view": {"ring": ring, "learners": learners}}
    return Put("meta/" + key("queue", "/", name), json.dumps(record))


async def test_a_mirrored_queue_goes_only_with_its_last_copy(store: Coordination):
    """Also one that is not in sync counts: whoever has it may lead when the others are forgotten."""
    stay = [mirrored("in sync", ["b", "a"], []), mirrored("behind", ["b"], ["a"]), mirrored("elsewhere", ["a"], ["c"])]
    await store.transact([], [*stay, mirrored("lone", ["b"], []), mirrored("with one forgotten", ["b"], ["c"])])
    assert await departure.remove(store, "b") == [("/", "lone"), ("/", "with one forgotten")]
    assert {put.key for put in stay} <= await keys(store)


async def test_a_node_that_is_up_stays(store: Coordination):
    await store.transact([], [Put("node/b", "{}"), queue("mine", "b")])
    before = await keys(store)
    with pytest.raises(departure.StillUp):
        await departure.remove(store, "b")
    assert await keys(store) == before


async def test_a_stranger_cannot_leave(store: Coordination):
    with pytest.raises(departure.NoMember):
        await departure.remove(store, "nobody")


async def test_a_name_that_is_another_nodes_by_now_stays(store: Coordination):
    await store.transact([], [queue("mine", "b")])
    with pytest.raises(departure.NoMember):
        await departure.remove(store, "b", "id of an older b")
    assert {"member/b", queue("mine", "b").key} <= await keys(store)


async def test_forgetting_goes_on_where_it_was_interrupted(store: Coordination):
    await store.transact([], [queue("left over", "gone")])
    assert await departure.remove(store, "gone") == [("/", "left over")]
    with pytest.raises(departure.NoMember):
        await departure.remove(store, "gone")


async def test_thousands_of_queues_go(store: Coordination):
    for first in range(0, 2000, 100):
        await store.transact([], [queue(f"q{number}", "b") for number in range(first, first + 100)])
    assert len(await departure.remove(store, "b")) == 2000
    assert await keys(store) == {"cluster", "member/a"}


async def test_the_last_member_takes_the_cluster_with_it(store: Coordination):
    await departure.remove(store, "b")
    await departure.remove(store, "a")
    await departure.end_cluster(store)
    assert await keys(store) == set()
