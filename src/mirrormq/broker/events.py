"""What happens in the broker, as messages: each event goes to the exchange amq.rabbitmq.event, whose key is the event's name.

The names and headers are RabbitMQ's; the body is empty. Nothing is put together while nothing is bound to the exchange.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.tracing import publish_inside
from mirrormq.wire.table import Table, Value

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.consumer import Consumer

EVENT: Final = "amq.rabbitmq.event"
HOME: Final = "/"


class Events:
    def __init__(self, broker: Broker) -> None:
        self.broker: Broker = broker
        self.vhost: str = HOME

    def is_heard(self) -> bool:
        vhost = self.broker.vhosts.get(self.vhost)
        if vhost is None:
            return False
        exchange = vhost.exchanges.get(EVENT)
        return exchange is not None and exchange.is_bound()

    def tell(self, name: str, about: Table) -> None:
        """Look first whether anybody hears it."""
        vhost = self.broker.vhosts.get(self.vhost)
        if vhost is not None and EVENT in vhost.exchanges:
            at = int(self.broker.wall())
            about["timestamp_in_ms"] = at
            publish_inside(self.broker, vhost, EVENT, name, about, b"", at // 1000)

    # --- clients ------------------------------------------------------------------------------------------------

    def connection(self, name: str, connection: Connection) -> None:
        if self.is_heard():
            self.tell(name, about_connection(connection))

    def channel(self, name: str, channel: Channel) -> None:
        connection = channel.connection
        if connection.received_count and self.is_heard():       # what the HTTP API does on a channel is no client's
            about: Table = {"name": f"{connection.name} ({channel.number})", "connection": connection.name,
                            "number": channel.number, "user": _user(connection), "vhost": _vhost(connection)}
            self.tell(name, about)

    def consumer(self, name: str, consumer: Consumer) -> None:
        if self.is_heard():
            connection = consumer.channel.connection
            about: Table = {
                "consumer_tag": consumer.tag, "queue": consumer.queue.name, "vhost": consumer.queue.vhost,
                "exclusive": consumer.exclusive, "ack_required": not consumer.no_ack, "prefetch_count": int(consumer.limit),
                "arguments": consumer.arguments, "channel": f"{connection.name} ({consumer.channel.number})",
                "user_who_performed_action": _user(connection),
            }  # fmt: skip
            self.tell(name, about)


def about_connection(connection: Connection) -> Table:
    peer = connection.peer
    given: Value = connection.client_properties
    return {
        "name": connection.name, "user": _user(connection), "vhost": _vhost(connection), "protocol": "{0,9,1}", "type": "network",
        "peer_host": peer.host, "peer_port": int(peer.port), "auth_mechanism": connection.mechanism,
        "connected_at": int(connection.connected_at), "client_properties": given, "node": connection.broker.node_name,
    }  # fmt: skip


def _user(connection: Connection) -> str:
    return "" if connection.user is None else connection.user.name


def _vhost(connection: Connection) -> str:
    return "" if connection.vhost is None else connection.vhost.name
