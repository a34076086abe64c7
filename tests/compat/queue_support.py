"""Helpers of the queue and consumer tests: publish, read back, collect deliveries, expect refusals.

A delivery is reduced to the fields that tests compare. What must not happen can only be seen by waiting; `quiet` is
the one place that does. `control` restarts or kills an external broker through the command that
`MIRRORMQ_COMPAT_CONTROL` names (called with `restart` or `kill`; it must return when the broker serves again).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pika
import pika.exceptions

from .support import PATIENCE, Broker, eventually

CONTROL = os.environ.get("MIRRORMQ_COMPAT_CONTROL", "")
METADATA_WRITTEN = 3.0
QUIET = 0.3
PERSISTENT = 2
REPLY_TO = "amq.rabbitmq.reply-to"


class Delivery(NamedTuple):
    tag: int
    body: bytes
    redelivered: bool
    consumer: str
    exchange: str
    key: str
    properties: Any

    @property
    def headers(self) -> dict[str, Any]:
        return self.properties.headers or {}


class Inbox:
    """What the consumers that it started on a channel received, in order of arrival."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.deliveries: list[Delivery] = []
        self.cancelled: list[str] = []
        channel.add_on_cancel_callback(lambda frame: self.cancelled.append(frame.method.consumer_tag))

    def consume(self, queue: str, **options: Any) -> str:
        return str(self.channel.basic_consume(queue, self._receive, **options))

    def wait(self, count: int, within: float = PATIENCE) -> list[Delivery]:
        """The deliveries so far, at least this many."""
        deadline = time.monotonic() + within
        while len(self.deliveries) < count:
            assert time.monotonic() < deadline, f"{len(self.deliveries)} of {count} deliveries: {self.deliveries}"
            self.pump()
        return self.deliveries

    def take(self, count: int = 1) -> list[Delivery]:
        """Wait for exactly this many deliveries and forget them; more must not have arrived."""
        taken = self.wait(count)
        assert len(taken) == count, taken
        self.deliveries = []
        return taken

    def one(self) -> Delivery:
        return self.take(1)[0]

    def pump(self) -> None:
        self.channel.connection.process_data_events(0.02)

    def wait_cancelled(self, *tags: str) -> None:
        """Until the broker has cancelled exactly these consumers."""
        deadline = time.monotonic() + PATIENCE
        while sorted(self.cancelled) != sorted(tags):
            assert time.monotonic() < deadline, f"cancelled {self.cancelled} and not {tags}"
            self.pump()

    def quiet(self, seconds: float = QUIET) -> bool:
        """True if nothing arrives for a while and nothing was left to take."""
        self.channel.connection.process_data_events(0)
        self.channel.connection.sleep(seconds)
        return not self.deliveries

    def ack(self, *deliveries: Delivery) -> None:
        for delivery in deliveries:
            self.channel.basic_ack(delivery.tag)

    def _receive(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.deliveries.append(_delivery(method, properties, body, method.consumer_tag))


def _delivery(method: Any, properties: Any, body: bytes, consumer: str = "") -> Delivery:
    key, exchange = method.routing_key, method.exchange
    return Delivery(method.delivery_tag, body, method.redelivered, consumer, exchange, key, properties)


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [delivery.body for delivery in deliveries]


def numbered(count: int, start: int = 1) -> list[bytes]:
    return [str(number).encode() for number in range(start, start + count)]


def publish(channel: Any, queue: str, *messages: bytes, exchange: str = "", **properties: Any) -> None:
    for body in messages or (b"m",):
        channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties))


def place(connection: Any, queue: str, *messages: bytes, **properties: Any) -> None:
    """Publish and wait for the confirms: when this returns, the queue has had them, and their time to live runs."""
    channel = confirming(connection)
    publish(channel, queue, *messages, **properties)
    channel.close()


def get(channel: Any, queue: str, *, auto_ack: bool = False) -> Delivery | None:
    method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
    return None if method is None else _delivery(method, properties, body)


def fetch(channel: Any, queue: str, *, auto_ack: bool = True, within: float = PATIENCE) -> Delivery:
    """basic.get until there is a message."""
    found = eventually(lambda: get(channel, queue, auto_ack=auto_ack), within)
    assert found is not None
    return found


def drain(channel: Any, queue: str) -> list[Delivery]:
    """basic.get with automatic ack until the queue is empty."""
    found: list[Delivery] = []
    while message := get(channel, queue, auto_ack=True):
        found.append(message)
    return found


def contents(channel: Any, queue: str) -> list[bytes]:
    return bodies(drain(channel, queue))


def reject(channel: Any, queue: str) -> None:
    """Take the next message of the queue and reject it for good."""
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)


def marks(deliveries: list[Delivery]) -> list[tuple[bytes, bool]]:
    return [(delivery.body, delivery.redelivered) for delivery in deliveries]


def unknown_tag(tag: int) -> str:
    return f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def hold(channel: Any, queue: str, count: int) -> list[Delivery]:
    """basic.get this many messages and leave them unacknowledged."""
    return [fetch(channel, queue, auto_ack=False) for _ in range(count)]


def ready(channel: Any, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def consumers(channel: Any, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.consumer_count)


def wait_ready(channel: Any, queue: str, count: int, within: float = PATIENCE) -> None:
    eventually(lambda: ready(channel, queue) == count, within)


def wait_consumers(channel: Any, queue: str, count: int) -> None:
    eventually(lambda: consumers(channel, queue) == count)


def exists(connection: Any, queue: str) -> bool:
    """Whether a passive declare finds the queue, on a channel of its own."""
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as refusal:
        if refusal.reply_code != 404:
            raise
        return False
    channel.close()
    return True


def wait_gone(connection: Any, queue: str) -> None:
    eventually(lambda: not exists(connection, queue))


@contextmanager
def refused(channel: Any, code: int, text: str) -> Iterator[None]:
    """The block, followed by a round trip, must end in a close by the broker with exactly this code and text."""
    answer: tuple[int, str] | None = None
    try:
        yield
        channel.basic_qos(prefetch_count=0)
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as closed:
        answer = (closed.reply_code, closed.reply_text)
    assert answer == (code, text)


def locked(queue: str, vhost: str) -> str:
    """What a client reads that touches an exclusive queue of another connection."""
    return shortened(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. It could be "
        "originally declared on another connection or the exclusive property value does not match that of the "
        "original declaration."
    )


def shortened(text: str) -> str:
    """A reply text as it fits into a short string."""
    return text if len(text) <= 255 else text[:252] + "..."


def confirmed(channel: Any, queue: str, body: bytes = b"m", exchange: str = "", **properties: Any) -> bool:
    """Publish on a channel in confirm mode: True for an ack, False for a nack."""
    try:
        channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties))
    except pika.exceptions.NackError:
        return False
    return True


def confirming(connection: Any) -> Any:
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def death(message: Delivery, index: int = 0) -> dict[str, Any]:
    """One entry of x-death."""
    return dict(message.headers["x-death"][index])


def deaths(message: Delivery) -> list[tuple[str, str, int]]:
    """x-death as (queue, reason, count) in its order."""
    return [(entry["queue"], entry["reason"], entry["count"]) for entry in message.headers["x-death"]]


def control(broker: Broker, action: str) -> None:
    """Restart (`restart`) or kill and start again (`kill`) the broker."""
    if broker.external and CONTROL:
        # RabbitMQ answers a declare up to two seconds before it writes it down: a kill in between loses the queue.
        time.sleep(METADATA_WRITTEN if action == "kill" else 0)
        subprocess.run([*CONTROL.split(), action], check=True, timeout=180)
        eventually(lambda: _answers(broker))
    elif action == "restart":
        broker.restart()
    else:
        broker.kill()
        broker.start()


def _answers(broker: Broker) -> bool:
    try:
        return bool(broker.api("GET", "/api/overview"))
    except OSError:
        return False


def reconnect(connect: Callable[..., Any]) -> Any:
    """A channel on a new connection, as soon as the broker accepts one."""
    return eventually(lambda: _try_connect(connect)).channel()


def _try_connect(connect: Callable[..., Any]) -> Any:
    try:
        return connect()
    except (pika.exceptions.AMQPError, OSError):
        return None
