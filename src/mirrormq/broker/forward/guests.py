"""Another node's clients at the queues of this node.

Rules
 1. All of them are gathered under one `GuestConnection` for each session; it is full while the link cannot take more.
 2. A guest consumer takes its turn among all others. It has room while its prefetch, its channel's limit and its credit last.
 3. What was delivered is remembered by tag with its queue (`Stay`), whatever channel it went to: acknowledgements come as ranges.
 4. When the session ends, or a channel leaves, all that was delivered and not settled goes back to its queue.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.channel import Channel, rotated
from mirrormq.broker.connection import RUNNING, Connection
from mirrormq.broker.consumer import Consumer
from mirrormq.broker.forward.away import COST, WINDOW, AwayConsumer
from mirrormq.broker.forward.codec import CANCELLED, CONSUMER_ID, DELIVER, DELIVERY, REDELIVERED, SAME
from mirrormq.broker.message import Message
from mirrormq.broker.peer import Peer, Transport
from mirrormq.broker.queue import Queue
from mirrormq.wire.methods import Method
from mirrormq.wire.table import Value

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.forward.port import PeerPort

CLOGGED: Final = 2 << 20        # octets that the link has not sent yet, above which nothing is delivered into it
BATCH: Final = 1 << 20          # or that one turn has gathered


class Nowhere(Transport):
    """A guest's socket is at its own node."""

    def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written to a guest's socket here")

    def close(self) -> None:
        return

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


class GuestDelivery:
    def __init__(self, message: Message, consumer: GuestConsumer | None, channel: GuestChannel) -> None:
        self.message: Message = message
        self.consumer: GuestConsumer | None = consumer      # None for what basic.get took
        self.channel: GuestChannel = channel


class Stay:
    """One node's guests at one queue: what they hold, by tag."""

    def __init__(self, queue: Queue) -> None:
        self.queue: Queue = queue
        self.unacked: dict[int, GuestDelivery] = {}
        self.next_tag: i64 = 1
        self.is_over: bool = False      # what was asked for under it is asked for again, or by nobody any more

    def rise_above(self, floor: i64) -> None:
        """Tags go on above what an earlier session gave, so that an old acknowledgement hits nothing."""
        if self.next_tag <= floor:
            self.next_tag = floor + 1

    def lend(self, message: Message, consumer: GuestConsumer | None, channel: GuestChannel) -> i64:
        tag = self.next_tag
        self.next_tag = tag + 1
        self.unacked[tag] = GuestDelivery(message, consumer, channel)
        channel.lent += 1
        if consumer is not None:
            channel.held += 1
            consumer.unacked += 1
        return tag

    def take(self, tag: i64) -> GuestDelivery | None:
        delivery = self.unacked.pop(tag, None)
        if delivery is not None:
            delivery.channel.lent -= 1
            consumer = delivery.consumer
            if consumer is not None:
                delivery.channel.held -= 1
                consumer.unacked -= 1
        return delivery

    def requeue_of(self, channel: GuestChannel | None) -> None:
        """What this channel holds, or everything."""
        for tag in sorted(self.unacked):
            if channel is None or self.unacked[tag].channel is channel:
                delivery = self.take(tag)
                assert delivery is not None
                self.queue.requeue(delivery.message)


class GuestConsumer(Consumer):
    def __init__(self, channel: GuestChannel, stay: Stay, tag: str, id: i64, *, no_ack: bool, exclusive: bool,
                 priority: int, limit: int, arguments: dict[str, Value]) -> None:
        super().__init__(channel, stay.queue, tag, no_ack=no_ack, exclusive=exclusive, priority=priority, limit=limit,
                         arguments=arguments)
        self.id: i64 = id
        self.stay: Stay = stay
        self.guest: GuestChannel = channel
        self.here: AwayConsumer | None = None       # of a client of this very node
        self.credit: i64 = WINDOW       # the last message may go beyond it, so the largest fits a whole window

    def is_ready(self) -> bool:
        here = self.here
        if here is not None and not here.is_ready():
            return False
        return self.credit > 0 and super().is_ready()


class GuestConnection(Connection):
    """All of one node's clients in one session. It gathers deliveries for the link."""

    def __init__(self, broker: Broker, port: PeerPort) -> None:
        super().__init__(broker, Nowhere(), Peer(port.name, 0, broker.node_name, 0, is_loopback=False))
        self.name = port.name
        self.state = RUNNING
        self.port: PeerPort | None = port
        self.guests: dict[int, GuestChannel] = {}
        self.consumers: dict[int, GuestConsumer] = {}
        self.pieces: list[bytes] = []
        self.gathered: i64 = 0
        self.address: bytes = b""       # of the last message gathered; no message has an empty one
        self.is_here: bool = False      # its clients are this node's own
        self.forgotten: dict[int, list[int]] = {}       # of auto-delete queues that stopped leading here, until RESTART

    def forget(self, log_id: int, consumer: int) -> None:
        self.forgotten.setdefault(log_id, []).append(consumer)

    def deliver(self, consumer: GuestConsumer, tag: i64, message: Message) -> None:
        content = message.content
        address = message.address
        length: i64 = len(content)
        pieces = self.pieces
        flags = REDELIVERED if message.redelivered else 0
        if address is self.address or address == self.address:
            pieces.append(DELIVERY.pack(consumer.id, tag, flags, SAME, message.size, length))
        else:
            self.address = address
            pieces.append(DELIVERY.pack(consumer.id, tag, flags, len(address), message.size, length))
            pieces.append(address)
        pieces.append(content)
        consumer.credit -= length + COST
        self.gathered += length + COST
        if self.gathered > BATCH:
            self.is_full = True

    def send_deliveries(self) -> None:
        pieces = self.pieces
        if pieces:
            self.pieces = []
            self.gathered = 0
            self.address = b""
            port = self.port
            if port is not None:
                port.send(DELIVER, b"".join(pieces))
                self.is_full = self.is_full or port.waiting() > CLOGGED

    def unclog(self) -> None:
        """Deliver again if the link takes it."""
        port = self.port
        if self.is_full and port is not None and port.waiting() <= CLOGGED:
            self.is_full = False
            self.wake_queues()

    def wake_queues(self) -> None:
        for channel in rotated(list(self.guests.values()), self.next_wake):
            channel.wake_queues()
        self.next_wake += 1


class GuestChannel(Channel):
    """A channel of the other node. `client_*` are for those who list consumers."""

    def __init__(self, connection: GuestConnection, id: i64) -> None:
        super().__init__(connection, 0)
        self.id: i64 = id
        self.guests: GuestConnection = connection
        self.lent: i64 = 0                  # deliveries not settled, those of basic.get too
        self.client_connection: str = ""
        self.client_user: str = ""
        self.client_host: str = ""
        self.client_port: i64 = 0
        self.client_number: i64 = 0

    def deliver(self, consumer: Consumer, message: Message) -> None:
        assert isinstance(consumer, GuestConsumer)
        tag: i64 = 0
        if consumer.no_ack:
            self.delivered_no_ack += 1
        else:
            tag = consumer.stay.lend(message, consumer, self)
            self.delivered += 1
        self.guests.deliver(consumer, tag, message)

    def ease(self) -> None:
        """What this node's own clients have room for they share out themselves, among queues that lead elsewhere too."""
        if self.guests.is_here:
            self.wake_queues()
        else:
            super().ease()

    def cancel_consumer(self, consumer: Consumer) -> None:
        assert isinstance(consumer, GuestConsumer)
        self.consumers.pop(str(consumer.id), None)
        self.guests.consumers.pop(consumer.id, None)
        port = self.guests.port
        if port is not None:
            self.guests.send_deliveries()
            port.send(CANCELLED, CONSUMER_ID.pack(consumer.id))

    def send(self, method: Method) -> None:
        raise AssertionError("a guest is spoken to by its own node")

    def leave(self, stays: list[Stay]) -> None:
        for consumer in list(self.consumers.values()):
            consumer.queue.remove_consumer(consumer)
        self.consumers.clear()
        for stay in stays:
            if not self.lent:
                break
            stay.requeue_of(self)
        self.is_closing = True
