"""The way of this node's clients to the mirrored queues that lead here.

They go the same way as everybody else's, so that nothing changes for them when another node takes the lead. Frames are not
handled while they are sent, but when the turn has come to them: whoever sends is not prepared for its own answer. Messages
need not be made into bytes: publishes are handed over as they are, deliveries go straight to their channels.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.forward.embassy import BLANK
from mirrormq.broker.forward.guests import GuestConnection, GuestConsumer
from mirrormq.broker.forward.port import PeerPort
from mirrormq.broker.message import Message

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.forward.embassy import Embassy
    from mirrormq.broker.forward.runs import Run


class LoopFrame:
    """A frame, or a run of publishes to a queue."""

    def __init__(self, kind: int, payload: bytes, log_id: i64, run: Run | None, settled: i64) -> None:
        self.kind: int = kind
        self.payload: bytes = payload
        self.log_id: i64 = log_id
        self.run: Run | None = run
        self.settled: i64 = settled


class LoopPort(PeerPort):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.frames: deque[LoopFrame] = deque()

    def send(self, kind: int, payload: bytes) -> None:
        self.frames.append(LoopFrame(kind, payload, 0, None, 0))

    def hand_over(self, log_id: i64, run: Run, settled: i64) -> None:
        self.frames.append(LoopFrame(0, b"", log_id, run, settled))

    def waiting(self) -> int:
        return 0


class LoopGuests(GuestConnection):
    """This node's own clients as guests of its queues."""

    def __init__(self, broker: Broker, port: LoopPort, embassy: Embassy) -> None:
        super().__init__(broker, port)
        self.is_here = True
        self.embassy: Embassy = embassy

    def deliver(self, consumer: GuestConsumer, tag: i64, message: Message) -> None:
        here = consumer.here
        if here is None:
            here = self.embassy.consumers.get(consumer.id)
            if here is None:            # its channel has left, and takes nothing with it
                return
            consumer.here = here
        copy = Message(message.content, message.address, BLANK, message.size)
        if tag:
            copy.index = tag
            here.away.highest = tag
        copy.redelivered = message.redelivered
        here.arrived(copy)
