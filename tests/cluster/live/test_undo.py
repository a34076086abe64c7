"""Purged and deleted mirrored queues, taken back through any node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from cluster.local import PATIENCE
from compat.support import eventually, quote, taken

from .nodes import Node, Nodes, running

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(Path(tmp_path_factory.mktemp("two")), count=2) as nodes:
        nodes[0].set_policy("/", "all", "^ha-", {"ha-mode": "all"}, apply_to="queues")
        yield nodes


@pytest.fixture
def channels(nodes: Nodes) -> Iterator[list[Any]]:
    connections = [pika.BlockingConnection(pika.URLParameters(node.url())) for node in nodes]
    channels = [connection.channel() for connection in connections]
    for channel in channels:
        channel.confirm_delivery()
    yield channels
    for connection in connections:
        if connection.is_open:
            connection.close()


def fill(channel: Any, name: str, count: int = 500) -> list[bytes]:
    channel.queue_declare(name, durable=True)
    bodies = [str(number).encode() for number in range(count)]
    for body in bodies:
        channel.basic_publish("", name, body, PERSISTENT)
    return bodies


def undo(node: Node, name: str) -> int:
    (item,) = [item for item in node.api("GET", "/api/undo/%2F") if item["name"] == name]
    return int(node.api("POST", f"/api/undo/%2F/{quote(item['id'])}")["messages"])


@pytest.mark.parametrize("name", ["ha-purged", "plain-purged"])
def test_a_purge_is_undone_through_another_node(nodes: Nodes, channels: list[Any], name: str) -> None:
    here, there = channels
    was = fill(here, name)
    there.queue_purge(name)
    assert taken(here, name) == []
    assert undo(nodes[1], name) == len(was)
    assert taken(there, name) == was


@pytest.mark.parametrize("name", ["ha-deleted", "plain-deleted"])
def test_a_deletion_is_undone_through_another_node(nodes: Nodes, channels: list[Any], name: str) -> None:
    here, there = channels
    was = fill(here, name)
    here.queue_bind(name, "amq.direct", name)
    there.queue_delete(name)
    assert undo(nodes[1], name) == len(was)
    there.basic_publish("amq.direct", name, b"bound", PERSISTENT)
    assert taken(there, name) == [*was, b"bound"]


def test_a_purge_can_be_undone_when_another_node_leads(nodes: Nodes, channels: list[Any]) -> None:
    """The node that led at that time has it, and is a mirror now."""
    was = fill(channels[0], "ha-moved")
    channels[0].queue_purge("ha-moved")
    channels[0].connection.close()
    nodes[0].stop()
    nodes[0].start()
    nodes.until_whole()
    eventually(lambda: nodes[1].api("GET", "/api/queues/%2F/ha-moved")["node"] == nodes.names[1], within=PATIENCE)
    assert undo(nodes[1], "ha-moved") == len(was)
    assert eventually(lambda: taken(channels[1], "ha-moved")) == was
