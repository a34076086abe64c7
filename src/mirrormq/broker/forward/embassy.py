"""All that this node's clients have at another node: queues, consumers, requests under way, and the session with it.

Rules
 1. Without a session everything waits: publishes and requests are kept, and sent when a session begins. Only `gone` ends them.
 2. A session begins with the unconfirmed publishes, then the consumers, then the requests, each in their first order.
 3. Where a queue is begun with anew in a session that goes on, RESTART comes first: the home forgets what it had of it before.
 4. Publishers whose messages pile up here are not read until the pile is small again; others are not touched.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.connection import RUNNING
from mirrormq.broker.forward.codec import (
    ANSWERED,
    ANSWERED_SIZE,
    ATTEMPT,
    CANCEL,
    CANCEL_HEAD,
    CONFIRMED,
    CONFIRMED_SIZE,
    CONSUMER_ID,
    CREDIT,
    CREDITED,
    DELIVERY,
    DELIVERY_SIZE,
    ID,
    LEAVE,
    QOS,
    QOS_HEAD,
    REDELIVERED,
    RESTART,
    SAME,
    decode_numbers,
)
from mirrormq.broker.forward.moving import start_over
from mirrormq.broker.forward.requests import (
    CancelRequest,
    ConsumeRequest,
    DepartureRequest,
    FenceRequest,
    GoodbyeRequest,
    Request,
)
from mirrormq.broker.message import ContentInfo, Message
from mirrormq.broker.stability import Barrier

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.forward.away import AwayConsumer, AwayQueue
    from mirrormq.broker.forward.forwarding import Forwarding
    from mirrormq.broker.forward.loop import LoopPort
    from mirrormq.broker.forward.port import PeerPort

HIGH: Final = 4 << 20       # octets published and not confirmed, above which publishers wait
LOW: Final = 1 << 20
BLANK: Final = ContentInfo(b"\x00\x00")     # nobody looks at the properties of what passes through


class Embassy:
    def __init__(self, forwarding: Forwarding, name: str) -> None:
        self.forwarding: Forwarding = forwarding
        self.name: str = name
        self.port: PeerPort | None = None
        self.loop: LoopPort | None = None           # it is this very node
        self.incarnation: int = 0
        self.is_gone: bool = False
        self.queues: dict[int, AwayQueue] = {}
        self.consumers: dict[int, AwayConsumer] = {}
        self.channels: dict[int, Channel] = {}      # that the home knows
        self.requests: dict[int, Request] = {}
        self.gathered: list[AwayQueue] = []
        self.credit: list[bytes] = []
        self.load: i64 = 0
        self.held: list[Connection] = []

    # --- the session ------------------------------------------------------------------------------------------

    def open(self, port: PeerPort, incarnation: int) -> None:
        is_new_home = self.incarnation != 0 and self.incarnation != incarnation
        self.incarnation = incarnation
        self.is_gone = False
        self.port = port
        port.send(RESTART, ATTEMPT.pack(0, 0))
        if is_new_home:
            self._lose_queues_of_former_process()
        for queue in self.queues.values():
            queue.met = incarnation
        for queue in list(self.queues.values()):
            if queue.unconfirmed:
                queue.send_again(is_new_home=is_new_home)
        self._resume(None)

    def _lose_queues_of_former_process(self) -> None:
        """Exclusive and transient queues ended with it. Their records go with its lease, which may take longer than the node took
        to start anew. Nobody who publishes to them meanwhile need wait for that. Others may be the new process's own already."""
        for queue in list(self.queues.values()):
            if queue.met and not queue.keeps_record and not queue.is_mirrored:
                queue.is_going = True
                self.give_up(queue)

    def begin(self, queue: AwayQueue, *, is_new_home: bool) -> None:
        """A queue has its home there now, or has to begin anew there, and there is a session already."""
        assert self.port is not None
        queue.attempt = self.forwarding.next_id()
        self.port.send(RESTART, ATTEMPT.pack(queue.log_id, queue.attempt))
        if queue.unconfirmed:
            queue.send_again(is_new_home=is_new_home)
        self._resume(queue)

    def _resume(self, queue: AwayQueue | None) -> None:
        """Consumers, then requests, of one queue or of all."""
        for consumer in list(self.consumers.values()):
            if consumer.is_known and (queue is None or consumer.away is queue):
                self.ask(ConsumeRequest(consumer, no_wait=True, is_again=True))
        for id, request in list(self.requests.items()):
            if queue is not None and request.queue is not queue:
                continue
            channel = request.channel
            if channel is not None and channel.is_gone():
                del self.requests[id]           # nobody would settle what it brings
            elif not request.is_sent:
                self._send(id, request)

    def close(self) -> None:
        """The session is over. What was delivered in it is not ours any more; what waits for an answer goes on waiting."""
        self.port = None
        self.credit.clear()
        self.channels.clear()
        for queue in list(self.queues.values()):
            queue.attempt = 0
            queue.link_lost()
        for id, request in list(self.requests.items()):
            request.is_sent = False
            if not request.survives:
                self.requests.pop(id, None)
                request.cut_off()
                if isinstance(request, CancelRequest | GoodbyeRequest):
                    self._departed(request.queue)
            elif isinstance(request, DepartureRequest):
                request.tell()
                if request.queue.is_deleted:
                    self.requests.pop(id, None)

    def _departed(self, queue: AwayQueue) -> None:
        """A consumer has left that the leader may not have heard of. A leader that lives lets the queue go by itself, since the
        session ended; else the next one has to."""
        if not queue.auto_delete or not queue.is_mirrored or queue.is_deleted:
            return
        if not any(isinstance(request, DepartureRequest) and request.queue is queue for request in self.requests.values()):
            self.requests[self.forwarding.next_id()] = DepartureRequest(queue, None)

    def gone(self) -> None:
        """The node is down: nothing here will be answered."""
        if self.port is not None:
            self.close()
        self.is_gone = True
        for queue in list(self.queues.values()):
            if queue.is_hopeless():
                self.give_up(queue)

    def queue_ended(self, queue: AwayQueue) -> None:
        """It is deleted. Its home may have dropped what was asked of it, or be cut off from here. The answer to a cancel is still
        the home's, and does not come before the other nodes know that the queue is gone."""
        self.queues.pop(queue.log_id, None)
        for id, request in list(self.requests.items()):
            is_leaving = request.kind == CANCEL or (isinstance(request, DepartureRequest) and request.is_sent)
            if request.queue is queue and not is_leaving and self.requests.pop(id, None) is not None:
                request.refused(404, "")

    def give_up(self, queue: AwayQueue) -> None:
        """Nobody will answer for this queue."""
        queue.give_up()
        for id, request in list(self.requests.items()):
            if request.queue is queue:
                del self.requests[id]
                request.home_gone()
        for consumer in list(self.consumers.values()):
            if consumer.away is queue:
                self.lost(consumer)

    # --- what goes out ----------------------------------------------------------------------------------------

    def in_order(self) -> None:
        """Hand over all that was gathered, so that what is sent next comes after it."""
        gathered = self.gathered
        if gathered:
            self.gathered = []
            for queue in gathered:
                queue.hand_over()

    def flush(self) -> None:
        self.in_order()
        if self.credit:
            port = self.port
            if port is not None:
                port.send(CREDIT, b"".join(self.credit))
            self.credit.clear()

    def ask(self, request: Request) -> None:
        id = self.forwarding.next_id()
        self.requests[id] = request
        if self.port is not None:
            self.in_order()
            self._send(id, request)

    def _send(self, id: int, request: Request) -> None:
        port = self.port
        assert port is not None
        request.is_sent = True
        channel = request.channel
        if channel is not None and channel.away_id:
            self.channels[channel.away_id] = channel
        port.send(request.kind, request.encode(id))

    def fence(self, queue: AwayQueue, waiters: list[Barrier]) -> None:
        request = FenceRequest(queue, waiters)
        if self.port is None:
            request.cut_off()
            return
        id = self.forwarding.next_id()
        self.requests[id] = request
        self._send(id, request)

    def give_credit(self, consumer: AwayConsumer) -> None:
        self.credit.append(CREDITED.pack(consumer.id, consumer.owed))
        consumer.owed = 0

    def dismiss(self, consumer: AwayConsumer) -> None:
        """A consumer leaves with its channel. Where the queue may go with it the answer counts: until then it may have to be said
        to another leader. Only a client that closes its connection waits for it."""
        if self.consumers.pop(consumer.id, None) is not None:
            connection = consumer.channel.connection
            if self.port is None:
                self._departed(consumer.away)
            elif consumer.away.auto_delete:
                self.ask(GoodbyeRequest(consumer, connection if connection.is_parting else None))
            else:
                self.in_order()
                self.port.send(CANCEL, CANCEL_HEAD.pack(0, consumer.id))

    def limit_changed(self, channel: Channel) -> None:
        if self.port is not None and channel.away_id in self.channels:
            self.port.send(QOS, QOS_HEAD.pack(channel.away_id, channel.limit))

    def channel_left(self, channel: Channel) -> None:
        """The home requeues what is still on its way to this channel."""
        if self.channels.pop(channel.away_id, None) is not None and self.port is not None:
            self.in_order()
            self.port.send(LEAVE, ID.pack(channel.away_id))

    # --- what comes in ----------------------------------------------------------------------------------------

    def confirmed(self, data: bytes) -> None:
        at: i64 = 0
        end: i64 = len(data)
        while at < end:
            log_id, first, count = CONFIRMED.unpack_from(data, at)
            at += CONFIRMED_SIZE
            refused: list[int] = []
            if count:
                refused = decode_numbers(data, at, count)
                at += 8 * count
            queue = self.queues.get(log_id)
            if queue is not None:
                queue.confirmed(first, refused)

    def delivered(self, data: bytes) -> None:
        at: i64 = 0
        end: i64 = len(data)
        address = b""
        last = -1
        consumer: AwayConsumer | None = None
        while at < end:
            id, tag, flags, length, size, content_length = DELIVERY.unpack_from(data, at)
            at += DELIVERY_SIZE
            if length != SAME:
                address = data[at:at + length]
                at += length
            content = data[at:at + content_length]
            at += content_length
            if id != last:
                last = id
                consumer = self.consumers.get(id)
            if consumer is not None:        # else its channel has left, and the home takes the message back
                message = Message(content, address, BLANK, size)
                if tag:
                    message.index = tag
                    consumer.away.highest = tag
                if flags & REDELIVERED:
                    message.redelivered = True
                consumer.arrived(message)

    def answered(self, data: bytes) -> None:
        id, code = ANSWERED.unpack_from(data, 0)
        request = self.requests.pop(id, None)
        if request is None:
            return
        if code:
            request.refused(code, data[ANSWERED_SIZE:].decode("utf-8", "surrogateescape"))
        else:
            request.answered(data[ANSWERED_SIZE:])

    def cancelled(self, data: bytes) -> None:
        """The queue is gone from its home."""
        consumer = self.consumers.get(CONSUMER_ID.unpack_from(data, 0)[0])
        if consumer is not None:
            self.lost(consumer)

    def dropped(self, data: bytes) -> None:
        """Unless this queue has begun anew there since."""
        log_id, attempt = ATTEMPT.unpack_from(data, 0)
        queue = self.queues.get(log_id)
        if queue is not None and queue.attempt == attempt:
            start_over(queue)

    def lost(self, consumer: AwayConsumer) -> None:
        """The home has no such consumer any more: its client is told."""
        self.consumers.pop(consumer.id, None)
        consumer.parked.clear()
        consumer.away.forget_consumer(consumer)
        consumer.channel.cancel_consumer(consumer)

    # --- back-pressure ----------------------------------------------------------------------------------------

    def add_load(self, size: i64) -> None:
        self.load += size
        if size > 0:
            if self.load > HIGH:
                self.forwarding.congested = self
        elif self.held and self.load < LOW:
            held = self.held
            self.held = []
            for connection in held:
                connection.last_received = self.forwarding.broker.now
                connection.hold(is_held=False)

    def hold(self, connection: Connection) -> None:
        """It has published into a pile that is too high."""
        if self.load > HIGH and not connection.is_held and connection.state == RUNNING:
            self.held.append(connection)
            connection.hold(is_held=True)
