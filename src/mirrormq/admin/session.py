"""What the HTTP API does in a virtual host is done on a channel of the broker, as the caller's own client would do it.

So permissions, checks and texts are the broker's own. The channel belongs to no socket: what the broker sends on it is
dropped, and what it held goes back to its queues when the session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Self

from mirrormq.admin.errors import bad_request
from mirrormq.broker.auth import User
from mirrormq.broker.broker import Broker
from mirrormq.broker.channel import CONFIRM, Channel, Delivery
from mirrormq.broker.connection import RUNNING, Connection
from mirrormq.broker.dispatch import dispatch
from mirrormq.broker.message import build_content
from mirrormq.broker.peer import Peer, Transport
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.methods import BasicGet, BasicGetOk, BasicPublish, Method
from mirrormq.wire.properties import Properties, encode_properties

CHANNEL: Final = 1


class _Drain(Transport):
    """Takes what the broker writes, and tells that something was written."""

    def __init__(self) -> None:
        self.written = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.written.set()

    def close(self) -> None:
        self.written.set()

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


class _Hearing(Channel):
    """Keeps of the broker's answers how many messages are left in the queue, wherever it is."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, CHANNEL)
        self.left = 0

    def send(self, method: Method) -> None:
        if isinstance(method, BasicGetOk):
            self.left = method.message_count
        super().send(method)


class Session:
    def __init__(self, broker: Broker, user: User, vhost: VirtualHost) -> None:
        self._drain = _Drain()
        peer = Peer("127.0.0.1", 0, "127.0.0.1", 0, is_loopback=True)
        self._connection = Connection(broker, self._drain, peer)
        self._connection.user = user
        self._connection.vhost = vhost
        self._connection.state = RUNNING
        self._channel = _Hearing(self._connection)
        self._connection.channels[CHANNEL] = self._channel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.end("done")

    async def do(self, method: Method) -> None:
        """AMQPError if the broker refuses, at once or after the cluster was asked."""
        channel = self._channel
        self._begin(method)
        dispatch(channel, method, encoded(method.encode))
        while channel.is_suspended and not channel.is_closing:
            channel.connection.broker.schedule()
            await self._news()
        if self._connection.last_error is not None:
            raise self._connection.last_error

    def _begin(self, method: Method) -> None:
        self._connection.current = CHANNEL
        self._connection.current_method = method.id

    async def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        """Whether a queue has it, which is then stable there."""
        broker, channel = self._connection.broker, self._channel
        channel.mode = CONFIRM
        key = encoded(BasicPublish(exchange, routing_key, mandatory=True).encode)
        head = encoded(lambda: encode_properties(properties))
        content = build_content(CHANNEL, head, body, self._connection.frame_max)
        channel.publish(key, broker.infos.get(head), content, len(body))
        barrier = channel.barrier
        assert barrier is not None
        broker.schedule()
        while channel.confirmed < 1:
            await self._news()
        return channel.returned == 0 and not barrier.refused and not barrier.is_lost

    async def get(self, queue: str) -> Delivery | None:
        """The next message, held until it is settled or the session ends. It may have to become stable first."""
        channel = self._channel
        tag = channel.next_tag
        await self.do(BasicGet(queue))
        return channel.unacked.get(tag)

    @property
    def left(self) -> int:
        """How many messages the queue had after the last `get`."""
        return self._channel.left

    async def _news(self) -> None:
        """Until the broker has written something. Nothing is lost between a look and this: both are in one turn."""
        self._drain.written.clear()
        await self._drain.written.wait()

    def settle(self, *, requeue: bool, reject: bool) -> None:
        """Everything that `get` took: back to the queue, rejected, or acknowledged."""
        taken = self._channel.take(0, multiple=True)
        if requeue or reject:
            self._channel.turn_away(taken, requeue=requeue)
        else:
            self._channel.acknowledge(taken)


def encoded(encode: Callable[[], bytes]) -> bytes:
    """As it would go over the wire. What JSON can say, and AMQP cannot, is the caller's mistake."""
    try:
        return encode()
    except (ValueError, OverflowError):         # a name, key or text that is too long, or no text at all
        raise bad_request("a name, a routing key and the name of a header have at most 255 bytes") from None
