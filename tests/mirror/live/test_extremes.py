"""Mirrored queues at the edges: one that refuses everything, transient ones when all nodes go down, forgotten nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

from cluster.live.nodes import Node, running
from cluster.local import LocalCluster
from live.load import PERSISTENT, Client
from mirrormq.wire.frames import content_frames, method_frame
from mirrormq.wire.methods import BasicPublish, ConfirmSelect, QueueDeclare

from .rings import count, declare, eventually, leader_of, look, mirror, publish, until_in_sync

REFUSED = 100_000
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]


def memory(node: Node) -> int:
    """In MiB."""
    assert node.process is not None
    text = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) >> 10


@pytest.mark.parametrize("overflow", ["reject-publish", "drop-head"])
def test_what_a_full_queue_does_not_take_costs_its_mirrors_no_memory(tmp_path: Path, overflow: str) -> None:
    """136."""
    with running(tmp_path) as nodes:
        mirror(nodes[0], "ha")
        declare(nodes[0], "ha.full", {"x-max-length": 10, "x-overflow": overflow})
        until_in_sync(nodes, "ha.full")
        client = Client(nodes[0].port)
        one = method_frame(1, BasicPublish("", "ha.full")) + content_frames(1, PERSISTENT, b"x" * 100, 131072)
        client.send(one * 1000)
        client.call(ConfirmSelect(), "confirm.select-ok")
        before = [memory(node) for node in nodes]
        client.close()
        client = Client(nodes[0].port)
        for _ in range(REFUSED // 1000):
            client.send(one * 1000)
        client.call(QueueDeclare("ha.full", passive=True), "queue.declare-ok")
        client.close()
        after = [memory(node) for node in nodes]
        print(f"\n{overflow}: {before} MiB before, {after} MiB after {REFUSED} publishes")
        assert all(now < then + 40 for then, now in zip(before, after, strict=True))
        assert count(nodes[1], "ha.full") == 10


def test_when_all_that_were_in_sync_are_forgotten_the_first_that_has_a_copy_goes_on(tmp_path: Path) -> None:
    """106."""
    with LocalCluster(tmp_path, nodes=3) as cluster:
        one, two, three = names = cluster.names
        with client_of(cluster, three) as channel:
            channel.queue_declare("ha.left", durable=True)
            channel.basic_publish("", "ha.left", b"lost", pika.BasicProperties(delivery_mode=2))
        cluster.must(one, "set_policy", "ha", "^ha", '{"ha-mode":"all","ha-sync-mode":"manual"}')
        eventually(lambda: cluster.api(one, "GET", "/api/queues/%2F/ha.left").get("slave_nodes", []) != [], within=30)
        cluster.kill(three)
        eventually(lambda: cluster.api(one, "GET", "/api/queues/%2F/ha.left")["state"] == "down", within=30)
        eventually(lambda: cluster.ctl(one, "forget_cluster_node", three).code == 0, within=60, every=0.5)
        eventually(lambda: cluster.api(two, "GET", "/api/queues/%2F/ha.left")["node"] in names[:2], within=30)
        with client_of(cluster, two) as channel:
            assert channel.queue_declare("ha.left", durable=True).method.message_count == 0


@contextmanager
def client_of(cluster: LocalCluster, node: str) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(cluster.url(node)))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def test_a_transient_queue_is_no_ghost_when_all_its_nodes_went_down(tmp_path: Path) -> None:
    """139."""
    with running(tmp_path) as nodes:
        mirror(nodes[0], "ha")
        declare(nodes[2], "ha.passing", durable=False)
        publish(nodes[0], "ha.passing", b"1")
        for node in nodes:
            node.kill()
        for node in nodes:
            node.start()
        nodes.until_whole()
        eventually(lambda: look(nodes[0], "ha.passing") == {} or leader_of(nodes[0], "ha.passing") != "", within=30)
        declare(nodes[0], "ha.passing", durable=False)
        publish(nodes[1], "ha.passing", b"2")
        until_in_sync(nodes, "ha.passing")
        assert count(nodes[1], "ha.passing") == 1
