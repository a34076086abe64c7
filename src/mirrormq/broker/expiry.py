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
    from mirrormq.broker.forward.away import AwayQueue
    from mirrormq.broker.queue import Queue

PORTION: Final = 32 << 20       # bytes of dead letters in one turn; another node takes two portions before any is dropped
LETTER_COST: Final = 512        # what one costs beside its content
PAUSE: Final = 10               # milliseconds until the next portion
MOST: Final = 16384             # messages that wait beside a queue so that those behind them need not


def must_pause(queue: Queue) -> bool:
    """Whether its next dead letter has to wait. If so it is woken for it. What goes to the same place stays in order."""
    if queue.settings.dead_letter_exchange is None and not queue.passes_on:
        return False
    return len(queue.postponed) > 0 or _is_portion_over(queue)


def _is_portion_over(queue: Queue) -> bool:
    broker = queue.broker
    if broker.letter_bytes < PORTION and not broker.is_busy and not _is_target_behind(queue):
        return False
    broker.wake_queue_at(queue, broker.now + PAUSE)
    return True


def _is_target_behind(queue: Queue) -> bool:
    """A queue whose leader is gone counts too: what waits for it goes to the next one."""
    target = queue.letters_to
    return target is not None and not target.is_deleted and target.embassy.load > PORTION


def note_target(queue: Queue, target: AwayQueue) -> None:
    """Of several the one that is furthest behind."""
    known = queue.letters_to
    if known is None or known.is_deleted or target.embassy.load >= known.embassy.load:
        queue.letters_to = target


def postpone(queue: Queue, message: Message, reason: int) -> None:
    """It is held, so a snapshot knows it, and a crash or another leader brings it back."""
    if message.logged:
        message.content = b""
    queue.postponed.append((message, reason))


def send_postponed(queue: Queue) -> None:
    """In their order, as many as may go now. A dead letter that comes back to its own queue may make it work: what expires then
    waits behind the others."""
    postponed = queue.postponed
    at = 0
    try:
        while at < len(postponed) and not _is_portion_over(queue):
            message, reason = postponed[at]
            at += 1
            queue.leave(message, reason)
    finally:
        del postponed[:at]


def send_all_postponed(queue: Queue) -> None:
    """Its queue is about to be deleted, and they were rejected or expired before."""
    postponed = queue.postponed
    queue.postponed = []
    for message, reason in postponed:
        queue.leave(message, reason)


def expire(queue: Queue, message: Message) -> bool:
    """The message is off the backlog and leaves now or later: those behind it need not wait for it. False if too many do so
    already; then it is back in its place."""
    if not must_pause(queue):
        queue.end(message, EXPIRED)
    elif len(queue.postponed) < MOST:
        queue.hold(message)
        postpone(queue, message, EXPIRED)
    else:
        queue.backlog.put_back(message)
        return False
    return True


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
