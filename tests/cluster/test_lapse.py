"""What becomes of a node's things when its lease runs out: for the others, and for itself when it lives on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest_asyncio

from mirrormq.broker.journal import UNHEARD, Proposal
from mirrormq.broker.message import ContentInfo, Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.cluster.coordination import Coordination, Item, Snapshot, open_coordination
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.cluster.membership import NODE, Membership

from .copies import Copy, copies, until

PROPERTIES = b"\x00\x00"


class Hope(Barrier):
    """Of one message."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False
        self.is_refused = False

    def passed(self) -> None:
        self.is_over = True

    def refuse(self, mark: int) -> None:
        self.is_refused = True


def publish(queue: Queue) -> Hope:
    hope = Hope()
    message = Message(b"", b"\x00\x01q", ContentInfo(PROPERTIES), 0)
    assert queue.publish(message, hope)
    queue.embassy.flush()  # type: ignore[attr-defined]
    return hope


async def with_queue(a: Copy, b: Copy) -> None:
    a.make_queue("q")
    await a.agree()
    await until(lambda: "q" in b.vhost.queues)


def mind_nodes(copy: Copy) -> None:
    def saw(key: str, item: Item | None) -> None:
        if item is None:
            copy.broker.forwarding.node_gone(key[len(NODE):])
    copy.replica.on_other = saw


async def test_publishes_to_a_queue_that_went_with_its_node_are_refused(tmp_path: Path) -> None:
    async with copies(tmp_path, "a", "b") as (a, b):
        await with_queue(a, b)
        mind_nodes(b)
        hope = publish(b.queue("q"))
        await a.store.revoke(a.lease)
        await until(lambda: "q" not in b.vhost.queues)
        assert (hope.is_over, hope.is_refused) == (True, True)


async def test_publishes_to_a_queue_that_a_client_deletes_count_as_taken(tmp_path: Path) -> None:
    async with copies(tmp_path, "a", "b") as (a, b):
        await with_queue(a, b)
        mind_nodes(b)
        hope = publish(b.queue("q"))
        a.broker.delete_queue(a.queue("q"))
        await a.agree()
        await until(lambda: "q" not in b.vhost.queues)
        assert (hope.is_over, hope.is_refused) == (True, False)


async def test_a_whole_copy_tells_too_whose_lease_is_another(tmp_path: Path) -> None:
    """As after a compaction of the store: the loss and the return of both nodes are not told one by one."""
    async with copies(tmp_path, "a", "b") as (a, b):
        await with_queue(a, b)
        mind_nodes(b)
        hope = publish(b.queue("q"))
        await a.stop()
        await b.stop()
        await a.store.revoke(a.lease)
        await a.enter()
        whole = await a.store.read("")
        a.replica._compare(whole)
        assert "q" in a.vhost.queues
        b.replica._compare(whole)
        assert "q" not in b.vhost.queues
        assert (hope.is_over, hope.is_refused) == (True, True)


async def test_a_whole_copy_without_what_others_deleted_takes_it_away(tmp_path: Path) -> None:
    async with copies(tmp_path, "a", "b") as (a, b):
        await with_queue(a, b)
        await a.stop()
        whole = await a.store.read("")
        a.replica._compare(Snapshot(whole.revision + 1, {key: item for key, item in whole.items.items() if '"queue"' not in key}))
        assert "q" not in a.vhost.queues


async def test_a_client_whose_declare_met_a_lost_lease_is_told_and_nothing_is_made_later(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        await a.store.revoke(a.lease)
        a.make_queue("q")
        [proposal] = a.broker.journal.proposals
        await a.agree()
        assert proposal.state == UNHEARD
        await a.enter()
        stubborn = Proposal(is_stubborn=True)
        stubborn.put('["parameter", "x", "/", "y"]', {"value": 1})
        a.broker.journal.propose(stubborn)
        await a.agree()
        assert not a.replica._stubborn
        assert "q" not in a.vhost.queues


async def test_transient_exchanges_of_an_earlier_cluster_go_and_newer_ones_stay(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        a.make_exchange("old", durable=False)
        a.make_exchange("kept")
        a.make_queue("q", durable=True)
        await a.agree()
        a.bind("old", "q", "k")
        await a.agree()
        entered = a.replica.revision
        a.make_exchange("new", durable=False)
        await a.agree()
        a.broker.records.end_transient(entered)
        await a.agree()
        assert [name for name in ("old", "kept", "new") if name in a.vhost.exchanges] == ["kept", "new"]
        assert not [key for key in (await a.store.read("")).items if '"binding"' in key]


# --- leaving


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> Coordination:
    return await open_coordination(f"sqlite:{tmp_path / 'store.db'}")


async def test_a_node_that_leaves_takes_no_new_lease(store: Coordination, tmp_path: Path) -> None:
    node = Membership(store, Keepsake.load(tmp_path, "a@localhost"), tmp_path)
    await node.enter()
    await node.announce("127.0.0.1", 1, {})
    await store.revoke(node.lease)
    reached, leave = asyncio.Event(), asyncio.Event()

    async def slow_grant(_ttl: int) -> int:
        lease = await type(store).grant(store, 10)
        reached.set()
        await leave.wait()
        return lease

    store.grant = slow_grant  # type: ignore[method-assign]
    returning = asyncio.create_task(node._return())
    await reached.wait()
    await node.leave_running()
    leave.set()
    await returning
    assert (await store.read(NODE)).items == {}
    await node._return()
    assert (await store.read(NODE)).items == {}
    await store.close()


async def test_the_lease_is_not_kept_by_a_node_that_has_left(store: Coordination, tmp_path: Path) -> None:
    node = Membership(store, Keepsake.load(tmp_path, "a@localhost"), tmp_path)
    await node.enter()
    await node.leave_running()
    await asyncio.wait_for(node.keep(_no_write), 60)
    await store.close()


async def _no_write(_path: Path) -> None:
    return
