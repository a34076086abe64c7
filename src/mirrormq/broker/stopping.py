"""A queue whose log cannot be read or written, or whose work failed, is taken out of service; the others go on.

Rules
 1. Whoever asks for it is told why, in the words of `damage`; its publishers are refused.
 2. What it gathered this turn is given to the log all the same. If the log takes no more, those who wait for it are refused.
 3. Its messages stay where they are: what is in its log is there after a restart.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import lose_all
from mirrormq.log.errors import QueueDamaged
from mirrormq.wire.errors import NotFound

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def stop_queue(broker: Broker, queue: Queue, fault: Exception) -> None:
    if queue.damage:
        return
    if isinstance(fault, QueueDamaged):
        queue.damage = str(fault)
        if queue.ring is not None:
            queue.ring.found_damage(queue.damage)
        broker.host.report("error", f"queue '{queue.name}' in vhost '{queue.vhost}' is not served: {fault}")
    else:
        queue.damage = f"a fault stopped it ({fault}); restart the node"
        broker.host.fault(fault)
    queue.activate()


def out_of_service(queue: Queue) -> NotFound:
    return NotFound(f"queue '{queue.name}' in vhost '{queue.vhost}' is damaged and not served: {queue.damage}")


def seal_queues(broker: Broker, queues: list[Queue]) -> None:
    """Each queue's chunk, then the ends of dead letters, behind the chunks of their targets."""
    for queue in queues:
        try:
            queue.seal()
        except QueueDamaged as fault:
            _lose_gathered(broker, queue, fault)
    for queue in queues:
        if queue.dead_lettered:
            try:
                queue.seal_dead_letters()
            except QueueDamaged as lost:
                _lose_gathered(broker, queue, lost)


def _lose_gathered(broker: Broker, queue: Queue, fault: QueueDamaged) -> None:
    stop_queue(broker, queue, fault)
    waiters = queue.waiters
    queue.waiters = []
    queue.last_waiter = None
    lose_all(waiters)
