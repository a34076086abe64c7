"""What a client waits for while another node does it: one class for each operation that is answered.

A request outlives broken links: it is sent again in the next session, unless what it wanted has come true by the loss. The
channel that asked is suspended so long; a channel that died meanwhile hears nothing.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker import agreement
from mirrormq.broker.arguments import locked
from mirrormq.broker.channel import Channel, Delivery
from mirrormq.broker.forward.codec import (
    ASKED,
    CANCEL,
    CANCEL_HEAD,
    CONSUME,
    CONSUMER,
    COUNTS,
    DELETE,
    EXCLUSIVE,
    FENCE,
    GET,
    GET_HEAD,
    GOT,
    GOT_SIZE,
    IF_EMPTY,
    IF_UNUSED,
    INSPECT,
    LAST_LEFT,
    NO_ACK,
    PURGE,
    REDELIVERED,
    REQUEST,
    decode_message,
    encode_text,
    properties_of,
)
from mirrormq.broker.message import Message
from mirrormq.broker.stability import Barrier, lose_all, pass_all
from mirrormq.wire.errors import (
    AccessRefused,
    AMQPError,
    InternalError,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
)
from mirrormq.wire.methods import (
    BasicCancelOk,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from mirrormq.wire.table import encode_table

if TYPE_CHECKING:
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.forward.away import AwayConsumer, AwayQueue

CONSUME_METHOD: Final = 60 << 16 | 20
CANCEL_METHOD: Final = 60 << 16 | 30


def error_of(code: int, text: str) -> AMQPError:
    """The error that the home met, to be raised here."""
    if code == 403:
        return AccessRefused(text)
    if code == 404:
        return NotFound(text)
    if code == 405:
        return ResourceLocked(text)
    if code == 406:
        return PreconditionFailed(text)
    return NotAllowed(text) if code == 530 else InternalError(text)


class Request:
    """`survives`: it is sent again after a broken link. `method` is what the client asked, for errors."""

    def __init__(self, kind: int, queue: AwayQueue, channel: Channel | None, method: i64) -> None:
        self.kind: int = kind
        self.queue: AwayQueue = queue
        self.channel: Channel | None = channel
        self.method: i64 = method
        self.is_sent: bool = False
        self.survives: bool = True

    def encode(self, id: int) -> bytes:
        return ASKED.pack(id, self.queue.log_id, 0)

    def answered(self, data: bytes) -> None:
        raise NotImplementedError

    def reply(self, method: Method | None) -> None:
        """Tell the client, and let its channel go on."""
        channel = self.channel
        if channel is not None and not channel.is_gone():
            if method is not None:
                channel.send(method)
            channel.resume()

    def refused(self, code: int, text: str) -> None:
        queue = self.queue
        self.failed(error_of(code, text or f"no queue '{queue.name}' in vhost '{queue.vhost}'"))

    def failed(self, error: AMQPError) -> None:
        channel = self.channel
        if channel is not None:
            channel.fail(error, self.method)

    def home_gone(self) -> None:
        self.failed(self.queue.home_is_down())

    def cut_off(self) -> None:
        """For requests that do not survive: the session ended first."""


class ConsumeRequest(Request):
    """`is_again`: the client has its consume-ok from an earlier session."""

    def __init__(self, consumer: AwayConsumer, *, no_wait: bool, is_again: bool) -> None:
        super().__init__(CONSUME, consumer.away, consumer.channel, CONSUME_METHOD)
        self.consumer: AwayConsumer = consumer
        self.no_wait: bool = no_wait
        self.is_again: bool = is_again
        self.survives = not is_again

    def encode(self, id: int) -> bytes:
        consumer, channel, queue = self.consumer, self.consumer.channel, self.queue
        connection = channel.connection
        flags = (NO_ACK if consumer.no_ack else 0) | (EXCLUSIVE if consumer.exclusive else 0)
        user = "" if connection.user is None else connection.user.name
        peer = connection.peer
        return b"".join((
            REQUEST.pack(id, queue.log_id),
            CONSUMER.pack(channel.away_id, consumer.id, queue.highest, channel.limit, consumer.limit, flags,
                          consumer.priority, peer.port, channel.number),
            encode_text(consumer.tag), encode_text(connection.name), encode_text(user), encode_text(peer.host),
            encode_table(consumer.arguments)))

    def answered(self, data: bytes) -> None:
        consumer = self.consumer
        channel = consumer.channel
        if self.is_again or channel.is_gone():
            return
        if self.queue.is_deleted:
            self.refused(404, "")
            return
        consumer.is_known = True
        self.queue.add_consumer(consumer)
        self.reply(None if self.no_wait else BasicConsumeOk(consumer.tag))

    def failed(self, error: AMQPError) -> None:
        consumer = self.consumer
        embassy = self.queue.embassy
        if self.is_again:
            embassy.lost(consumer)
            return
        embassy.consumers.pop(consumer.id, None)
        consumer.channel.consumers.pop(consumer.tag, None)
        super().failed(error)

    def home_gone(self) -> None:
        if not self.is_again:
            super().home_gone()


class CancelRequest(Request):
    """Without a session there is nothing to cancel any more. `then` is what the channel goes on with; else the client is told."""

    def __init__(self, consumer: AwayConsumer, *, no_wait: bool, then: Method | None = None) -> None:
        super().__init__(CANCEL, consumer.away, consumer.channel, CANCEL_METHOD)
        self.consumer: AwayConsumer = consumer
        self.no_wait: bool = no_wait
        self.then: Method | None = then
        self.survives = False

    def encode(self, id: int) -> bytes:
        return CANCEL_HEAD.pack(id, self.consumer.id)

    def answered(self, data: bytes) -> None:
        """Where an auto-delete queue has gone with its last consumer, it is gone from this node too."""
        self.finish()

    def finish(self) -> None:
        self.part()
        self.tell()

    def part(self) -> None:
        """The consumer is not one any more, whatever becomes of its queue."""
        consumer = self.consumer
        queue = self.queue
        queue.embassy.consumers.pop(consumer.id, None)
        for message in consumer.parked:
            queue.requeue(message)
        consumer.parked.clear()
        queue.forget_consumer(consumer)
        consumer.channel.consumers.pop(consumer.tag, None)

    def tell(self) -> None:
        channel = self.consumer.channel
        if self.then is None:
            self.reply(None if self.no_wait else BasicCancelOk(self.consumer.tag))
        elif not channel.is_gone():
            channel.try_again(self.then)

    def refused(self, code: int, text: str) -> None:
        self.finish()

    def cut_off(self) -> None:
        self.finish()

    def home_gone(self) -> None:
        self.finish()


class GoodbyeRequest(Request):
    """The cancel of a consumer that leaves with its channel. Where its client has closed the connection, close-ok waits until an
    auto-delete queue is gone."""

    def __init__(self, consumer: AwayConsumer, connection: Connection | None) -> None:
        super().__init__(CANCEL, consumer.away, None, CANCEL_METHOD)
        self.consumer: AwayConsumer = consumer
        self.connection: Connection | None = connection
        self.survives = False
        if connection is not None:
            connection.goodbyes += 1

    def encode(self, id: int) -> bytes:
        return CANCEL_HEAD.pack(id, self.consumer.id)

    def tell(self) -> None:
        if self.connection is not None:
            self.connection.goodbye_heard()

    def answered(self, data: bytes) -> None:
        self.tell()

    def failed(self, error: AMQPError) -> None:
        self.tell()

    def cut_off(self) -> None:
        self.tell()


class DepartureRequest(Request):
    """A consumer of a mirrored auto-delete queue left while the lead moved, or while its leader could not be reached. The former
    leader may have forgotten the consumer before it heard of that, and the next one has never had it: it is asked to let the
    queue go if it has no consumer. A client may wait for the answer (`leaving`); a broken session ends only its waiting."""

    def __init__(self, queue: AwayQueue, leaving: CancelRequest | GoodbyeRequest | None) -> None:
        super().__init__(DELETE, queue, None, CANCEL_METHOD)
        self.leaving: CancelRequest | GoodbyeRequest | None = leaving

    def encode(self, id: int) -> bytes:
        return ASKED.pack(id, self.queue.log_id, LAST_LEFT)

    def tell(self) -> None:
        leaving, self.leaving = self.leaving, None
        if leaving is not None:
            leaving.tell()

    def answered(self, data: bytes) -> None:
        self.tell()

    def failed(self, error: AMQPError) -> None:
        self.tell()

    def home_gone(self) -> None:
        self.tell()


class GetRequest(Request):
    def __init__(self, channel: Channel, method: BasicGet, queue: AwayQueue) -> None:
        super().__init__(GET, queue, channel, method.id)
        self.no_ack: bool = method.no_ack
        self.asking: Channel = channel

    def encode(self, id: int) -> bytes:
        queue = self.queue
        return GET_HEAD.pack(id, queue.log_id, self.asking.away_id, queue.highest, NO_ACK if self.no_ack else 0)

    def answered(self, data: bytes) -> None:
        channel = self.asking
        if not data:
            channel.connection.broker.count("get_empty", 1)
            self.reply(BasicGetEmpty())
            return
        left, tag, flags = GOT.unpack_from(data, 0)
        address, content, size = decode_message(data, GOT_SIZE)
        message = Message(content, address, channel.connection.broker.infos.get(properties_of(content)), size)
        message.index = tag
        message.redelivered = flags & REDELIVERED != 0
        if tag:
            self.queue.highest = tag
        if not channel.is_gone():           # else its leaving has made the home take the message back
            self._hand_over(channel, message, left)

    def _hand_over(self, channel: Channel, message: Message, left: int) -> None:
        tag = channel.next_tag
        channel.next_tag += 1
        if not self.no_ack:
            channel.unacked[tag] = Delivery(tag, message, self.queue, None, channel.connection.broker.now)
        channel.send(BasicGetOk(tag, message.exchange(), message.routing_key(), left, redelivered=message.redelivered))
        channel.put_content(message.content)
        channel.resume()


class PurgeRequest(Request):
    def __init__(self, channel: Channel, method: QueuePurge, queue: AwayQueue) -> None:
        super().__init__(PURGE, queue, channel, method.id)
        self.no_wait: bool = method.no_wait

    def answered(self, data: bytes) -> None:
        self.reply(None if self.no_wait else QueuePurgeOk(COUNTS.unpack_from(data, 0)[0]))


class InspectRequest(Request):
    """A declare of a queue that exists."""

    def __init__(self, channel: Channel, method: QueueDeclare, queue: AwayQueue) -> None:
        super().__init__(INSPECT, queue, channel, method.id)
        self.no_wait: bool = method.no_wait
        self.declare: QueueDeclare = method

    def answered(self, data: bytes) -> None:
        channel = self.channel
        assert channel is not None
        messages, consumers = COUNTS.unpack_from(data, 0)
        channel.patience = 0
        channel.last_queue = self.queue.name
        self.reply(None if self.no_wait else QueueDeclareOk(self.queue.name, messages, consumers))

    def refused(self, code: int, text: str) -> None:
        """A queue that is just going is waited for, so that the client may have it anew."""
        channel = self.channel
        if code == 404 and not text and not self.declare.passive and channel is not None and not channel.is_gone():
            if self.queue.is_deleted:
                channel.patience = 0
                channel.try_again(self.declare)
                return
            if agreement.be_patient(channel.connection.broker, channel, self.declare):
                return
        super().refused(code, text)

    def failed(self, error: AMQPError) -> None:
        if self.channel is not None:
            self.channel.patience = 0
        super().failed(error)

    def home_gone(self) -> None:
        """A queue that does not outlive its node is about to go with it; then the client may have it anew."""
        channel = self.channel
        if self.queue.keeps_record or channel is None:
            super().home_gone()
        elif not channel.is_gone():
            channel.try_again(self.declare)


class LockedRequest(InspectRequest):
    """A declare of another connection's exclusive queue: refused if that connection's node still answers."""

    def answered(self, data: bytes) -> None:
        self.failed(locked(self.queue.name, self.queue.vhost))


class DeleteRequest(Request):
    """Asks whether the queue may go, and what it holds. That it goes is then proposed here."""

    def __init__(self, channel: Channel, method: QueueDelete, queue: AwayQueue) -> None:
        super().__init__(DELETE, queue, channel, method.id)
        self.asked: QueueDelete = method

    def encode(self, id: int) -> bytes:
        asked = self.asked
        flags = (IF_UNUSED if asked.if_unused else 0) | (IF_EMPTY if asked.if_empty else 0)
        return ASKED.pack(id, self.queue.log_id, flags)

    def answered(self, data: bytes) -> None:
        self._propose(COUNTS.unpack_from(data, 0)[0])

    def refused(self, code: int, text: str) -> None:
        if code != 404:
            super().refused(code, text)
        elif text:                      # it is there, and not served
            self._propose_unseen()
        else:
            self._propose(0)            # what is gone from its home is as good as deleted

    def home_gone(self) -> None:
        """No copy of a mirrored queue that is in sync can be reached."""
        if self.queue.is_mirrored:
            self._propose_unseen()
        else:
            super().home_gone()

    def _propose_unseen(self) -> None:
        """Nobody knows what it holds: it is deleted, unless it may go only while it is empty."""
        if self.asked.if_empty:
            self.failed(self.queue.may_hold_messages())
        else:
            self._propose(0)

    def _propose(self, count: int) -> None:
        channel = self.channel
        assert channel is not None
        if channel.is_gone():
            return
        broker = channel.connection.broker
        before = broker.journal.written
        broker.delete_queue(self.queue)
        if broker.journal.written > before:
            agreement.answer(broker, channel, None if self.asked.no_wait else QueueDeleteOk(count), before, self.asked)
        else:
            self.reply(None if self.asked.no_wait else QueueDeleteOk(count))


class FenceRequest(Request):
    """The settlements that were handed over to this queue before are stable. Those that a broken session has cut off are lost, so
    another session, or another leader, may not answer for them."""

    def __init__(self, queue: AwayQueue, waiters: list[Barrier]) -> None:
        super().__init__(FENCE, queue, None, 0)
        self.waiters: list[Barrier] = waiters
        self.survives = False

    def answered(self, data: bytes) -> None:
        waiters, self.waiters = self.waiters, []
        pass_all(waiters)

    def refused(self, code: int, text: str) -> None:
        if code == 404 and not text:
            self.answered(b"")          # its messages have gone with the queue
        else:
            self.cut_off()

    def failed(self, error: AMQPError) -> None:
        self.cut_off()

    def cut_off(self) -> None:
        waiters, self.waiters = self.waiters, []
        lose_all(waiters)
