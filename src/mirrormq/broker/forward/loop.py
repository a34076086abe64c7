"""The way of this node's clients to the mirrored queues that lead here.

They go the same way as everybody else's, so that nothing changes for them when another node takes the lead. Frames are not
handled while they are sent, but when the turn has come to them: whoever sends is not prepared for its own answer.
"""
from __future__ import annotations

from collections import deque

from mirrormq.broker.forward.port import PeerPort


class LoopPort(PeerPort):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.frames: deque[tuple[int, bytes]] = deque()

    def send(self, kind: int, payload: bytes) -> None:
        self.frames.append((kind, payload))

    def waiting(self) -> int:
        return 0
