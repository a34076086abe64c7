"""What a channel in confirm mode waits for: the publishes of one turn, wherever their queues are."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.stability import Barrier
from mirrormq.wire.methods import BasicNack

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel


class ConfirmBarrier(Barrier):
    """The publishes of one channel in one turn."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel: Channel = channel
        self.sequence: i64 = 0
        self.refused: set[int] = set()

    def passed(self) -> None:
        self.channel.settle_confirms()

    def mark(self) -> i64:
        return self.channel.sequence

    def refuse(self, mark: i64) -> None:
        """Once for each message, though several of its queues may refuse it."""
        if mark not in self.refused:
            self.refused.add(mark)
            if not self.channel.is_gone():
                self.channel.send(BasicNack(mark, multiple=False, requeue=False))
