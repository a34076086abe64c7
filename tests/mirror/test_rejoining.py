"""A node that comes back when the cluster has gone on without it, and a copy that has had a fault: both end with a new copy."""

from __future__ import annotations

import errno
from pathlib import Path

from mirror.nodes import QUEUE as LOG_ID
from mirror.nodes import Cluster
from mirror.support import three
from mirrormq.log.errors import QueueDamaged
from mirrormq.mirror.machine.effects import Released
from mirrormq.mirror.machine.inputs import Input, LinkDown
from mirrormq.mirror.machine.records import Desired

from .trio import QUEUE, nodes_in, until


async def test_a_mirror_that_comes_back_outside_the_ring_gives_up_its_copy_and_can_be_one_again(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, "a", "b", "c") as nodes:
        await nodes.want(ha_mode="nodes", ha_params=["a@localhost", "b@localhost"], ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])
        await nodes.publish("a", *[b"%d" % number for number in range(20)])
        await nodes.stop("b")
        await nodes.want(ha_mode="nodes", ha_params=["a@localhost", "c@localhost"], ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "c"])
        await nodes.start("b")
        front = nodes.front("b")
        assert front is not None
        store = nodes.running["b"].log.store
        await until(lambda: store.queue(front.log_id) is None)
        await nodes.at("a", lambda channel: [channel.basic_get(QUEUE, auto_ack=True) for _ in range(5)])
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: sorted(nodes.ring()) == ["a", "b", "c"])
        await nodes.want(ha_mode="nodes", ha_params=["b@localhost"], ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["b"])
        assert await nodes.count("a") == 15
        assert not list((tmp_path / "b" / "log" / "quarantine").glob("*.cut"))


async def test_a_mirror_that_has_a_fault_takes_its_copy_anew(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, "a", "b", "c") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: sorted(nodes.ring()) == ["a", "b", "c"])
        await nodes.publish("a", *[b"%d" % number for number in range(20)])
        for number, name in enumerate(("b", "c")):
            holding = nodes.holding(name)
            assert holding is not None
            nodes.running[name].mirroring.rings.give(holding, Input())      # that no machine knows
            await until(lambda name=name, old=holding: nodes.holding(name) is not old and nodes.holding(name) is not None)
            await until(lambda old=holding: nodes.epoch() > old.state.epoch + 1 and len(nodes.ring()) == 3)
            await nodes.publish("a", b"%d" % (20 + number))
        await nodes.want(ha_mode="nodes", ha_params=["b@localhost"], ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["b"])
        assert await nodes.count("c") == 22


def test_a_mirror_whose_disk_refuses_to_work_tries_again_and_blames_no_program(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "a", "b")
    cluster.begin()
    cluster.wait(10)
    cluster.publish(10)
    node = cluster.nodes["b"]
    node.rings._failed(node.holding, OSError(errno.EIO, "Input/output error"))
    assert "the disk refused to work ([Errno 5] Input/output error); it is tried again" in node.reports[-1]
    assert LOG_ID in node.rings.unwell
    node.rings.trim()
    cluster.rest()
    cluster.wait(20)
    assert cluster.view.ring == ("a", "b")
    assert node.live() == 10


def test_a_log_that_was_condemned_counts_for_nothing_when_a_new_view_comes(tmp_path: Path) -> None:
    """The mirror has failed a second time, before its new copy had begun."""
    cluster = Cluster(tmp_path, "a", "b")
    cluster.begin()
    cluster.wait(10)
    cluster.publish(10)
    node = cluster.nodes["b"]
    for _ in range(2):
        node.rings._failed(node.holding, QueueDamaged("it cannot be read"))
    assert LOG_ID in node.rings.unwell
    cluster.rest()
    cluster.wait(20)
    assert cluster.view.ring == ("a", "b")
    kept = node.store.queue(LOG_ID)
    assert kept is not None
    assert not kept.damage
    assert node.live() == 10


def test_what_only_a_former_leader_has_is_in_quarantine_before_it_gives_up_its_copy() -> None:
    cluster = three()
    cluster.append()
    cluster.states["a"].linked.clear()
    only_there = cluster.append()
    for name in ("b", "c"):
        cluster.give(name, LinkDown("a"))
    cluster.append()
    cluster.want(Desired(("b", "c")))
    assert sorted(cluster.view.ring) == ["b", "c"]
    assert not cluster.view.learners
    assert not cluster.did("a", Released)
    cluster.link("a", cluster.leader)
    cluster.wait(1.0)
    assert cluster.quarantine["a"] == [only_there]
    assert cluster.did("a", Released)
