"""Messages at the head of a queue that consumers can take already, while the log or the ring is not yet so far.

RabbitMQ hands such a message out when it arrives. Here it waits for the disk or for the mirrors, and meanwhile it is treated as
if it were gone: it does not expire, and no limit counts it. `Queue.pump` finds out how many there are, each time anew.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.message import Message

if TYPE_CHECKING:
    from mirrormq.broker.queue import Queue


def room_of_consumers(queue: Queue) -> i64:
    """How many messages they can take now."""
    if queue.holder is not None:
        return queue.holder.room()
    room: i64 = 0
    for consumer in queue.turns.everyone:
        room += consumer.room()
    return room


def unpromised(queue: Queue) -> i64:
    """How many ready messages count against a limit."""
    return max(queue.backlog.count - queue.promised, 0)


def unpromised_bytes(queue: Queue) -> i64:
    """Their bytes, about: the promised ones count as average. To look at each would bring them all into memory, for nothing."""
    backlog = queue.backlog
    if backlog.count <= queue.promised:
        return 0
    return backlog.bytes - queue.promised * (backlog.bytes // backlog.count)


def set_aside(queue: Queue) -> list[Message]:
    """Take the promised ones from the head, for a look at those behind them."""
    backlog = queue.backlog
    return [backlog.pop() for _ in range(min(queue.promised, backlog.count))]


def put_back(queue: Queue, promised: list[Message]) -> None:
    for message in promised:
        queue.backlog.put_back(message)
