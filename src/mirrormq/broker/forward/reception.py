"""The home's side: what another node asks for its clients is done here, and answered.

Rules
 1. Frames are handled in their order. One that names a queue which this node does not serve waits for it: metadata reach the
    nodes at different times. A queue of which this node has not heard in time counts as deleted. A mirrored one is waited for
    until it leads here or elsewhere, or is deleted; or until it is known that nobody can lead it.
 2. Errors are those that the client's own node would have met; they are sent by code and text.
 3. Nothing is dropped in silence. From the first frame that is dropped for a queue, everything for it is, until the other node
    says RESTART. It does so when it moves to another leader and back, or when it hears DROPPED, which it is told as soon as the
    queue is served here.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.forward import probes
from mirrormq.broker.forward.answers import AnswerBarrier, GuestGet, LastLeft
from mirrormq.broker.forward.codec import (
    ACKED,
    ANSWER,
    ANSWERED,
    ASKED,
    ATTEMPT,
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
    DROPPED,
    EXCLUSIVE,
    FENCE,
    GET,
    GET_HEAD,
    ID,
    IF_EMPTY,
    IF_UNUSED,
    INSPECT,
    LAST_LEFT,
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
    RESTART,
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

PATIENCE: Final = 10            # ticks, of which there are two a second, that work waits for a queue that this node does not know
BEGUN: Final = 2                # ticks after which the consumers of a node that has begun with a queue are known


class Parked:
    """A frame that waits for its queue."""

    def __init__(self, kind: int, payload: bytes) -> None:
        self.kind: int = kind
        self.payload: bytes = payload
        self.ticks: i64 = 0             # how long it has waited


class Departed:
    """A consumer left while the lead moved here."""

    def __init__(self, request: int) -> None:
        self.request: int = request
        self.ticks: i64 = 0             # how long this has waited,
        self.begun: i64 = 0             # and how long since all nodes had begun with the queue


class Reception:
    """One session with one node, seen from its queues' home."""

    def __init__(self, forwarding: Forwarding, port: PeerPort, guests: GuestConnection) -> None:
        self.forwarding: Forwarding = forwarding
        self.port: PeerPort | None = port
        self.guests: GuestConnection = guests
        self.stays: dict[int, Stay] = {}
        self.confirms: list[bytes] = []
        self.parked: dict[int, list[Parked]] = {}
        self.dropped: dict[int, None] = {}      # queues for which nothing is taken until the other node says RESTART
        self.attempts: dict[int, int] = {}      # what its last RESTART for a queue said
        self.begun: dict[int, None] = {}        # queues for which it has said RESTART since they stopped leading here
        self.departed: dict[int, list[Departed]] = {}
        self.withheld: dict[int, list[int]] = {}        # cancels that were dropped
        self.is_told: bool = False              # it understands DROPPED

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
        elif kind == RESTART:
            self._restart(payload)
        else:
            if kind == CONSUME:
                self._expect(payload)
            elif kind == GET:
                self._channel(GET_HEAD.unpack_from(payload, 0)[2])
            self._for_queue(REQUEST.unpack_from(payload, 0)[1], kind, payload)

    def publish_here(self, log_id: i64, run: Run, settled: i64) -> None:
        """A run of this very node's clients."""
        queue = self.forwarding.broker.queues_by_log.get(log_id)
        if queue is not None and log_id not in self.parked and log_id not in self.dropped and not queue.damage:
            take_here(self, queue, run, settled)
        else:
            run.seal(log_id, self.forwarding.publisher_id(), settled)
            self._for_queue(log_id, PUBLISH, run.frame)

    def close(self) -> None:
        """The session is over: its guests leave, what they held goes back."""
        self.port = None
        self.guests.port = None
        self.parked.clear()
        self.departed.clear()
        for channel in list(self.guests.guests.values()):
            channel.leave([])
        self.guests.guests.clear()
        self.guests.consumers.clear()
        for stay in self.stays.values():
            stay.is_over = True
            stay.requeue_of(None)
        self.stays.clear()
        self.dropped.clear()

    def forget(self, log_id: i64) -> None:
        """That queue leads here no more: its guests go to who does."""
        self.parked.pop(log_id, None)
        self.departed.pop(log_id, None)
        self.begun.pop(log_id, None)
        stay = self.stays.pop(log_id, None)
        if stay is not None:
            stay.is_over = True
            for tag in list(stay.unacked):
                stay.take(tag)
        if self.is_told:
            self.dropped[log_id] = None

    def drop(self, log_id: i64) -> None:
        """A frame for a queue that is served here cannot be taken: the other node has to begin anew."""
        if self.is_told:
            self._let_go(log_id)
            self.dropped[log_id] = None
            self.tell_dropped(log_id)

    def tell_dropped(self, log_id: i64) -> None:
        """Only where the queue is served. If this node said it sooner, the other one would send everything again to a node that
        is not the leader, and hear the same again, until it has the new view."""
        if self.port is not None and log_id in self.forwarding.broker.queues_by_log:
            self.guests.send_deliveries()       # behind this they would be taken for the next attempt's, with the same tags
            self.port.send(DROPPED, ATTEMPT.pack(log_id, self.attempts.get(log_id, 0)))

    def _restart(self, payload: bytes) -> None:
        log_id, attempt = ATTEMPT.unpack_from(payload, 0)
        self.is_told = True
        if log_id:
            self._let_go(log_id)
            self.dropped.pop(log_id, None)
            self.attempts[log_id] = attempt
            self.begun[log_id] = None
            self.guests.forgotten.pop(log_id, None)
            self.withheld.pop(log_id, None)

    def _let_go(self, log_id: i64) -> None:
        """Of a queue that may still be served here. Its consumers come again in a moment, so an auto-delete queue stays."""
        self.parked.pop(log_id, None)
        self.departed.pop(log_id, None)
        for id, consumer in list(self.guests.consumers.items()):
            if consumer.queue.log_id == log_id:
                del self.guests.consumers[id]
                consumer.channel.consumers.pop(str(id), None)
                consumer.queue.release_consumer(consumer)
                if consumer.queue.auto_delete:
                    self.guests.forget(log_id, id)
        stay = self.stays.pop(log_id, None)
        if stay is not None:
            stay.is_over = True
            stay.requeue_of(None)

    # --- queues that are here, and those that may come --------------------------------------------------------

    def _for_queue(self, log_id: i64, kind: int, payload: bytes) -> None:
        if log_id in self.dropped:
            if kind == CONSUME and self._may_pass(log_id):
                self.guests.forget(log_id, CONSUMER.unpack_from(payload, REQUEST_SIZE)[1])
            self.tell_dropped(log_id)
            return
        waiting = self.parked.get(log_id)
        queue = self.forwarding.broker.queues_by_log.get(log_id)
        if waiting is not None or (queue is None and self._may_come(log_id)):
            if waiting is None:
                waiting = self.parked[log_id] = []
            waiting.append(Parked(kind, payload))
        else:
            self._handle(queue, kind, payload)

    def _may_come(self, log_id: i64) -> bool:
        if log_id in self.forwarding.deleted:
            return False
        front = self.forwarding.mirrored.get(log_id)
        return front is None or not front.lost_copy

    def queue_known(self, log_id: i64) -> None:
        """It is here, or it will never be."""
        queue = self.forwarding.broker.queues_by_log.get(log_id)
        for parked in self.parked.pop(log_id, []):
            self._handle(queue, parked.kind, parked.payload)

    def tick(self) -> None:
        """Patience is counted in ticks: a step of the clock, or a process that was frozen, shortens nobody's."""
        for log_id, waiting in list(self.parked.items()):
            waiting[0].ticks += 1
            if waiting[0].ticks > PATIENCE and log_id not in self.forwarding.mirrored:
                self.queue_known(log_id)
        for log_id in list(self.departed):
            self._look_after_departed(log_id)

    def _look_after_departed(self, log_id: int) -> None:
        """Consumers of other nodes may still be on their way from the former leader: the queue must not go before they come."""
        queue = self.forwarding.broker.queues_by_log.get(log_id)
        has_begun = all(log_id in reception.begun for reception in self.forwarding.receptions.values())
        for each in self.departed.pop(log_id, []):
            each.ticks += 1
            if has_begun:
                each.begun += 1
            if queue is None or queue.is_deleted:
                self.refuse(each.request, 404, "")
            elif each.begun >= BEGUN or each.ticks > PATIENCE or queue.turns.everyone:
                self._let_last_go(queue, each.request)
            else:
                self.departed.setdefault(log_id, []).append(each)

    def _let_last_go(self, queue: Queue, request: int) -> None:
        broker = self.forwarding.broker
        if queue.auto_delete and not queue.turns.everyone:
            broker.delete_queue(queue, is_stubborn=True)        # it may be going already
            broker.parting.append(LastLeft(1, broker.journal.written, self, request))
        else:
            self.answer(request, b"")

    def _handle(self, queue: Queue | None, kind: int, payload: bytes) -> None:
        if kind == PUBLISH:
            take_run(self, queue, payload)
            return
        id, log_id = REQUEST.unpack_from(payload, 0)
        if queue is None or queue.is_deleted:
            front = self.forwarding.mirrored.get(log_id)
            self.refuse(id, 404, front.copy_is_lost().text if front is not None and front.lost_copy else "")
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
        if queue.is_going and kind in (CONSUME, INSPECT):
            self.refuse(id, 404, "")
        elif kind == CONSUME:
            self._consume(queue, id, payload)
        elif kind == GET:
            self._get(queue, id, payload)
        elif kind == PURGE:
            queue.wait_for_chunk(AnswerBarrier(self, queue, id, COUNTS.pack(queue.purge(), 0)))
        elif kind == FENCE:
            queue.wait_for_chunk(AnswerBarrier(self, queue, id, b""))
        elif kind == INSPECT:
            queue.touch()
            self.answer(id, COUNTS.pack(queue.ready(), len(queue.turns.everyone)))
        elif kind == DELETE:
            flags = ASKED.unpack_from(payload, 0)[2]
            if flags & LAST_LEFT:
                self.departed.setdefault(queue.log_id, []).append(Departed(id))
            else:
                self._may_go(queue, id, flags)

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
        if channel is None:             # it has left while this waited
            self.refuse(request, 404, "")
            return
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
            log_id = self._unpark(id)
            if self._may_pass(log_id):
                self._for_queue(log_id, DELETE, ASKED.pack(request, log_id, LAST_LEFT))
                return
        if id not in self.guests.consumers and self._withhold(id, request):
            return
        journal = self.forwarding.broker.journal
        before = journal.written
        consumer = self.guests.consumers.pop(id, None)
        if consumer is not None:
            consumer.channel.consumers.pop(str(id), None)
            consumer.queue.remove_consumer(consumer)
        if journal.written == before:
            self.answer(request, b"")
        elif request:                   # its queue goes with it, and the client may declare it anew when it is answered
            self.forwarding.broker.parting.append(LastLeft(before + 1, journal.written, self, request))

    def _withhold(self, consumer: int, request: int) -> bool:
        """The cancel of a consumer that went when its queue stopped leading here. It is dropped, as everything for the queue is:
        an answer would say that the queue is gone. The other node asks the next leader instead."""
        for log_id, consumers in self.guests.forgotten.items():
            if consumer in consumers and log_id in self.dropped:
                self.withheld.setdefault(log_id, []).append(request)
                self.tell_dropped(log_id)
                return True
        return False

    def _may_pass(self, log_id: int) -> bool:
        front = self.forwarding.mirrored.get(log_id)
        return front is not None and front.auto_delete

    def queue_deleted(self, log_id: int) -> None:
        self.dropped.pop(log_id, None)
        self.attempts.pop(log_id, None)
        self.begun.pop(log_id, None)
        self.guests.forgotten.pop(log_id, None)
        for request in self.withheld.pop(log_id, []):
            self.answer(request, b"")
        if log_id in self.parked:
            self.queue_known(log_id)

    def _unpark(self, consumer: int) -> int:
        """Returns for which queue it waited, or 0."""
        found = 0
        for log_id, waiting in list(self.parked.items()):
            for each in waiting:
                if _is_consume_of(each, consumer):
                    found = log_id
                    self.refuse(REQUEST.unpack_from(each.payload, 0)[0], 404, "")
            kept = [each for each in waiting if not _is_consume_of(each, consumer)]
            if kept:
                self.parked[log_id] = kept
            else:
                del self.parked[log_id]
        return found

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
            channel.ease()

    def _leave(self, id: int) -> None:
        channel = self.guests.guests.pop(id, None)
        if channel is not None:
            for consumer in channel.consumers.values():
                if isinstance(consumer, GuestConsumer):
                    self.guests.consumers.pop(consumer.id, None)
            channel.leave(list(self.stays.values()))

    def _settle(self, payload: bytes) -> None:
        log_id, how = SETTLED.unpack_from(payload, 0)
        if log_id in self.dropped:
            self.tell_dropped(log_id)
            return
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
                    limited.ease()
        if queue.backlog.count and not queue.is_deleted:
            queue.activate()
        if queue.is_deleted and not stay.unacked:
            del self.stays[log_id]

    # --- the rest ---------------------------------------------------------------------------------------------

    def _get(self, queue: Queue, request: int, payload: bytes) -> None:
        _, _, id, floor, flags = GET_HEAD.unpack_from(payload, 0)
        channel = self.guests.guests.get(id)
        if channel is None:             # it has left while this waited
            self.refuse(request, 404, "")
        else:
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
