"""What the queues and connections of a virtual host have counted, added up.

It is done when somebody asks, so that nothing has to be kept up to date while messages flow; and here, not in the API that tells
it, because this is compiled: thousands of queues take a small part of a millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.queue import Queue


class Sums:
    def __init__(self) -> None:
        self.ready: i64 = 0
        self.held: i64 = 0
        self.consumers: i64 = 0
        self.acknowledged: i64 = 0
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.redelivered: i64 = 0
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        self.received_bytes: i64 = 0
        self.sent_bytes: i64 = 0

    def add_queues(self, broker: Broker, queues: list[Queue]) -> None:
        """Those that this node serves: others are known by the way to them, and added up where they are."""
        for queue in queues:
            if not queue.is_away:
                self.add_queue(queue)
            else:
                here = broker.serving(queue)
                if here is not None:
                    self.add_queue(here)

    def add_queue(self, queue: Queue) -> None:
        self.ready += queue.backlog.count
        self.held += queue.held
        self.consumers += len(queue.turns.everyone)
        self.acknowledged += queue.acknowledged
        self.delivered += queue.delivered
        self.delivered_no_ack += queue.delivered_no_ack
        self.got += queue.got
        self.got_no_ack += queue.got_no_ack
        self.redelivered += queue.redelivered

    def add_connection(self, connection: Connection) -> None:
        self.received_bytes += connection.received_bytes
        self.sent_bytes += connection.sent_bytes
        for channel in connection.channels.values():
            self.published += channel.published
            self.confirmed += channel.confirmed
            self.returned += channel.returned
            self.dropped += channel.dropped


def add_connections(by_vhost: dict[str, Sums], connections: list[Connection]) -> None:
    """To the sums of their virtual hosts, as far as these are wanted."""
    for connection in connections:
        vhost = connection.vhost
        if vhost is not None:
            sums = by_vhost.get(vhost.name)
            if sums is not None:
                sums.add_connection(connection)
