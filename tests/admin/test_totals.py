"""Sums of a virtual host are those of its queues and channels, as they are when somebody asks."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from compat.support import eventually

from .conftest import Connect
from .support import Node, quote

pytestmark = pytest.mark.live
FLOWS = ("publish", "confirm", "deliver", "deliver_no_ack", "get", "get_no_ack", "deliver_get", "redeliver", "ack",
         "return_unroutable", "drop_unroutable")


def publish(channel: BlockingChannel, queue: str, count: int) -> None:
    for _ in range(count):
        channel.basic_publish("", queue, b"x")


def figures(node: Node, vhost: str) -> dict[str, Any]:
    row: dict[str, Any] = node.api("GET", f"/api/vhosts/{quote(vhost)}")
    return row


@pytest.fixture
def channel(connect: Connect) -> BlockingChannel:
    channel = connect().channel()
    channel.confirm_delivery()
    for queue in ("one", "two"):
        channel.queue_declare(queue)
        publish(channel, queue, 5)
    return channel


def test_messages_are_counted_as_soon_as_they_are_there(node: Node, vhost: str, channel: BlockingChannel):
    for count in (11, 12, 13):
        publish(channel, "one", 1)
        assert figures(node, vhost)["messages"] == count
    channel.basic_get("two")
    row = figures(node, vhost)
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (13, 12, 1)


def test_what_was_done_with_messages_is_added_up(node: Node, vhost: str, channel: BlockingChannel):
    got = channel.basic_get("one")[0]
    assert got is not None
    channel.basic_nack(got.delivery_tag)                        # comes back
    channel.basic_get("one", auto_ack=True)                     # again
    held = channel.basic_get("two")[0]
    assert held is not None
    channel.basic_ack(held.delivery_tag)
    channel.basic_publish("", "nowhere", b"x")                  # dropped
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"x", mandatory=True)
    wanted = {"publish": 12, "confirm": 12, "deliver": 0, "deliver_no_ack": 0, "get": 2, "get_no_ack": 1, "deliver_get": 3,
              "redeliver": 1, "ack": 1, "return_unroutable": 1, "drop_unroutable": 1}
    eventually(lambda: told(node, vhost) == wanted)


def test_sums_of_a_virtual_host_are_those_of_its_queues(node: Node, vhost: str, channel: BlockingChannel):
    channel.basic_consume("one", lambda *_: None)
    channel.basic_consume("two", lambda *_: None, auto_ack=True)
    eventually(lambda: figures(node, vhost)["messages_unacknowledged"] == 5)
    of_queues: list[dict[str, Any]] = [row["message_stats"] for row in node.api("GET", f"/api/queues/{quote(vhost)}")]
    for name in ("deliver", "deliver_no_ack", "deliver_get"):
        assert told(node, vhost)[name] == sum(stats.get(name, 0) for stats in of_queues) > 0


def told(node: Node, vhost: str) -> dict[str, int]:
    return {name: figures(node, vhost)["message_stats"][name] for name in FLOWS}
