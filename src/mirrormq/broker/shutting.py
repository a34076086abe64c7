"""A queue that is to go if it is empty takes nothing from then until that is decided.

What was published meanwhile would be lost with the queue although its deletion was only asked for while it holds nothing. So
publishers are refused: for as long as the cluster may need to decide, or until it has decided against it.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.arguments import effective_settings
from mirrormq.broker.queue import Queue

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

DECISION: Final = 6000      # milliseconds; the store answers in half of that, or not at all


def shut(queue: Queue) -> None:
    queue.broker.shut[queue] = queue.broker.now + DECISION
    queue.apply_settings(effective_settings(queue.arguments, queue.effective_policy))


def reopen(queue: Queue) -> None:
    """It stays after all."""
    if queue.broker.shut.pop(queue, None) is not None and not queue.is_deleted:
        queue.apply_settings(effective_settings(queue.arguments, queue.effective_policy))


def look_after(broker: Broker) -> None:
    """Now and then: whose deletion was given up elsewhere takes messages again."""
    for queue, until in list(broker.shut.items()):
        if queue.is_deleted or broker.now >= until:
            reopen(queue)
