"""Support for the lake's tests: a node, messages in its queues, and what its feed tells."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from compat.support import ServerProcess, quote
from mirror.live.rings import PATIENT, eventually
from mirrormq.lake.client import Address, Feed, FeedClient
from mirrormq.lake.engine import find_java
from mirrormq.lake.errors import LakeError
from mirrormq.lake.ranges import Range, read_range
from mirrormq.lake.schema import EVENTS

KEPT = pika.BasicProperties(delivery_mode=2)


REQUIRED = os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1"


def need_java() -> None:
    """Skips where no Java works, unless everything is required."""
    try:
        find_java()
    except LakeError as missing:
        if REQUIRED:
            pytest.fail(missing.sentence)
        pytest.skip(missing.sentence)


class Node(ServerProcess):
    def lake_url(self, user: str = "guest", password: str = "") -> str:
        return f"http://{quote(user)}:{quote(password or user)}@{self.host}:{self.http_port}"

    def address(self, vhost: str, user: str = "guest", password: str = "", patience: float = 20.0) -> Address:
        return Address.parse(self.lake_url(user, password), vhost, patience=patience)

    def client(self, vhost: str, user: str = "guest", password: str = "", patience: float = 20.0) -> FeedClient:
        return FeedClient(self.address(vhost, user, password, patience))

    def crash(self) -> None:
        """kill -9, and up again. Meanwhile somebody's outgoing connection may have its port for a moment."""
        self.kill()
        for _ in range(20):
            try:
                self.start()
            except RuntimeError:
                self.process = None
                time.sleep(1.0)
            except AssertionError:
                eventually(self._serves, within=180.0)      # a long log on a busy machine
                return
            else:
                return
        raise AssertionError(self.log())

    @contextlib.contextmanager
    def channel(self, vhost: str) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.URLParameters(self.url(vhost, query=PATIENT)))
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel
        finally:
            if connection.is_open:
                connection.close()


def address_of(*nodes: ServerProcess) -> Address:
    """Of a cluster, by several of its nodes."""
    return Address.parse(",".join(f"http://guest:guest@{node.host}:{node.http_port}" for node in nodes))


def start_node(directory: Path) -> Node:
    node = Node(directory)
    node.start()
    return node


def fill(channel: Any, queue: str, count: int, properties: pika.BasicProperties = KEPT, first: int = 0) -> list[bytes]:
    """So many messages into a durable queue, in one transaction; returns their bodies."""
    channel.queue_declare(queue, durable=True)
    bodies = [f"message {number}".encode() for number in range(first, first + count)]
    with channel.connection.channel() as bulk:
        bulk.tx_select()
        for body in bodies:
            bulk.basic_publish("", queue, body, properties)
        bulk.tx_commit()
    return bodies


def settle(channel: Any, queue: str, count: int) -> list[bytes]:
    """Get so many messages and acknowledge each."""
    bodies: list[bytes] = []
    for _ in range(count):
        method, _, body = channel.basic_get(queue)
        channel.basic_ack(method.delivery_tag)
        bodies.append(body)
    channel.queue_declare(queue, passive=True)          # the last of them has arrived
    return bodies


def patiently(run: Callable[[], object]) -> None:
    """Spark gives a worker of a stream ten seconds to start, which no setting changes: on a busy machine that is too short."""
    for _ in range(3):
        try:
            run()
        except StreamingQueryException as problem:
            if "failed to connect" not in str(problem):
                raise
        else:
            return
    run()


def quiet(client: FeedClient, pattern: str = ".*") -> list[Feed]:
    """The feeds once nothing more becomes stable: all that is in the logs is, and it stays so for a while."""
    seen: list[list[Feed]] = []

    def is_quiet() -> list[Feed]:
        seen.append(client.feeds(pattern))
        time.sleep(0.7)
        return seen[-1] if client.feeds(pattern) == seen[-1] and all(is_settled(client, feed) for feed in seen[-1]) else []

    return eventually(is_quiet)


def is_settled(client: FeedClient, feed: Feed) -> bool:
    """What its leader has written can be read."""
    path = f"/api/queues/{quote(feed.vhost)}/{quote(feed.name)}/ring"
    return bool(client.ask("GET", path, {}).json()["end"] < feed.end)


def entries(client: FeedClient, feed: Feed, first: int = 1, upto: int = 0, schema: pa.Schema = EVENTS) -> list[dict[str, Any]]:
    part = Range(feed.vhost, feed.name, feed.id, first, upto or feed.end)
    batches = list(read_range(client, part, schema))
    return pa.Table.from_batches(batches, schema).to_pylist() if batches else []
