"""What becomes of clients when a mirrored queue gets another leader: everything that they have there moves to it.

Rules
 1. Unconfirmed publishes are sent again, in order; the new leader finds in its log which of them it has.
 2. Consumers are registered again under their tags, unless they asked to be cancelled then. What was delivered is stale: the
    new leader has it in its place, and what a client still says about it is dropped.
 3. Requests that were not answered are asked again. The new leader never had a consumer that was being cancelled: it is asked to
    let an auto-delete queue go if nobody is left.
 4. A queue that stops leading here forgets its guests: their own nodes see the same view and move them. One that has missed it,
    since it saw only a later view by which the queue leads here again, is told DROPPED then, and starts over.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.forward.answers import AnswerBarrier, GuestGet, RunBarrier
from mirrormq.broker.forward.away import AwayConsumer, AwayQueue
from mirrormq.broker.forward.guests import GuestConsumer
from mirrormq.broker.forward.requests import CancelRequest, ConsumeRequest, DepartureRequest, GoodbyeRequest
from mirrormq.broker.message import Message
from mirrormq.broker.queue_log import ReservedMark
from mirrormq.broker.stability import lose_all

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.consumer import Consumer
    from mirrormq.broker.forward.embassy import Embassy
    from mirrormq.broker.queue import Queue
    from mirrormq.broker.vhost import VirtualHost

CANCEL_ON_FAILOVER: Final = "x-cancel-on-ha-failover"


def put_before(broker: Broker, vhost: VirtualHost, queue: Queue) -> AwayQueue:
    """A queue of this node becomes a mirrored one: clients come to it by the way that leads to its leader, wherever that is.
    Those who are at it already stay."""
    front = AwayQueue(broker, queue.vhost, queue.name, queue.log_id, home=broker.node_name, durable=queue.durable,
                      auto_delete=queue.auto_delete, owner=None, arguments=queue.arguments, settings=queue.settings)
    front.revision = queue.revision
    front.keeps_record = True
    front.policy = queue.policy
    front.operator_policy = queue.operator_policy
    front.effective_policy = queue.effective_policy
    vhost.replace(queue, front)
    broker.host.hosts(queue.log_id, queue)
    return front


def follow_view(queue: AwayQueue, ring: tuple[str, ...], learners: tuple[str, ...]) -> None:
    """The queue is held by these now."""
    queue.holders = ring
    queue.learners = learners
    if ring and ring[0] != queue.home:
        _move(queue, ring[0])


def start_over(queue: AwayQueue) -> None:
    """Its home has dropped what our clients had there, and serves it again."""
    _move(queue, queue.home)


def _move(queue: AwayQueue, home: str) -> None:
    old = queue.embassy
    new = old.forwarding.embassy(home)
    queue.link_lost()
    size = sum([run.size for run in queue.unconfirmed.values()])
    if queue.run is not None:
        size += queue.run.size
    old.queues.pop(queue.log_id, None)
    new.queues[queue.log_id] = queue
    queue.home = home
    queue.embassy = new
    old.add_load(-size)
    new.add_load(size)
    _move_consumers(queue, old, new)
    _move_requests(queue, old, new)
    queue.attempt = 0
    if new.port is not None:
        new.begin(queue, is_new_home=True)
    queue.broker.schedule()


def _move_consumers(queue: AwayQueue, old: Embassy, new: Embassy) -> None:
    for id, consumer in list(old.consumers.items()):
        if consumer.away is queue:
            del old.consumers[id]
            new.consumers[id] = consumer
            if consumer.is_known and consumer.arguments.get(CANCEL_ON_FAILOVER) is True:
                new.lost(consumer)


def _move_requests(queue: AwayQueue, old: Embassy, new: Embassy) -> None:
    """Under new numbers: a node that leads again may still answer the old ones, and takes back what it gave with them."""
    for id, request in list(old.requests.items()):
        if request.queue is queue:
            del old.requests[id]
            request.is_sent = False
            if isinstance(request, ConsumeRequest) and request.is_again:
                continue                        # it is asked anew with the others
            if request.survives:
                new.requests[old.forwarding.next_id()] = request
            elif queue.auto_delete and isinstance(request, CancelRequest):
                request.part()                  # else it would be registered again with the others
                new.requests[old.forwarding.next_id()] = DepartureRequest(queue, request)
            elif queue.auto_delete and isinstance(request, GoodbyeRequest):
                new.requests[old.forwarding.next_id()] = DepartureRequest(queue, request)
            else:
                request.cut_off()


def held_of(broker: Broker, queue: Queue) -> list[Message]:
    """What has been taken from the queue and may come back: what clients of this node and of others have not acknowledged, or
    only in an open transaction, and what has yet to leave as a dead letter."""
    found = [message for message, _ in queue.postponed]
    for connection in broker.connections:
        for channel in connection.channels.values():
            settled = [] if channel.transaction is None else channel.transaction.settled()
            found += [delivery.message for delivery in [*channel.unacked.values(), *settled] if delivery.queue is queue]
    for reception in broker.forwarding.receptions.values():
        stay = reception.stays.get(queue.log_id)
        if stay is not None and stay.queue is queue:
            found += [delivery.message for delivery in stay.unacked.values()]
    return found


def stop_serving(broker: Broker, queue: Queue, front: AwayQueue | None) -> None:
    """A queue that led here does so no more. Consumers that were its own, and not guests, become guests of the next leader. What
    waits for guests is asked again there. Whoever was at the queue before it was mirrored hears that nobody knows the outcome."""
    consumers = list(queue.turns.everyone)
    waiters = queue.everyone_waiting()
    queue.close()
    broker.queues_by_log.pop(queue.log_id, None)
    for reception in broker.forwarding.receptions.values():
        reception.forget(queue.log_id)
    lose_all([waiter for waiter in waiters if not isinstance(waiter, RunBarrier | AnswerBarrier | GuestGet | ReservedMark)])
    for consumer in consumers:
        if isinstance(consumer, GuestConsumer):
            consumer.guest.consumers.pop(str(consumer.id), None)
            consumer.guest.guests.consumers.pop(consumer.id, None)
            if queue.auto_delete:
                consumer.guest.guests.forget(queue.log_id, consumer.id)
        elif front is not None:
            _send_away(consumer, front)
    broker.forget_timer(queue)


def _send_away(consumer: Consumer, front: AwayQueue) -> None:
    channel = consumer.channel
    forwarding = front.embassy.forwarding
    forwarding.enrol(channel)
    away = AwayConsumer(channel, front, consumer.tag, forwarding.next_consumer(), no_ack=consumer.no_ack,
                        exclusive=consumer.exclusive, priority=consumer.priority, limit=consumer.limit,
                        arguments=consumer.arguments)
    away.is_known = True
    front.add_consumer(away)
    channel.consumers[consumer.tag] = away
    front.embassy.consumers[away.id] = away
    if consumer.arguments.get(CANCEL_ON_FAILOVER) is True:
        front.embassy.lost(away)
    elif front.embassy.port is not None:
        front.embassy.ask(ConsumeRequest(away, no_wait=True, is_again=True))
