"""What clients on other nodes are told is true, on real nodes: of auto-delete queues that they leave, and of transactions."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from cluster.live.nodes import Nodes

from .rings import connect, declare, mirror, until_in_sync

PLACES = [(0, 1, 2), (1, 0, 2), (0, 2, 0), (1, 2, 0), (1, 2, 1), (2, 0, 1), (0, 0, 1)]  # of the home, who leaves, who comes
WAYS: dict[str, Callable[[BlockingChannel], object]] = {
    "cancel": lambda channel: channel.basic_cancel("t"),
    "channel": lambda channel: channel.close(),
    "connection": lambda channel: channel.connection.close(),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("queue", ["mirrored", "plain"])
def test_the_queue_can_be_declared_and_consumed_at_once_again(nodes: Nodes, queue: str, way: str) -> None:
    mirror(nodes[0], "mirrored")
    for home, first, second in PLACES:
        connections = [connect(nodes[place]) for place in (home, first, second)]
        channels = [connection.channel() for connection in connections]
        channels[0].queue_declare(queue, auto_delete=True)
        channels[1].queue_declare(queue, auto_delete=True)
        channels[1].basic_consume(queue, lambda *_: None, consumer_tag="t")
        WAYS[way](channels[1])
        channels[2].queue_declare(queue, auto_delete=True)
        seen: list[bytes] = []
        channels[2].basic_consume(queue, lambda _channel, _method, _properties, body, seen=seen: seen.append(body), auto_ack=True)
        channels[0].confirm_delivery()
        channels[0].basic_publish("", queue, b"1", mandatory=True)
        while not seen:
            assert channels[2].consumer_tags, "the consumer was cancelled"
            connections[2].process_data_events(0.05)
        for connection in connections:
            if connection.is_open:
                connection.close()


@pytest.mark.timeout(120)
def test_a_commit_whose_acknowledgement_is_lost_with_the_leader_fails(nodes: Nodes) -> None:
    mirror(nodes[0], "committed")
    declare(nodes[0], "committed")
    here = connect(nodes[1])
    channel = here.channel()
    until_in_sync(nodes, "committed")
    channel.tx_select()
    channel.basic_publish("", "committed", b"1", pika.BasicProperties(delivery_mode=2))
    channel.tx_commit()
    method, _, body = channel.basic_get("committed")
    assert body == b"1"
    channel.basic_ack(method.delivery_tag)
    nodes[0].freeze()
    try:
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.tx_commit()
        method, _, body = here.channel().basic_get("committed", auto_ack=True)
    finally:
        nodes[0].thaw()
    assert (closed.value.reply_code, closed.value.reply_text) == (406, "PRECONDITION_FAILED - partial tx completion")
    assert (body, method.redelivered) == (b"1", True)
    here.close()
