"""The home's side: what another node asks for its clients is done here, and answered.

Rules
 1. Frames are handled in their order. One that names a queue which this node has not heard of yet waits for it: metadata reach
    the nodes at different times. If the queue does not appear in time it counts as deleted.
 2. Errors are those that the client's own node would have met; they are sent by code and text.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.forward import probes
from mirrormq.broker.forward.answers import AnswerBarrier, GuestGet
from mirrormq.broker.forward.codec import (
    ACKED,
    ANSWER,
    ANSWERED,
    ASKED,
    CANCEL,
    CANCEL_HEAD,
    CONFIRM,
    CONSUME,
    CONSUMER,
    CONSUMER_SIZE,
    COUNTS,
    CREDIT,
    CREDITED,
    CREDITED_SIZE,
    DELETE,
    EXCLUSIVE,
    FENCE,
    GET,
    GET_HEAD,
    ID,
    IF_EMPTY,
    IF_UNUSED,
    INSPECT,
    LEAVE,
    NO_ACK,
    PROBE,
    PUBLISH,
    PURGE,
    QOS,
    QOS_HEAD,
    REPLY,
    REQUEST,
    REQUEST_SIZE,
    REQUEUED,
    RUN,
    SETTLE,
    SETTLED,
    SETTLED_SIZE,
    decode_message,
    decode_numbers,
    decode_text,
    properties_of,
)
from mirrormq.broker.forward.guests import GuestChannel, GuestConnection, GuestConsumer, Stay
from mirrormq.broker.forward.intake import take_here, take_run
from mirrormq.broker.message import Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.stopping import out_of_service, stop_queue
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.table import decode_table

if TYPE_CHECKING:
    from mirrormq.broker.forward.forwarding import Forwarding
    from mirrormq.broker.forward.port import PeerPort
    from mirrormq.broker.forward.runs import Run

PATIENCE: Final = 5000          # milliseconds that work waits for a queue of which this node has not heard


class Parked:
    """A frame that waits for its queue."""

    def __init__(self, kind: int, payload: bytes, since: i64) -> None:
        self.kind: int = kind
        self.payload: bytes = payload
        self.since: i64 = since


class Reception:
    """One session with one node, seen from its queues' home."""

    def __init__(self, forwarding: Forwarding, port: PeerPort, guests: GuestConnection) -> None:
        self.forwarding: Forwarding = forwarding
        self.port: PeerPort | None = port
        self.guests: GuestConnection = guests
        self.stays: dict[int, Stay] = {}
        self.confirms: list[bytes] = []
        self.parked: dict[int, list[Parked]] = {}

    def received(self, kind: int, payload: bytes) -> None:
        if kind == PUBLISH:
            self._for_queue(RUN.unpack_from(payload, 0)[0], kind, payload)
        elif kind == SETTLE:
            self._settle(payload)
        elif kind == CREDIT:
            self._credit(payload)
        elif kind == CANCEL:
            self._cancel(payload)
        elif kind == QOS:
            self._qos(payload)
        elif kind == LEAVE:
            self._leave(ID.unpack_from(payload, 0)[0])
        elif kind == REPLY:
            self._reply(payload)
        elif kind == PROBE:
            self._probe(payload)
        else:
            if kind == CONSUME:
                self._expect(payload)
            elif kind == GET:
                self._channel(GET_HEAD.unpack_from(payload, 0)[2])
            self._for_queue(REQUEST.unpack_from(payload, 0)[1], kind, payload)

    def publish_here(self, log_id: i64, run: Run, settled: i64) -> None:
        """A run of this very node's clients."""
        queue = self.forwarding.broker.queues_by_log.get(log_id)
        if queue is not None and log_id not in self.parked and not queue.damage:
            take_here(self, queue, run, settled)
        else:
            run.seal(log_id, self.forwarding.publisher_id(), settled)
            self._for_queue(log_id, PUBLISH, run.frame)

    def close(self) -> None:
        """The session is over: its guests leave, what they held goes back."""
        self.port = None
        self.guests.port = None
        self.parked.clear()
        for channel in list(self.guests.guests.values()):
            channel.leave([])
        self.guests.guests.clear()
        self.guests.consumers.clear()
        for stay in self.stays.values():
            stay.requeue_of(None)
        self.stays.clear()

    def forget(self, log_id: i64) -> None:
        """That queue leads here no more: its guests go to who does."""
        self.parked.pop(log_id, None)
        stay = self.stays.pop(log_id, None)
        if stay is not None:
            for tag in list(stay.unacked):
                stay.take(tag)

    # --- queues that are here, and those that may come --------------------------------------------------------

    def _for_queue(self, log_id: i64, kind: int, payload: bytes) -> None:
        waiting = self.parked.get(log_id)
        queue = self.forwarding.broker.queues_by_log.get(log_id)
        if waiting is not None or (queue is None and log_id not in self.forwarding.deleted):
            if waiting is None:
                waiting = self.parked[log_id] = []
            waiting.append(Parked(kind, payload, self.forwarding.broker.now))
        else:
            self._handle(queue, kind, payload)

    def queue_known(self, log_id: i64) -> None:
        """It is here, or it will never be."""
        queue = self.forwarding.broker.queues_by_log.get(log_id)
        for parked in self.parked.pop(log_id, []):
            self._handle(queue, parked.kind, parked.payload)

    def tick(self, now: i64) -> None:
        for log_id in [log_id for log_id, waiting in self.parked.items() if now - waiting[0].since > PATIENCE]:
            if log_id in self.forwarding.mirrored:
                del self.parked[log_id]         # it goes to the queue's leader, whoever that is by now
            else:
                self.queue_known(log_id)

    def _handle(self, queue: Queue | None, kind: int, payload: bytes) -> None:
        if kind == PUBLISH:
            take_run(self, queue, payload)
            return
        id = REQUEST.unpack_from(payload, 0)[0]
        if queue is None or queue.is_deleted:
            self.refuse(id, 404, "")
            return
        try:
            if queue.damage:
                raise out_of_service(queue)
            self._ask(queue, kind, id, payload)
        except AMQPError as error:
            self.refuse(id, error.code, error.text)
        except Exception as fault:  # noqa: BLE001 - whatever is wrong with the queue, the session is not to blame
            self.queue_failed(queue, id, fault)

    def queue_failed(self, queue: Queue, id: int, fault: Exception) -> None:
        stop_queue(self.forwarding.broker, queue, fault)
        self.refuse(id, 404, out_of_service(queue).text)

    def _ask(self, queue: Queue, kind: int, id: int, payload: bytes) -> None:
        if kind == CONSUME:
            self._consume(queue, id, payload)
        elif kind == GET:
            self._get(queue, id, payload)
        elif kind == PURGE:
            queue.wait_for_chunk(AnswerBarrier(self, queue, id, COUNTS.pack(queue.purge(), 0)))
        elif kind == FENCE:
            queue.wait_for_chunk(AnswerBarrier(self, queue, id, b""))
        elif kind == INSPECT:
            queue.touch()
            self.answer(id, COUNTS.pack(queue.backlog.count, len(queue.turns.everyone)))
        elif kind == DELETE:
            self._may_go(queue, id, ASKED.unpack_from(payload, 0)[2])

    # --- answers ----------------------------------------------------------------------------------------------

    def answer(self, id: int, data: bytes) -> None:
        port = self.port
        if port is not None and id:
            self.guests.send_deliveries()
            port.send(ANSWER, ANSWERED.pack(id, 0) + data)

    def refuse(self, id: int, code: int, text: str) -> None:
        port = self.port
        if port is not None and id:
            port.send(ANSWER, ANSWERED.pack(id, code) + text.encode("utf-8", "surrogateescape"))

    def flush(self) -> None:
        self.guests.send_deliveries()
        confirms = self.confirms
        if confirms:
            self.confirms = []
            if self.port is not None:
                self.port.send(CONFIRM, confirms[0] if len(confirms) == 1 else b"".join(confirms))
        if self.guests.is_full:
            self.guests.unclog()

    # --- consuming --------------------------------------------------------------------------------------------

    def _stay(self, queue: Queue, floor: i64) -> Stay:
        stay = self.stays.get(queue.log_id)
        if stay is None:
            stay = self.stays[queue.log_id] = Stay(queue)
        stay.rise_above(floor)
        return stay

    def _channel(self, id: int) -> GuestChannel:
        channel = self.guests.guests.get(id)
        if channel is None:
            channel = self.guests.guests[id] = GuestChannel(self.guests, id)
        return channel

    def _expect(self, payload: bytes) -> None:
        """A channel is known from its first consume on, though the queue may yet have to come."""
        fields = CONSUMER.unpack_from(payload, REQUEST_SIZE)
        channel = self._channel(fields[0])
        channel.limit = fields[3]
        channel.client_port = fields[7]
        channel.client_number = fields[8]
        _, at = decode_text(payload, REQUEST_SIZE + CONSUMER_SIZE)
        channel.client_connection, at = decode_text(payload, at)
        channel.client_user, at = decode_text(payload, at)
        channel.client_host, at = decode_text(payload, at)

    def _consume(self, queue: Queue, request: int, payload: bytes) -> None:
        from mirrormq.broker.ops_basic import check_exclusive_use
        fields = CONSUMER.unpack_from(payload, REQUEST_SIZE)
        channel = self.guests.guests.get(fields[0])
        if channel is None:
            return                      # it has left while this waited
        flags: int = fields[5]
        check_exclusive_use(queue, exclusive=flags & EXCLUSIVE != 0)
        tag, at = decode_text(payload, REQUEST_SIZE + CONSUMER_SIZE)
        for _ in range(3):
            at = decode_text(payload, at)[1]
        consumer = GuestConsumer(channel, self._stay(queue, fields[2]), tag, fields[1], no_ack=flags & NO_ACK != 0,
                                 exclusive=flags & EXCLUSIVE != 0, priority=fields[6], limit=fields[4],
                                 arguments=decode_table(payload, at)[0])
        channel.consumers[str(consumer.id)] = consumer
        self.guests.consumers[consumer.id] = consumer
        self.answer(request, b"")
        queue.add_consumer(consumer)

    def _cancel(self, payload: bytes) -> None:
        request, id = CANCEL_HEAD.unpack_from(payload, 0)
        if self.parked:
            self._unpark(id)
        journal = self.forwarding.broker.journal
        before = journal.written
        consumer = self.guests.consumers.pop(id, None)
        if consumer is not None:
            consumer.channel.consumers.pop(str(id), None)
            consumer.queue.remove_consumer(consumer)
        self.answer(request, b"" if journal.written == before else b"\x01")     # its queue goes with it

    def _unpark(self, consumer: int) -> None:
        for log_id, waiting in list(self.parked.items()):
            kept = [each for each in waiting if not _is_consume_of(each, consumer)]
            if kept:
                self.parked[log_id] = kept
            else:
                del self.parked[log_id]

    def _credit(self, payload: bytes) -> None:
        for at in range(0, len(payload), CREDITED_SIZE):
            id, octets = CREDITED.unpack_from(payload, at)
            consumer = self.guests.consumers.get(id)
            if consumer is not None:
                consumer.credit += octets
                if consumer.queue.backlog.count:
                    consumer.queue.activate()

    def _qos(self, payload: bytes) -> None:
        id, limit = QOS_HEAD.unpack_from(payload, 0)
        channel = self.guests.guests.get(id)
        if channel is not None:
            channel.limit = limit
            channel.wake_queues()

    def _leave(self, id: int) -> None:
        channel = self.guests.guests.pop(id, None)
        if channel is not None:
            for consumer in channel.consumers.values():
                if isinstance(consumer, GuestConsumer):
                    self.guests.consumers.pop(consumer.id, None)
            channel.leave(list(self.stays.values()))

    def _settle(self, payload: bytes) -> None:
        log_id, how = SETTLED.unpack_from(payload, 0)
        stay = self.stays.get(log_id)
        if stay is None:
            return
        queue = stay.queue
        ranges = decode_numbers(payload, SETTLED_SIZE, (len(payload) - SETTLED_SIZE) // 8)
        limited: GuestChannel | None = None
        for place in range(0, len(ranges), 2):
            for tag in range(ranges[place], ranges[place + 1] + 1):
                delivery = stay.take(tag)
                if delivery is None:
                    continue
                if how == ACKED:
                    queue.acknowledge(delivery.message)
                elif how == REQUEUED:
                    queue.requeue(delivery.message)
                else:
                    queue.reject(delivery.message)
                if delivery.channel.limit and delivery.channel is not limited:
                    limited = delivery.channel
                    limited.wake_queues()
        if queue.backlog.count and not queue.is_deleted:
            queue.activate()
        if queue.is_deleted and not stay.unacked:
            del self.stays[log_id]

    # --- the rest ---------------------------------------------------------------------------------------------

    def _get(self, queue: Queue, request: int, payload: bytes) -> None:
        _, _, id, floor, flags = GET_HEAD.unpack_from(payload, 0)
        channel = self.guests.guests.get(id)
        if channel is not None:         # else it has left while this waited
            GuestGet(self, self._stay(queue, floor), channel, request, no_ack=flags & NO_ACK != 0).attempt()

    def _may_go(self, queue: Queue, request: int, flags: int) -> None:
        from mirrormq.broker.ops_queue import check_deletable
        check_deletable(queue, if_unused=flags & IF_UNUSED != 0, if_empty=flags & IF_EMPTY != 0)
        self.answer(request, COUNTS.pack(queue.backlog.count, 0))

    def _reply(self, payload: bytes) -> None:
        from mirrormq.broker import direct_reply
        key, at = decode_text(payload, 0)
        target = self.forwarding.broker.reply_channels.get(key)
        if target is not None:
            address, content, size = decode_message(payload, at)
            info = self.forwarding.broker.infos.get(properties_of(content))
            direct_reply.deliver(target, Message(content, address, info, size))

    def _probe(self, payload: bytes) -> None:
        if self.port is not None:
            key, _ = decode_text(payload, 8)
            probes.answer(self.port, ID.unpack_from(payload, 0)[0], is_there=key in self.forwarding.broker.reply_channels)


def _is_consume_of(parked: Parked, consumer: int) -> bool:
    return parked.kind == CONSUME and int(CONSUMER.unpack_from(parked.payload, REQUEST_SIZE)[1]) == consumer
