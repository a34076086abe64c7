"""The firehose and the event exchange, as a client hears them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from compat.support import eventually, unique

from .conftest import Connect
from .support import Node, quote

pytestmark = pytest.mark.live
Heard = tuple[str, dict[str, Any], bytes]


def hear(channel: BlockingChannel, queue: str, count: int = 0, *, upto: str = "") -> list[Heard]:
    """The next messages of a queue, so many or up to one with this key: key, headers, body."""
    heard: list[Heard] = []

    def more() -> Any:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            heard.append((method.routing_key, properties.headers, body))
        return heard[-1:] and heard[-1][0] == upto if upto else len(heard) >= count

    eventually(more)
    return heard


@pytest.fixture
def channel(connect: Connect) -> BlockingChannel:
    return connect().channel()


def trace_queue(channel: BlockingChannel, key: str = "#") -> str:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.rabbitmq.trace", key)
    return str(queue)


# --- the firehose -----------------------------------------------------------------------------------------------------


def test_what_is_published_and_delivered_is_copied_while_tracing_is_on(node: Node, vhost: str, channel: BlockingChannel):
    traces = trace_queue(channel)
    channel.queue_declare("work")
    channel.queue_bind("work", "amq.direct", "key")
    channel.basic_publish("amq.direct", "key", b"before")
    assert node.ctl("trace_on", "-p", vhost).code == 0
    channel.basic_publish("amq.direct", "key", b"traced", pika.BasicProperties(content_type="text/plain", headers={"a": 1}))
    channel.basic_get("work", auto_ack=True)
    (key, headers, body), (delivered, more, first) = hear(channel, traces, 2)
    assert (key, body) == ("publish.amq.direct", b"traced")
    assert headers["exchange_name"] == "amq.direct"
    assert headers["routing_keys"] == ["key"]
    assert headers["routed_queues"] == ["work"]
    assert headers["properties"] == {"content_type": "text/plain", "headers": {"a": 1}}
    assert (headers["user"], headers["vhost"], headers["node"], headers["channel"]) == ("guest", vhost, node.name, 1)
    assert (delivered, first, more["redelivered"]) == ("deliver.work", b"before", 0)
    assert node.ctl("trace_off", "-p", vhost).code == 0
    channel.basic_publish("amq.direct", "key", b"after")
    assert channel.queue_declare("work", passive=True).method.message_count == 2
    assert channel.queue_declare(traces, passive=True).method.message_count == 0


def test_deliveries_to_consumers_are_traced_and_traces_are_not(node: Node, vhost: str, connect: Connect):
    channel, other = connect().channel(), connect().channel()
    traces = trace_queue(channel, "deliver.#")
    everything = trace_queue(channel)
    node.ctl("trace_on", "-p", vhost)
    other.queue_declare("work")
    got: list[bytes] = []
    other.basic_consume("work", lambda *message: got.append(message[3]), auto_ack=True)
    for number in range(3):
        other.basic_publish("", "work", b"%d" % number)
    eventually(lambda: other.connection.process_data_events(0.05) or len(got) == 3)
    assert [(key, body) for key, _, body in hear(channel, traces, 3)] == [("deliver.work", b"%d" % at) for at in range(3)]
    assert {key for key, _, _ in hear(channel, everything, 6)} == {"publish.", "deliver.work"}
    for queue in (traces, everything):
        assert channel.queue_declare(queue, passive=True).method.message_count == 0
    node.ctl("trace_off", "-p", vhost)


def test_confirms_and_returns_hold_while_traced(node: Node, vhost: str, channel: BlockingChannel):
    trace_queue(channel)
    node.ctl("trace_on", "-p", vhost)
    channel.confirm_delivery()
    channel.queue_declare("sure")
    channel.basic_publish("", "sure", b"x", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"x", mandatory=True)
    node.ctl("trace_off", "-p", vhost)


# --- the event exchange ------------------------------------------------------------------------------------------------


@pytest.fixture
def events(node: Node) -> Iterator[tuple[BlockingChannel, str]]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port, heartbeat=0))
    channel = connection.channel()
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    yield channel, queue
    connection.close()


def listen(events: tuple[BlockingChannel, str], *keys: str) -> None:
    for key in keys:
        events[0].queue_bind(events[1], "amq.rabbitmq.event", key)


def test_queues_exchanges_and_bindings_make_events(node: Node, vhost: str, events: tuple[BlockingChannel, str], connect: Connect):
    channel = connect().channel()
    listen(events, "queue.#", "exchange.#", "binding.#")
    channel.queue_declare("told", durable=True, arguments={"x-max-length": 5})
    channel.exchange_declare("news", "fanout")
    channel.queue_bind("told", "news", "key")
    channel.exchange_delete("news")
    channel.queue_delete("told")
    heard = [item for item in hear(*events, upto="queue.deleted") if item[1].get("vhost") == vhost]
    assert [key for key, _, _ in heard] == [
        "queue.created", "exchange.created", "binding.created", "binding.deleted", "exchange.deleted",
        "queue.deleted"]
    made = heard[0][1]
    assert (made["name"], made["durable"], made["arguments"]) == ("told", True, {"x-max-length": 5})
    assert made["timestamp_in_ms"] > 1_600_000_000_000
    assert (heard[2][1]["source_name"], heard[2][1]["destination_name"]) == ("news", "told")


def test_clients_make_events(vhost: str, events: tuple[BlockingChannel, str], connect: Connect):
    listen(events, "connection.#", "channel.#", "consumer.#", "user.authentication.#")
    connection = connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))
    connection.close()
    heard = {key: headers for key, headers, _ in hear(*events, 7)}
    assert set(heard) == {"user.authentication.success", "connection.created", "channel.created", "consumer.created",
                          "consumer.deleted", "channel.closed", "connection.closed"}
    assert (heard["connection.created"]["user"], heard["connection.created"]["vhost"]) == ("guest", vhost)
    assert heard["consumer.created"]["queue"] == queue
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect("nobody")
    assert hear(*events, 1)[0][0] == "user.authentication.failure"


def test_rules_make_events_without_secrets(node: Node, events: tuple[BlockingChannel, str]):
    listen(events, "user.created", "user.deleted", "user.tags.set", "vhost.*", "policy.*", "permission.*", "parameter.*")
    name = unique("told")
    node.add_user(name, "a secret", "monitoring")
    node.add_user(name, "another", "management")
    node.add_vhost(name)
    node.set_policy(name, "p", ".*", {"max-length": 5})
    node.clear_policy(name, "p")
    node.ask("DELETE", f"/api/vhosts/{quote(name)}")
    node.ask("DELETE", f"/api/users/{quote(name)}")
    heard = [item for item in hear(*events, upto="user.deleted") if name in (item[1].get("name"), item[1].get("vhost"))]
    keys = [key for key, _, _ in heard]
    assert keys[:4] == ["user.created", "user.tags.set", "vhost.created", "permission.created"]
    assert {"policy.set", "policy.cleared", "vhost.deleted", "user.deleted"} <= set(keys)
    assert all("hash" not in headers for _, headers, _ in heard)
