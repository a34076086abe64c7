"""Messages that lived in the memory of a queue's only node when the queue became a mirrored one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pika
import pytest

from mirror.nodes import Cluster, numbered
from mirrormq.mirror.machine.records import Desired

from .trio import QUEUE, nodes_in, until

TRANSIENT, PERSISTENT = 1, 2


def mirrored_late(folder: Path, modes: list[int], *, automatic: bool) -> Cluster:
    cluster = Cluster(folder, "a", "b", desired=Desired(("a", "b"), automatic=automatic))
    queue = cluster.plain()
    for number, mode in enumerate(modes, 1):
        assert queue.publish(cluster.message(number, mode), None)
    cluster.nodes["a"].broker.turn()
    cluster.begin(queue=queue)
    cluster.wait(10)
    return cluster


@pytest.mark.parametrize("modes", [
    [TRANSIENT] * 5, [PERSISTENT, TRANSIENT, PERSISTENT, TRANSIENT, PERSISTENT], [TRANSIENT, PERSISTENT, PERSISTENT],
])
def test_they_are_with_the_mirrors_in_their_order(tmp_path: Path, modes: list[int]) -> None:
    cluster = mirrored_late(tmp_path, modes, automatic=True)
    assert cluster.view.ring == ("a", "b")
    cluster.kill("a")
    cluster.wait(10)
    assert cluster.leader.name == "b"
    assert cluster.leader.queue.kept == modes.count(PERSISTENT)
    assert cluster.leader.bodies() == numbered(1, len(modes))


def test_a_mirror_without_them_is_not_in_sync(tmp_path: Path) -> None:
    cluster = mirrored_late(tmp_path, [TRANSIENT] * 5, automatic=False)
    assert cluster.view.ring == ("a",)


def test_one_that_a_client_holds_comes_again_after_a_failover(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "a", "b")
    queue = cluster.plain()
    for number in (1, 2, 3):
        assert queue.publish(cluster.message(number, TRANSIENT), None)
    held = queue.backlog.pop()
    queue.hold(held)
    queue.log_light([held])
    cluster.nodes["a"].broker.turn()
    cluster.begin(queue=queue)
    cluster.wait(10)
    cluster.kill("a")
    cluster.wait(10)
    again = cluster.leader.queue.backlog.pop()
    assert (again.body(), again.redelivered) == (b"1", True)
    following = cluster.leader.queue.backlog.pop()
    assert (following.body(), following.redelivered) == (b"2", False)


async def test_one_that_an_open_transaction_has_acknowledged_comes_back_with_the_rollback(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, "a", "b") as nodes:
        connection = await asyncio.to_thread(
            lambda: pika.BlockingConnection(pika.ConnectionParameters("localhost", nodes.port("a"), heartbeat=0)))

        def take_one() -> pika.adapters.blocking_connection.BlockingChannel:
            channel = connection.channel()
            for _ in range(3):
                channel.basic_publish("", QUEUE, b"x")
            channel.tx_select()
            method, _, _ = channel.basic_get(QUEUE)
            channel.basic_ack(method.delivery_tag)
            channel.queue_declare(QUEUE, passive=True)          # answered behind the acknowledgement
            return channel

        channel = await asyncio.to_thread(take_one)
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])
        await asyncio.to_thread(channel.tx_rollback)
        await asyncio.to_thread(connection.close)
        await nodes.stop("a")
        await until(lambda: nodes.ring() == ["b"])
        assert await nodes.count("b") == 3


def test_they_outlive_each_node_as_long_as_one_that_is_in_sync_stays(tmp_path: Path) -> None:
    """Who has restarted and follows again, by its log alone, has them as the leader has."""
    cluster = Cluster(tmp_path, "a", "b")
    cluster.begin()
    cluster.wait(10)
    cluster.publish(3, mode=TRANSIENT)
    cluster.publish(2)
    for name in ("b", "a", "b"):
        cluster.stop(name)
        cluster.wait(10)
        cluster.start(name)
        cluster.wait(10)
        assert sorted(cluster.view.ring) == ["a", "b"]
    assert cluster.leader.queue.backlog.count == 5
    assert cluster.leader.bodies() == numbered(1, 5)


def test_when_all_were_down_they_are_gone_from_every_copy(tmp_path: Path) -> None:
    """The one that leads says so in the log: with the next one they do not come again."""
    cluster = Cluster(tmp_path, "a", "b")
    cluster.begin()
    cluster.wait(10)
    cluster.publish(1)
    cluster.publish(3, mode=TRANSIENT)
    cluster.publish(1)
    for name in ("a", "b"):
        cluster.kill(name)
    for name in ("a", "b"):
        cluster.start(name)
    cluster.wait(20)
    assert sorted(cluster.view.ring) == ["a", "b"]
    assert cluster.leader.queue.backlog.count == 2
    cluster.publish(1, mode=TRANSIENT)
    cluster.move(next(name for name in ("a", "b") if name != cluster.leader.name))
    assert cluster.leader.queue.backlog.count == 3
    assert cluster.leader.bodies() == [b"1", b"5", b"6"]
