"""A node that reaches neither etcd nor the others, in a mode in which it goes on: what it takes is in the queue afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from cluster.etcd import etcd_cluster
from compat.support import eventually
from faultproxy import ThreadedFaultProxy

from .nodes import Node, Nodes

PERSISTENT = pika.BasicProperties(delivery_mode=2)
CUT = 2                 # the number of the node that is cut off
LONG = 60.0


class Lonely(Nodes):
    """Three nodes, of which one reaches etcd by a line of its own."""

    def __init__(self, directory: Path, spec: str, line: ThreadedFaultProxy, mode: str = "autoheal") -> None:
        super().__init__(directory, count=CUT, coordination=spec, configuration=f"cluster_partition_handling = {mode}\n")
        self.etcd_line = line
        self.names.append(f"rabbit{CUT + 1}@localhost")
        self.nodes.append(Node(directory / self.names[CUT], self.names[CUT], f"etcd:http://127.0.0.1:{line.address[1]}"))

    def cut(self) -> None:
        self.nodes[CUT].line.cut()
        self.etcd_line.cut()

    def heal(self) -> None:
        self.etcd_line.heal()
        self.nodes[CUT].line.heal()


@contextmanager
def lonely(directory: Path, mode: str) -> Iterator[Lonely]:
    with etcd_cluster(directory / "etcd", size=1) as etcd:
        port = int(etcd.members[0].url.rpartition(":")[2])
        with ThreadedFaultProxy(("127.0.0.1", port)) as line:
            nodes = Lonely(directory, etcd.spec, line, mode)
            try:
                nodes.start()
                nodes[0].set_policy("/", "all", "^ha-", {"ha-mode": "all"}, apply_to="queues")
                yield nodes
            finally:
                nodes.heal()
                nodes.stop()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lonely]:
    with lonely(tmp_path_factory.mktemp("branches"), "autoheal") as nodes:
        yield nodes


@contextmanager
def channel_at(node: Node) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url()))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        with suppress(AMQPError):
            connection.close()


def declare(nodes: Nodes, number: int, queue: str) -> None:
    """Led by that node, in sync on all."""
    with channel_at(nodes[number]) as channel:
        channel.queue_declare(queue, durable=True)

    def is_whole() -> bool:
        row = nodes[number].api("GET", f"/api/queues/%2F/{queue}")
        return bool(row["node"] == nodes.names[number] and len(row.get("synchronised_slave_nodes", [])) == 2)

    eventually(is_whole, within=LONG)


def publish(node: Node, queue: str, *bodies: bytes) -> None:
    with channel_at(node) as channel:
        for body in bodies:
            channel.basic_publish("", queue, body, PERSISTENT)


def has_said(node: Node, queue: str) -> bool:
    return f"queue '{queue}' in vhost '/': this node is cut off" in node.log()


def everything(node: Node, queue: str, count: int) -> dict[bytes, str]:
    """Each body with the branch that it says it was on."""
    found: dict[bytes, str] = {}
    with channel_at(node) as channel:

        def is_all() -> bool:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is not None:
                assert body not in found
                found[body] = (properties.headers or {}).get("x-branch", "")
            return len(found) == count

        eventually(is_all, within=LONG)
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("leader", [pytest.param(0, marks=pytest.mark.chaos), CUT])
def test_what_a_cut_off_node_confirmed_is_in_the_queue_when_it_is_healed(nodes: Lonely, leader: int) -> None:
    queue, lonely = f"ha-{leader}", nodes[CUT]
    declare(nodes, leader, queue)
    publish(lonely, queue, b"before")
    nodes.cut()
    eventually(lambda: has_said(lonely, queue), within=LONG)
    publish(lonely, queue, *(f"there {number}".encode() for number in range(30)))
    eventually(lambda: nodes[1].api("GET", f"/api/queues/%2F/{queue}")["node"] != nodes.names[CUT], within=LONG)
    publish(nodes[1], queue, *(f"here {number}".encode() for number in range(30)))
    nodes.heal()
    found = everything(nodes[1], queue, 61)
    assert found.pop(b"before") == ""
    assert {found.pop(f"here {number}".encode()) for number in range(30)} == {""}
    assert set(found.values()) == {nodes.names[CUT]}
    nodes.until_whole()
    eventually(lambda: "30 messages of amq.branch." + queue in lonely.log(), within=LONG)


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_a_branch_survives_the_death_of_its_node(nodes: Lonely) -> None:
    queue, lonely = "ha-killed", nodes[CUT]
    declare(nodes, 0, queue)
    nodes.cut()
    eventually(lambda: has_said(lonely, queue), within=LONG)
    publish(lonely, queue, *(str(number).encode() for number in range(20)))
    lonely.kill()
    nodes.heal()
    lonely.start()
    assert set(everything(nodes[0], queue, 20).values()) == {nodes.names[CUT]}
