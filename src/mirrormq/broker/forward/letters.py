"""Dead letters and delayed messages that go to a queue on another node.

A crash may double such a message and cannot lose it: its end is logged in the queue that it leaves when the other node has
confirmed it. Until then it counts as live there. A refusal ends it too: dead letters are sent at most once.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.message import Message
from mirrormq.broker.stability import Barrier

if TYPE_CHECKING:
    from mirrormq.broker.queue import Queue


class LetterBarrier(Barrier):
    def __init__(self, queue: Queue, message: Message, reason: i64) -> None:
        super().__init__()
        self.queue: Queue = queue
        self.message: Message = message
        self.reason: i64 = reason
        self.outstanding = 1            # until it has been posted to every queue

    def posted(self) -> bool:
        """Whether its end has to wait."""
        self.outstanding -= 1
        if self.outstanding == 0 or not self.message.logged:
            return False
        self.queue.held_logged.add(self.message.index)      # or a snapshot would forget it
        return True

    def passed(self) -> None:
        queue = self.queue
        if self.message.logged and not queue.is_deleted:
            queue.held_logged.discard(self.message.index)
            queue.note_dead_letter(self.message, self.reason)
            queue.activate()
