"""What a client may ask of a channel in the classes basic, confirm, tx and channel."""
from __future__ import annotations

from mirrormq.broker import agreement, direct_reply
from mirrormq.broker.arguments import parse_consumer_arguments
from mirrormq.broker.channel import CONFIRM, PLAIN, TRANSACTION, Channel, Delivery
from mirrormq.broker.consumer import Consumer
from mirrormq.broker.forward import ops as away
from mirrormq.broker.limits import check_consumers
from mirrormq.broker.message import Message
from mirrormq.broker.ops_queue import find_queue, vhost_of
from mirrormq.broker.queue import Queue
from mirrormq.broker.sharding import shard_for
from mirrormq.broker.stability import Barrier
from mirrormq.broker.stopping import out_of_service, stop_queue
from mirrormq.broker.transaction import Transaction
from mirrormq.wire.errors import AccessRefused, NotAllowed, NotImplementedFault, PreconditionFailed
from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    TxRollbackOk,
    TxSelectOk,
)


def on_qos(channel: Channel, method: BasicQos) -> None:
    if method.prefetch_size:
        raise NotImplementedFault(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.limit = method.prefetch_count
        channel.ease()
        if channel.away_id:
            channel.connection.broker.forwarding.limit_changed(channel)
    else:
        channel.prefetch = method.prefetch_count
    channel.send(BasicQosOk())


def on_consume(channel: Channel, method: BasicConsume) -> None:
    broker = channel.connection.broker
    tag = method.consumer_tag or broker.new_name("amq.ctag")
    if tag in channel.consumers or tag == channel.reply_consumer:
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    check_consumers(broker.limits.consumers, len(channel.consumers))
    if direct_reply.is_name(method.queue):
        direct_reply.consume(channel, method, tag)
        return
    queue = find_queue(channel, _shard_or_queue(channel, method.queue), "read")
    if queue.is_going and agreement.await_fate(broker, channel, method, queue):
        return
    wishes = parse_consumer_arguments(method.arguments, queue.name, queue.vhost)
    if queue.is_away:
        away.consume(channel, method, tag, queue, wishes.priority)
        return
    check_exclusive_use(queue, exclusive=method.exclusive)
    consumer = Consumer(channel, queue, tag, no_ack=method.no_ack, exclusive=method.exclusive, priority=wishes.priority,
                        limit=channel.prefetch, arguments=method.arguments)
    channel.consumers[tag] = consumer
    if not method.no_wait:
        channel.send(BasicConsumeOk(tag))
    queue.add_consumer(consumer)
    channel.connection.broker.events.consumer("consumer.created", consumer)


def _shard_or_queue(channel: Channel, name: str) -> str:
    """Consuming from a sharded exchange means from one of its queues."""
    vhost = vhost_of(channel)
    if not name or name in vhost.queues:
        return name
    shard = shard_for(channel.connection.broker, vhost, name)
    return name if shard is None else shard.name


def check_exclusive_use(queue: Queue, *, exclusive: bool) -> None:
    taken = any(consumer.exclusive for consumer in queue.turns.everyone)
    if taken or (exclusive and (queue.turns.everyone or queue.settings.single_active_consumer)):
        raise AccessRefused(f"queue '{queue.name}' in vhost '{queue.vhost}' in exclusive use")


def on_cancel(channel: Channel, method: BasicCancel) -> None:
    consumer = channel.consumers.get(method.consumer_tag)
    if consumer is not None and consumer.queue.is_away:
        away.cancel(channel, method, consumer)
        return
    broker = channel.connection.broker
    before = broker.journal.written
    if consumer is not None:
        channel.drop_consumer(consumer)         # an auto-delete queue goes with its last consumer, and the answer waits for that
    elif method.consumer_tag == channel.reply_consumer:
        broker.forget_reply_channel(channel)
    agreement.answer(broker, channel, None if method.no_wait else BasicCancelOk(method.consumer_tag), before, method)


class GetLater(Barrier):
    """A basic.get that must wait until the queue has stably reserved what it is going to deliver."""

    def __init__(self, channel: Channel, method: BasicGet) -> None:
        super().__init__()
        self.channel: Channel = channel
        self.method: BasicGet = method

    def passed(self) -> None:
        if not self.channel.is_closing:
            self.channel.try_again(self.method)


def on_get(channel: Channel, method: BasicGet) -> None:
    queue = find_queue(channel, method.queue, "read")
    if queue.is_away:
        away.get(channel, method, queue)
        return
    queue.touch()
    later = GetLater(channel, method)
    try:
        message = queue.get(later)
    except Exception as fault:  # noqa: BLE001 - whatever is wrong with the queue, the connection is not to blame
        stop_queue(channel.connection.broker, queue, fault)
        raise out_of_service(queue) from None
    if message is not None:
        _hand_over(channel, queue, message, no_ack=method.no_ack)
    elif later.outstanding:
        channel.suspend()
    else:
        channel.connection.broker.count("get_empty", 1)
        channel.send(BasicGetEmpty())


def _hand_over(channel: Channel, queue: Queue, message: Message, *, no_ack: bool) -> None:
    tag = channel.next_tag
    channel.next_tag += 1
    if no_ack:
        queue.got_no_ack += 1
        queue.settle(message)
    else:
        queue.got += 1
        queue.hold(message)
        channel.unacked[tag] = Delivery(tag, message, queue, None, channel.connection.broker.now)
    tracer = channel.connection.broker.tracer
    if tracer is not None:
        tracer.delivered(queue, channel, message)
    answer = BasicGetOk(tag, message.exchange(), message.routing_key(), queue.backlog.count, redelivered=message.redelivered)
    channel.send(answer)
    channel.put_content(message.content)
    if message.logged and queue.holds_much():
        message.content = b""


def on_ack(channel: Channel, method: BasicAck) -> None:
    channel.ack(method.delivery_tag, multiple=method.multiple)


def on_nack(channel: Channel, method: BasicNack) -> None:
    channel.reject(method.delivery_tag, multiple=method.multiple, requeue=method.requeue)


def on_reject(channel: Channel, method: BasicReject) -> None:
    channel.reject(method.delivery_tag, multiple=False, requeue=method.requeue)


def on_recover(channel: Channel, method: BasicRecover) -> None:
    _recover(channel, requeue=method.requeue)
    channel.send(BasicRecoverOk())


def on_recover_async(channel: Channel, method: BasicRecoverAsync) -> None:
    _recover(channel, requeue=method.requeue)


def _recover(channel: Channel, *, requeue: bool) -> None:
    if not requeue:
        raise NotImplementedFault("requeue=false")
    channel.turn_away(channel.take(0, multiple=True), requeue=True)


def on_confirm_select(channel: Channel, method: ConfirmSelect) -> None:
    if channel.mode == TRANSACTION:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    channel.mode = CONFIRM
    if not method.no_wait:
        channel.send(ConfirmSelectOk())


def on_tx_select(channel: Channel) -> None:
    if channel.mode == CONFIRM:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel)
    channel.mode = TRANSACTION
    channel.send(TxSelectOk())


def on_tx_commit(channel: Channel) -> None:
    _transaction(channel).commit()


def on_tx_rollback(channel: Channel) -> None:
    _transaction(channel).rollback()
    channel.send(TxRollbackOk())


def _transaction(channel: Channel) -> Transaction:
    if channel.transaction is None or channel.mode == PLAIN:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction


def on_flow(channel: Channel, method: ChannelFlow) -> None:
    if not method.active:
        raise NotImplementedFault("active=false")
    channel.send(ChannelFlowOk(active=True))


def on_close(channel: Channel, method: ChannelClose) -> None:
    if away.take_leave(channel, method):
        return
    broker = channel.connection.broker
    before = broker.journal.written
    if not channel.is_released:
        channel.release()
    if broker.journal.written > before:
        agreement.answer(broker, channel, None, before, method, again=True)       # auto-delete queues of its consumers go first
        return
    channel.send(ChannelCloseOk())
    connection = channel.connection
    connection.left[channel.number] = connection.received_count
    del connection.channels[channel.number]
