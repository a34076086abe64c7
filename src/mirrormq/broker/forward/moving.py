"""What becomes of clients when a mirrored queue gets another leader: everything that they have there moves to it.

Rules
 1. Unconfirmed publishes are sent again, in order; the new leader finds in its log which of them it has.
 2. Consumers are registered again under their tags, unless they asked to be cancelled then. What was delivered is stale: the
    new leader has it in its place, and what a client still says about it is dropped.
 3. Requests that were not answered are asked again.
 4. A queue that stops leading here forgets its guests without a word: their own nodes see the same view and move them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.forward.away import AwayConsumer, AwayQueue
from mirrormq.broker.forward.guests import GuestConsumer
from mirrormq.broker.forward.requests import ConsumeRequest

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
    for id, request in list(old.requests.items()):
        if request.queue is queue:
            del old.requests[id]
            was_sent = request.is_sent
            request.is_sent = False
            if isinstance(request, ConsumeRequest) and request.is_again:
                continue                        # it is asked anew with the others
            if request.survives or not was_sent:
                new.requests[id] = request
            else:
                request.cut_off()


def stop_serving(broker: Broker, queue: Queue, front: AwayQueue | None) -> None:
    """A queue that led here does so no more. Consumers that were its own, and not guests, become guests of the next leader."""
    consumers = list(queue.turns.everyone)
    queue.close()
    broker.queues_by_log.pop(queue.log_id, None)
    for reception in broker.forwarding.receptions.values():
        reception.forget(queue.log_id)
    for consumer in consumers:
        if isinstance(consumer, GuestConsumer):
            consumer.guest.consumers.pop(str(consumer.id), None)
            consumer.guest.guests.consumers.pop(consumer.id, None)
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
