"""Mirrored queues on real nodes: made, and looked at through the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.error import URLError

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from cluster.live.nodes import Node, Nodes
from compat.support import ApiError, quote
from compat.support import eventually as _eventually

SETTLED = 60.0          # seconds in which a ring is whole again: a restarted node, a full sync, a busy machine
PATIENT = "?heartbeat=0&socket_timeout=60&stack_timeout=120"     # of a client that is not meant to time out
PERSISTENT = pika.BasicProperties(delivery_mode=2)
T = TypeVar("T")


def eventually(predicate: Callable[[], T], within: float = SETTLED, every: float = 0.02) -> T:
    """As the one of all tests, with the patience that rings need."""
    return _eventually(predicate, within, every)


def connect(node: Node) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(node.url(query=PATIENT)))


@contextmanager
def channel_at(node: Node) -> Iterator[BlockingChannel]:
    """With confirms."""
    connection = connect(node)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        with suppress(AMQPError):
            connection.close()


def mirror(node: Node, pattern: str, *, policy: str = "", priority: int = 0, **definition: Any) -> None:
    """A policy for the queues of this pattern: all nodes unless it says otherwise; underscores stand for hyphens."""
    wanted = {name.replace("_", "-"): value for name, value in ({"ha_mode": "all"} | definition).items()}
    node.set_policy("/", policy or pattern, f"^{pattern}", wanted, apply_to="queues", priority=priority)


def declare(node: Node, queue: str, arguments: dict[str, Any] | None = None, **options: Any) -> None:
    with channel_at(node) as channel:
        channel.queue_declare(queue, arguments=arguments, **({"durable": True} | options))


def publish(node: Node, queue: str, *bodies: bytes, properties: pika.BasicProperties = PERSISTENT) -> None:
    with channel_at(node) as channel:
        for body in bodies:
            channel.basic_publish("", queue, body, properties, mandatory=True)


def count(node: Node, queue: str) -> int:
    with channel_at(node) as channel:
        return int(channel.queue_declare(queue, passive=True).method.message_count)


def look(node: Node, queue: str) -> dict[str, Any]:
    """The queue's row in the API, empty while there is none."""
    try:
        found: dict[str, Any] = node.api("GET", f"/api/queues/%2F/{quote(queue)}")
    except (ApiError, URLError, OSError):
        return {}
    return found


def leader_of(node: Node, queue: str) -> str:
    return str(look(node, queue).get("node", ""))


def another_leader(node: Node, queue: str, old: str) -> str:
    """Nobody while the old one leads, or none."""
    name = leader_of(node, queue)
    return "" if name == old else name


def members_of(node: Node, queue: str) -> list[str]:
    """Of its ring, as the leader knows it, which comes first; none while nobody leads. Who is lost is among them until the ring
    has changed."""
    try:
        ring = node.api("GET", f"/api/queues/%2F/{queue}/ring")
    except (ApiError, URLError, OSError):
        return []
    return [member["node"] for member in ring["members"]]


def standing(node: Node, queue: str) -> tuple[str, list[str], list[str]]:
    """Leader, mirrors, those in sync; each list sorted."""
    row = look(node, queue)
    return row.get("node", ""), sorted(row.get("slave_nodes", [])), sorted(row.get("synchronised_slave_nodes", []))


def until_in_sync(nodes: Nodes, *queues: str, copies: int = 0, within: float = SETTLED) -> None:
    """Each has its mirrors, and all of them are in sync; as every node sees it."""
    wanted = (copies or len(nodes.nodes)) - 1

    def is_whole(node: Node, queue: str) -> bool:
        row = look(node, queue)
        state = {key: row.get(key) for key in ("node", "slave_nodes", "synchronised_slave_nodes", "ring", "state", "messages")}
        assert row.get("state") != "down", f"{queue} is down"
        assert len(row.get("slave_nodes", [])) == len(row.get("synchronised_slave_nodes", [])) == wanted, json.dumps(state)
        return True

    for queue in queues:
        for node in nodes:
            if node.process is not None:
                eventually(lambda node=node, queue=queue: is_whole(node, queue), within=within, every=0.1)


def clear(node: Node) -> None:
    """No queue is left. One whose leader changes just now is deleted when it has one."""

    def is_clear() -> bool:
        rows = node.api("GET", "/api/queues/%2F")
        for row in rows:
            with suppress(ApiError):
                node.api("DELETE", f"/api/queues/%2F/{quote(row['name'])}")
        return not rows

    eventually(is_clear)


def named(nodes: Nodes, name: str) -> Node:
    return next(node for node in nodes if node.name == name)


def others(nodes: Nodes, *names: str) -> list[Node]:
    return [node for node in nodes if node.name not in names]
