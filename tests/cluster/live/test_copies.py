"""Copy queues whose source is on another node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from compat.support import eventually, taken

from .nodes import Node, Nodes, running

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(Path(tmp_path_factory.mktemp("two")), count=2) as nodes:
        yield nodes


@pytest.fixture
def channels(nodes: Nodes) -> Iterator[list[Any]]:
    connections = [pika.BlockingConnection(pika.URLParameters(node.url())) for node in nodes]
    yield [connection.channel() for connection in connections]
    for connection in connections:
        connection.close()


def is_gone(channel: Any, queue: str) -> bool:
    other = channel.connection.channel()
    try:
        other.queue_declare(queue, passive=True)
    except ChannelClosedByBroker:
        return True
    other.close()
    return False


def home(node: Node, queue: str) -> str:
    return str(node.api("GET", f"/api/queues/%2F/{queue}")["node"])


def test_a_copy_on_another_node_has_what_was_confirmed(nodes: Nodes, channels: list[Any]) -> None:
    here, there = channels
    here.queue_declare("orders", durable=True)
    there.queue_declare("orders-copy", durable=True, arguments={"x-copy-from": "orders"})
    assert [home(node, name) for node, name in zip(nodes, ("orders", "orders-copy"), strict=True)] == nodes.names
    for channel in channels:
        channel.confirm_delivery()
        for number in range(50):
            channel.basic_publish("", "orders", str(number).encode(), PERSISTENT)
    expected = [str(number).encode() for number in range(50)] * 2
    assert taken(here, "orders-copy") == expected
    assert taken(there, "orders") == expected


def test_dead_letters_are_copied_to_another_node(channels: list[Any]) -> None:
    here, there = channels
    here.queue_declare("dead", durable=True)
    there.queue_declare("dead-copy", durable=True, arguments={"x-copy-from": "dead"})
    there.queue_declare("dying", durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    here.basic_publish("", "dying", b"m", PERSISTENT)
    tag = eventually(lambda: there.basic_get("dying")[0]).delivery_tag
    there.basic_reject(tag, requeue=False)
    assert eventually(lambda: taken(here, "dead-copy")) == [b"m"]
    assert eventually(lambda: taken(here, "dead")) == [b"m"]


def test_a_mirrored_queue_is_copied_into_a_mirrored_queue(nodes: Nodes, channels: list[Any]) -> None:
    here, there = channels
    nodes[0].set_policy("/", "all", "^ha-", {"ha-mode": "all"}, apply_to="queues")
    here.queue_declare("ha-orders", durable=True)
    there.queue_declare("ha-copy", durable=True, arguments={"x-copy-from": "ha-orders"})
    there.confirm_delivery()
    for number in range(20):
        there.basic_publish("", "ha-orders", str(number).encode(), PERSISTENT)
    assert taken(here, "ha-copy") == [str(number).encode() for number in range(20)]


def test_every_node_sees_the_copies_of_a_mirrored_exchange(nodes: Nodes, channels: list[Any]) -> None:
    here, there = channels
    here.exchange_declare("groups", "fanout", durable=True, arguments={"x-mirrored": True, "x-mirrored-groups": ["a", "b"]})
    here.queue_declare("grouped", durable=True)
    there.queue_bind("grouped", "groups")
    here.basic_publish("groups", "", b"m", PERSISTENT)
    for channel, name in ((there, "grouped.a"), (here, "grouped.b")):
        assert eventually(lambda channel=channel, name=name: taken(channel, name)) == [b"m"]
    here.queue_unbind("grouped", "groups")
    eventually(lambda: is_gone(there, "grouped.a"))
