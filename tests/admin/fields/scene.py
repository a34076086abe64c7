"""A small scene with traffic, played to RabbitMQ and to a node, and the shape of what their APIs say of it.

A shape is the fields of an answer with the types of their values: `message_stats.publish_details.rate: number`. Of a list it is
the shape of all its rows together. Tables that a client fills are not looked into.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pika

from compat.support import Broker, eventually, quote

VHOST: Final = "scene"
FREE: Final = ("client_properties", "arguments", "definition", "effective_policy_definition", "headers", "cluster_state", "value",
               "socket_opts", "metadata", "ra_open_file_metrics", "exchange_types", "applications", "cowboy_opts", "delta")
"""Tables whose keys are no fields."""
SAMPLES: Final = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5&data_rates_age=60&data_rates_incr=5"


@contextmanager
def played(broker: Broker) -> Iterator[dict[str, Any]]:
    """Publishers, consumers and gets, until the statistics have them. Yields the answers by name."""
    broker.add_vhost(VHOST)
    broker.set_policy(VHOST, "ha", "^ha", {"ha-mode": "all"}, apply_to="queues", priority=1)
    broker.api("PUT", f"/api/operator-policies/{VHOST}/op", {"pattern": "^ha", "definition": {"max-length": 10_000}})
    settings = pika.ConnectionParameters(broker.host, broker.port, virtual_host=VHOST, heartbeat=0)
    connection, reader = pika.BlockingConnection(settings), pika.BlockingConnection(settings)
    try:
        yield _answers(broker, connection, reader)
    finally:
        for each in (connection, reader):
            each.close()
        broker.delete_vhost(VHOST)


def _answers(broker: Broker, connection: pika.BlockingConnection, reader: pika.BlockingConnection) -> dict[str, Any]:
    channel, other = connection.channel(), reader.channel()
    channel.confirm_delivery()
    channel.exchange_declare("news", "topic", durable=True)
    for name in ("ha", "plain"):
        channel.queue_declare(name, durable=True, arguments={"x-max-priority": 3} if name == "plain" else None)
        channel.queue_bind(name, "news", "#")
    other.basic_qos(prefetch_count=5)
    other.basic_consume("ha", lambda channel, method, *_: channel.basic_ack(method.delivery_tag))
    until = time.monotonic() + 12
    while time.monotonic() < until:
        channel.basic_publish("news", "a.b", b"x", pika.BasicProperties(delivery_mode=2, timestamp=1_700_000_000))
        channel.basic_get("plain", auto_ack=True)
        reader.process_data_events(0.05)
        connection.process_data_events(0.05)
    eventually(lambda: broker.api("GET", f"/api/queues/{VHOST}/ha").get("message_stats", {}).get("ack"))
    return {name: broker.api("GET", path) for name, path in _paths(broker).items()}


def _paths(broker: Broker) -> dict[str, str]:
    named = broker.api("GET", f"/api/vhosts/{VHOST}/connections")[0]["name"]
    channel = broker.api("GET", f"/api/connections/{quote(named)}/channels")[0]["name"]
    node = broker.api("GET", "/api/overview")["node"]
    return {
        "overview": "/api/overview", "overview with samples": f"/api/overview?{SAMPLES}", "nodes": "/api/nodes",
        "node": f"/api/nodes/{node}", "queues": f"/api/queues/{VHOST}", "queue, mirrored": f"/api/queues/{VHOST}/ha",
        "queue with samples": f"/api/queues/{VHOST}/plain?{SAMPLES}", "exchanges": f"/api/exchanges/{VHOST}",
        "exchange": f"/api/exchanges/{VHOST}/news", "bindings": f"/api/bindings/{VHOST}",
        "connections": f"/api/vhosts/{VHOST}/connections", "connection": f"/api/connections/{quote(named)}",
        "channels": f"/api/vhosts/{VHOST}/channels", "channel": f"/api/channels/{quote(channel)}",
        "consumers": f"/api/consumers/{VHOST}", "policies": f"/api/policies/{VHOST}",
        "operator policies": f"/api/operator-policies/{VHOST}", "vhosts": "/api/vhosts", "vhost": f"/api/vhosts/{VHOST}",
        "permissions": "/api/permissions", "users": "/api/users", "page of queues": f"/api/queues/{VHOST}?page=1",
        "memory": f"/api/nodes/{node}/memory", "whoami": "/api/whoami",
    }  # fmt: skip


# --- shapes -----------------------------------------------------------------------------------------------------------


def shape(answer: Any) -> dict[str, str]:
    """Types of fields; several types of one field are joined by a bar, nothing at all says nothing of a type."""
    found: dict[str, set[str]] = {}
    _walk(answer, "", found)
    return {name: "|".join(sorted(kinds - {"null"})) or "null" for name, kinds in sorted(found.items())}


def _walk(value: Any, name: str, found: dict[str, set[str]]) -> None:
    if name:
        found.setdefault(name, set()).add(_kind(value))
    if isinstance(value, dict) and name.rpartition(".")[2].removesuffix("[]") not in FREE:
        for key, inner in value.items():
            _walk(inner, f"{name}.{key}" if name else key, found)
    elif isinstance(value, list) and name.rpartition(".")[2] not in FREE:
        for inner in value:
            if isinstance(inner, dict):
                _walk(inner, f"{name}[]" if name else "[]", found)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "string", int: "number", float: "number", list: "list", dict: "object"}
    return kinds[type(value)]
