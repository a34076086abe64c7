"""The firehose: where a virtual host is traced, a copy of every message published or delivered in it goes to amq.rabbitmq.trace.

Rules
 1. Nothing is paid where nothing is traced: routes of a traced virtual host are special, so its publishes take the careful way,
    and the broker has a tracer only while some virtual host is traced.
 2. The routing key is `publish.EXCHANGE` or `deliver.QUEUE`; the body is the message's own; what else is known of it is in its
    headers.
 3. What comes from the trace exchange is not traced: it would never end.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.bindings import Envelope
from mirrormq.broker.channel import Channel
from mirrormq.broker.exchange import TRACE
from mirrormq.broker.forward.guests import GuestChannel
from mirrormq.broker.message import Message, address_of, build_content
from mirrormq.broker.queue import Queue
from mirrormq.broker.routing import route
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.properties import Properties, decode_properties, encode_properties
from mirrormq.wire.table import Table, Value

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


class Tracer:
    def __init__(self, broker: Broker) -> None:
        self.broker: Broker = broker

    def published(self, channel: Channel, vhost: VirtualHost, message: Message, keys: list[str], queues: list[Queue]) -> None:
        names: list[Value] = [queue.name for queue in queues]
        self._copy(vhost, "publish." + message.exchange(), channel, message, keys, "routed_queues", names)

    def delivered(self, queue: Queue, channel: Channel, message: Message) -> None:
        vhost = self.broker.vhosts.get(queue.vhost)
        if vhost is not None and vhost.tracing:
            flag: Value = 1 if message.redelivered else 0
            self._copy(vhost, "deliver." + queue.name, channel, message, [message.routing_key()], "redelivered", flag)

    def _copy(self, vhost: VirtualHost, key: str, channel: Channel, message: Message, keys: list[str], name: str,
              more: Value) -> None:
        exchange = vhost.exchanges.get(TRACE)
        if exchange is None or not exchange.is_bound() or message.exchange() == TRACE:
            return
        headers = self._headers(vhost, channel, message, keys)
        headers[name] = more
        publish_inside(self.broker, vhost, TRACE, key, headers, message.body(), None)

    def _headers(self, vhost: VirtualHost, channel: Channel, message: Message, keys: list[str]) -> Table:
        connection, user, number = _names(channel)
        routing_keys: list[Value] = [*keys]
        return {
            "exchange_name": message.exchange(), "routing_keys": routing_keys, "properties": _properties(message),
            "node": self.broker.node_name, "vhost": vhost.name, "connection": connection, "channel": number, "user": user,
        }  # fmt: skip


def _names(channel: Channel) -> tuple[str, str, int]:
    """The client's connection, user and channel number, on whichever node it is."""
    if isinstance(channel, GuestChannel):
        return channel.client_connection, channel.client_user, int(channel.client_number)
    user = channel.connection.user
    return channel.connection.name, "" if user is None else user.name, channel.number


def _properties(message: Message) -> Table:
    known = decode_properties(message.info.properties, 0)
    shown: Table = {}
    for name in Properties.FIELDS:
        value = getattr(known, name)
        if value is not None:
            shown[name] = value
    return shown


def publish_inside(broker: Broker, vhost: VirtualHost, exchange_name: str, key: str, headers: Table, body: bytes,
                   timestamp: int | None) -> None:
    """A message of the broker's own, to an exchange that clients cannot publish to. Nobody waits for it."""
    exchange = vhost.exchanges[exchange_name]
    key = key.encode("utf-8", "surrogateescape")[:255].decode("utf-8", "surrogateescape")
    head = encode_properties(Properties(headers=headers, timestamp=timestamp, delivery_mode=2))
    content = build_content(1, head, body, 131072)
    message = Message(content, address_of(exchange_name, key), broker.infos.get(head), len(body))
    for queue in route(exchange, Envelope([key], headers), vhost.exchanges.get, vhost.queues.get):
        if isinstance(queue, Queue):
            queue.publish(message.copy(), None)
    broker.schedule()
