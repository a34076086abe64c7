"""A process that has ended counts as down at once, however its sockets go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cluster.copies import until
from cluster.link.support import HOST, Member
from faultproxy import FaultProxy
from inprocess import config
from mirrormq.cluster.coordination import Put, Unreachable
from mirrormq.cluster.membership import MEMBER, NODE, NodeInfo
from mirrormq.node.runtime import Runtime

NAME = "b@localhost"
LONG = 3600         # seconds of a lease: nobody waits for its end here


@asynccontextmanager
async def linked(directory: Path) -> AsyncIterator[tuple[Runtime, Member, FaultProxy]]:
    """A node, another one that is nothing but its links, and the line to that one's port."""
    runtime = Runtime(config(directory))
    await runtime.start()
    cluster = runtime.cluster
    other = Member(NAME, secret=cluster._secret(), cluster_id=cluster.membership.keepsake.cluster)
    await other.links.start(HOST, 0)
    try:
        async with FaultProxy(other.address) as line:
            other.links.set_peers({cluster.membership.name: (HOST, cluster.links.port)})
            host, port = line.address
            info = NodeInfo(NAME, other.links.me.node_id, other.links.me.incarnation, host, port, {})
            lease = await cluster.store.grant(LONG)
            member = Put(MEMBER + NAME, json.dumps({"id": info.id}))
            await cluster.store.transact([], [member, Put(NODE + NAME, info.text(), lease)])
            await until(lambda: NAME in cluster.neighbours)
            yield runtime, other, line
    finally:
        await other.links.stop()
        await runtime.abandon()


async def end_with_the_listener_last(runtime: Runtime, line: FaultProxy) -> None:
    """The kernel closes the sockets of a killed process one by one."""
    before = line.accepted
    line.cut()
    await until(lambda: NAME not in runtime.cluster.neighbours)
    await until(lambda: line.accepted > before + 3, "nobody dials")
    line.deafen()


async def test_a_killed_node_whose_listener_goes_a_moment_after_its_links_is_down(tmp_path: Path) -> None:
    async with linked(tmp_path) as (runtime, _, line):
        await end_with_the_listener_last(runtime, line)
        await until(lambda: NAME not in runtime.cluster.membership.running)


async def test_a_killed_node_is_down_as_soon_as_the_store_hears_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(tmp_path) as (runtime, _, line):
        store = runtime.cluster.store
        revoke, tries = store.revoke, []

        async def away(lease: int) -> None:
            tries.append(lease)
            if len(tries) == 1:
                raise Unreachable("the store is away")
            await revoke(lease)

        monkeypatch.setattr(store, "revoke", away)
        line.deafen()
        line.reset()
        await until(lambda: NAME not in runtime.cluster.membership.running)


async def test_a_node_that_is_linked_again_stays_up(tmp_path: Path) -> None:
    async with linked(tmp_path) as (runtime, _, line):
        cluster = runtime.cluster
        line.cut()
        await until(lambda: NAME not in cluster.neighbours)
        line.heal()
        await until(lambda: NAME in cluster.neighbours)
        await until(lambda: not [task for task in cluster._tasks if task.get_name() == f"probing {NAME}"])
        assert NAME in cluster.membership.running


# --- who cannot be reached


async def test_a_node_that_counts_as_down_because_nobody_hears_it_is_named_until_it_is_back(tmp_path: Path) -> None:
    async with linked(tmp_path) as (runtime, _, line):
        cluster = runtime.cluster
        assert cluster.unreachable() == []
        info = cluster.membership.running[NAME]
        line.cut()
        await until(lambda: NAME not in cluster.neighbours)
        await cluster.store.revoke(info.lease)
        await until(lambda: NAME not in cluster.membership.running)
        assert cluster.unreachable() == [NAME]
        line.heal()
        lease = await cluster.store.grant(LONG)
        await cluster.store.transact([], [Put(NODE + NAME, info.text(), lease)])
        await until(lambda: cluster.unreachable() == [])
        assert NAME in cluster.membership.running


async def test_a_node_whose_process_has_ended_is_down_and_not_cut_off(tmp_path: Path) -> None:
    async with linked(tmp_path) as (runtime, _, line):
        cluster = runtime.cluster
        info = cluster.membership.running[NAME]
        line.cut()
        await until(lambda: NAME not in cluster.neighbours)
        await cluster.store.revoke(info.lease)
        await until(lambda: cluster.unreachable() == [NAME])
        line.deafen()
        await until(lambda: cluster.unreachable() == [])


async def test_without_the_store_only_those_who_are_linked_are_known_to_be_up(tmp_path: Path) -> None:
    async with linked(tmp_path) as (runtime, _, line):
        cluster = runtime.cluster
        me = cluster.membership.name
        assert cluster.running() == [me, NAME]
        line.cut()
        await until(lambda: NAME not in cluster.neighbours)
        cluster.store.reachability.lost("cut off")
        assert cluster.running() == [me]
