"""Messages whose time is over leave the head of their queue; and how much may leave at once as dead letters.

A backlog whose time is over at one stroke, that a new limit makes too long, or that is rejected as a whole, may be larger than
memory. What leaves it for other queues is in memory until it is on disk there, so it leaves in portions, and none follows while
the disk is behind, or another node: what is posted there beyond a limit is dropped.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.message import NEVER, Message
from mirrormq.broker.promised import put_back, set_aside
from mirrormq.broker.queue_log import EXPIRED

if TYPE_CHECKING:
    from mirrormq.broker.forward.forwarding import Forwarding
    from mirrormq.broker.queue import Queue

PORTION: Final = 32 << 20       # bytes of dead letters in one turn; another node takes two portions before any is dropped
LETTER_COST: Final = 512        # what one costs beside its body
PAUSE: Final = 10               # milliseconds until the next portion


def must_pause(queue: Queue) -> bool:
    """Whether its next dead letter has to wait. If so it is woken for it."""
    if queue.settings.dead_letter_exchange is None and not queue.passes_on:
        return False
    broker = queue.broker
    if broker.letter_bytes < PORTION and not broker.is_busy and not _is_any_behind(broker.forwarding):
        return False
    broker.wake_queue_at(queue, broker.now + PAUSE)
    return True


def _is_any_behind(forwarding: Forwarding) -> bool:
    return any(embassy.load > PORTION and not embassy.is_gone for embassy in forwarding.embassies.values())


def postpone(queue: Queue, message: Message) -> None:
    """It goes on being held, so a snapshot knows it, and a crash brings it back."""
    if message.logged:
        message.content = b""
    queue.postponed.append(message)


def reject_postponed(queue: Queue) -> None:
    """In the order in which they were rejected, as many as may go now. The others wait for the next time."""
    postponed = queue.postponed
    queue.postponed = []
    for at, message in enumerate(postponed):
        if must_pause(queue):
            queue.postponed = postponed[at:]
            return
        queue.reject(message)


def expire_head(queue: Queue) -> None:
    backlog = queue.backlog
    broker = queue.broker
    now = broker.now
    promised = set_aside(queue) if queue.promised and backlog.next_expiry() <= now else []
    when = backlog.next_expiry()
    while when <= now and not must_pause(queue):
        queue.end(backlog.pop(), EXPIRED)
        when = backlog.next_expiry()
    put_back(queue, promised)
    if now < when < NEVER:
        broker.wake_queue_at(queue, when)
