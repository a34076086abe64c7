"""What clients ask of a queue whose home is another node. The channel is suspended until the home has answered."""
from __future__ import annotations

from mirrormq.broker.channel import Channel
from mirrormq.broker.consumer import Consumer
from mirrormq.broker.forward.away import AwayConsumer, AwayQueue
from mirrormq.broker.forward.requests import (
    CancelRequest,
    ConsumeRequest,
    DeleteRequest,
    GetRequest,
    InspectRequest,
    LockedRequest,
    PurgeRequest,
    Request,
)
from mirrormq.broker.queue import Queue
from mirrormq.wire.methods import BasicCancel, BasicConsume, BasicGet, ChannelClose, QueueDeclare, QueueDelete, QueuePurge


def _ask(channel: Channel, queue: AwayQueue, request: Request) -> None:
    queue.check_home()
    channel.connection.broker.forwarding.enrol(channel)
    channel.suspend()
    queue.embassy.ask(request)


def _away(queue: Queue) -> AwayQueue:
    assert isinstance(queue, AwayQueue)
    return queue


def consume(channel: Channel, method: BasicConsume, tag: str, found: Queue, priority: int) -> None:
    queue = _away(found)
    queue.check_home()
    forwarding = channel.connection.broker.forwarding
    consumer = AwayConsumer(channel, queue, tag, forwarding.next_consumer(), no_ack=method.no_ack, exclusive=method.exclusive,
                            priority=priority, limit=channel.prefetch, arguments=method.arguments)
    channel.consumers[tag] = consumer
    queue.embassy.consumers[consumer.id] = consumer
    _ask(channel, queue, ConsumeRequest(consumer, no_wait=method.no_wait, is_again=False))


def cancel(channel: Channel, method: BasicCancel, found: Consumer) -> None:
    assert isinstance(found, AwayConsumer)
    request = CancelRequest(found, no_wait=method.no_wait)
    if found.away.embassy.port is None:
        request.cut_off()               # without a session its home knows no such consumer
    else:
        _say_goodbye(channel, found, request)


def _say_goodbye(channel: Channel, consumer: AwayConsumer, request: CancelRequest) -> None:
    """What is under way to it still comes; that the queue may go without it is nothing that it must be told."""
    consumer.away.forget_consumer(consumer)
    channel.suspend()
    consumer.away.embassy.ask(request)


def take_leave(channel: Channel, method: ChannelClose) -> bool:
    """Auto-delete queues elsewhere go with a channel that has their last consumer, before close-ok. False if there are none."""
    for consumer in channel.consumers.values():
        if isinstance(consumer, AwayConsumer) and consumer.away.auto_delete and consumer.away.embassy.port is not None:
            _say_goodbye(channel, consumer, CancelRequest(consumer, no_wait=True, then=method))
            return True
    return False


def get(channel: Channel, method: BasicGet, found: Queue) -> None:
    queue = _away(found)
    _ask(channel, queue, GetRequest(channel, method, queue))


def declare_existing(channel: Channel, method: QueueDeclare, found: Queue) -> None:
    """declare-ok with the counts of the home; passive or not is the same."""
    queue = _away(found)
    _ask(channel, queue, InspectRequest(channel, method, queue))


def check_locked(channel: Channel, method: QueueDeclare, found: Queue) -> None:
    """Whoever wants another's exclusive queue hears that it is locked, once its home has shown that it is there."""
    queue = _away(found)
    _ask(channel, queue, LockedRequest(channel, method, queue))


def purge(channel: Channel, method: QueuePurge, found: Queue) -> None:
    queue = _away(found)
    _ask(channel, queue, PurgeRequest(channel, method, queue))


def delete(channel: Channel, method: QueueDelete, found: Queue) -> None:
    """The home says whether it may go; this node then proposes its end and answers when that holds."""
    queue = _away(found)
    request = DeleteRequest(channel, method, queue)
    if queue.is_mirrored and queue.is_hopeless():
        channel.suspend()
        request.home_gone()
    else:
        _ask(channel, queue, request)
