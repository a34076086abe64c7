"""What a killed node leaves behind: nothing that was to end with it, and everything that was to stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError, UnroutableError

from cluster.local import PATIENCE
from compat.support import eventually
from mirrormq.cli.ctl.node import partitions

from .nodes import Node, Nodes, running

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with running(tmp_path) as nodes:
        yield nodes
        while OPEN:
            with suppress(AMQPError):
                OPEN.pop().close()


OPEN: list[pika.BlockingConnection] = []


def connect(node: Node) -> pika.BlockingConnection:
    OPEN.append(pika.BlockingConnection(pika.URLParameters(node.url())))
    return OPEN[-1]


def exists(node: Node, queue: str) -> bool:
    connection = connect(node)
    try:
        connection.channel().queue_declare(queue, passive=True)
        return True
    except ChannelClosedByBroker as error:
        return error.reply_code != 404
    finally:
        connection.close()


def test_queues_that_end_with_their_node_are_gone_everywhere_and_can_be_declared_at_once(nodes: Nodes) -> None:
    ours = connect(nodes[2])
    channel = ours.channel()
    channel.queue_declare("exclusive", exclusive=True)
    channel.queue_declare("auto-delete", auto_delete=True)
    named = channel.queue_declare("").method.queue
    channel.queue_bind(named, "amq.fanout")
    assert eventually(lambda: exists(nodes[0], named))
    nodes[2].kill()
    other = connect(nodes[1])
    anew = other.channel()
    anew.queue_declare("exclusive", exclusive=True)
    anew.queue_declare("auto-delete", auto_delete=True)
    for node in (nodes[0], nodes[1]):
        eventually(lambda node=node: not exists(node, named), within=PATIENCE)
    bindings = nodes[0].api("GET", "/api/exchanges/%2F/amq.fanout/bindings/source")
    assert [binding for binding in bindings if binding["destination"] == named] == []
    nodes[2].start()
    assert not exists(nodes[2], named)
    other.close()


def test_a_durable_queue_of_a_killed_node_is_down_until_the_node_is_back_with_its_messages(nodes: Nodes) -> None:
    home = connect(nodes[2]).channel()
    home.queue_declare("kept", durable=True)
    home.confirm_delivery()
    home.basic_publish("", "kept", b"one", PERSISTENT)
    consumer = connect(nodes[0]).channel()
    cancelled: list[str] = []
    consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    delivered: list[bytes] = []
    tag = consumer.basic_consume("kept", lambda _channel, _method, _properties, body: delivered.append(body))
    eventually(lambda: consumer.connection.process_data_events(0) or delivered == [b"one"])
    nodes[2].kill()
    eventually(lambda: consumer.connection.process_data_events(0) or cancelled == [tag], within=PATIENCE)
    connection = connect(nodes[1])
    refusal = eventually(lambda: refused(connection), within=PATIENCE)
    assert refusal.reply_code == 404
    assert "home node 'rabbit3@localhost' of durable queue 'kept'" in refusal.reply_text
    publisher = connection.channel()
    publisher.confirm_delivery()
    with pytest.raises(NackError):
        publisher.basic_publish("", "kept", b"two", PERSISTENT)
    nodes[2].start()
    nodes.until_whole()
    method, _, body = eventually(lambda: taken(nodes[1]))
    assert (body, method.redelivered) == (b"one", True)


def refused(connection: pika.BlockingConnection) -> ChannelClosedByBroker | None:
    """What this node says to a declare of the queue, once it knows that the queue is down."""
    channel = connection.channel()
    try:
        channel.queue_declare("kept", durable=True)
    except ChannelClosedByBroker as refusal:
        return refusal
    channel.close()
    return None


def taken(node: Node) -> tuple[object, ...] | None:
    connection = connect(node)
    try:
        found = connection.channel().basic_get("kept", auto_ack=True)
        return found if found[0] is not None else None
    except ChannelClosedByBroker:
        return None
    finally:
        connection.close()


def test_a_frozen_node_holds_up_no_one_and_is_back_by_itself(nodes: Nodes) -> None:
    home = connect(nodes[0]).channel()
    home.queue_declare("busy", durable=True)
    home.confirm_delivery()
    nodes[2].freeze()
    try:
        for number in range(50):
            home.basic_publish("", "busy", b"%d" % number, PERSISTENT)
        other = connect(nodes[1]).channel()
        other.queue_declare("meanwhile", durable=True)
        eventually(lambda: nodes[2].name not in nodes[0].sees(), within=PATIENCE)
    finally:
        nodes[2].thaw()
    nodes.until_whole()
    back = connect(nodes[2]).channel()
    assert back.queue_declare("busy", passive=True).method.message_count == 50
    assert back.queue_declare("meanwhile", passive=True).method.message_count == 0


def test_publishes_to_a_transient_queue_of_a_node_that_lost_its_lease_are_refused(nodes: Nodes) -> None:
    home, here = connect(nodes[2]), connect(nodes[1])
    own = home.channel()
    own.exchange_declare("topics", "topic", durable=True)
    own.queue_declare("passing", durable=False)
    for number in range(150):
        own.queue_bind("passing", "topics", f"k{number}")
    channel = here.channel()
    channel.confirm_delivery()
    nodes[2].freeze()
    with pytest.raises(NackError):
        channel.basic_publish("topics", "k149", b"refused")
    nodes[2].thaw()
    eventually(lambda: exists(nodes[1], "passing"), within=PATIENCE)
    eventually(lambda: _is_routed(nodes[1], "k149"), within=PATIENCE)


def _is_routed(node: Node, key: str) -> bool:
    connection = connect(node)
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        channel.basic_publish("topics", key, b"taken", mandatory=True)
    except (UnroutableError, NackError):
        return False
    finally:
        connection.close()
    return True


def test_a_node_that_nobody_hears_is_named_as_cut_off_also_when_its_lease_has_run_out(nodes: Nodes) -> None:
    def cluster(number: int) -> dict[str, Any]:
        told: dict[str, Any] = nodes[number].api("GET", "/api/cluster")
        return told

    frozen = nodes[2].name
    nodes[2].freeze()
    try:
        for number in (0, 1):
            eventually(lambda number=number: frozen not in cluster(number)["running"], within=PATIENCE)
            told = cluster(number)
            assert told["partitions"] == {nodes[number].name: [frozen]}
            assert partitions(told) == [f"Node {nodes[number].name} cannot communicate with {frozen}"]
    finally:
        nodes[2].thaw()
    for number in range(3):
        eventually(lambda number=number: not cluster(number)["partitions"] and len(cluster(number)["running"]) == 3)
