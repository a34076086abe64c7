"""Everything that a queue holds, taken until the queue itself says that it is empty: on a busy machine a pause tells nothing."""

from __future__ import annotations

from live.load import Taker
from mirrormq.wire.frames import Frame, method_frame
from mirrormq.wire.methods import QueueDeclare, QueueDeclareOk, decode_method

IDLE = 0.5      # seconds without a delivery after which the queue is asked


class Drainer(Taker):
    def __init__(self, port: int, queue: str) -> None:
        super().__init__(port, queue, every=200, prefetch=1000)
        self._question = method_frame(1, QueueDeclare(queue, passive=True))
        self._ready: int | None = None

    def _take(self, frame: Frame) -> None:
        method = decode_method(frame.payload) if frame.kind == 1 else None
        if isinstance(method, QueueDeclareOk):
            self._ready = method.message_count
        else:
            super()._take(frame)

    def is_done(self) -> bool:
        """All that came is acknowledged, and nothing was ready or on its way any more."""
        self.ack()
        before = len(self.got)
        self._ready = None
        self.send(self._question)
        while self._ready is None:
            if not self.waiting:
                self.read()
            while self.waiting:
                self._take(self.waiting.pop(0))
        return self._ready == 0 and len(self.got) == before


def drain(port: int, queue: str) -> list[tuple[int, bool]]:
    """Everything in the queue, in the order of delivery, acknowledged: number, redelivered."""
    drainer = Drainer(port, queue)
    try:
        while drainer.step(IDLE) or not drainer.is_done():
            pass
    finally:
        drainer.close()
    return drainer.got
