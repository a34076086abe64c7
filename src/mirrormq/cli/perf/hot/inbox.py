"""The frames that a broker sends, parsed in one loop per chunk. Compiled.

Confirms go to the ledger, deliveries to the meter; the content of returned messages is skipped; every other frame is
left in `others` as (type, channel, payload) for the caller. A frame that is not whole yet waits in `rest`.
"""

from __future__ import annotations

from typing import Final

from .deliver import BASIC, DELIVER, METHOD, BadFrame, Meter, number
from .publish import NUMBERED_SIZE, Ledger

HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_LIMIT: Final = 1 << 26
RETURN: Final = 50
ACK: Final = 80
NACK: Final = 120


def frame_end(data: bytes, start: int) -> int:
    """Where the frame at `start` has its last byte."""
    kind = data[start]
    size = data[start + 3] << 24 | data[start + 4] << 16 | data[start + 5] << 8 | data[start + 6]
    if kind > HEARTBEAT or size > FRAME_LIMIT or (kind == METHOD and size < 4) or (kind == HEADER and size < 14):
        raise BadFrame(f"no AMQP frame: {data[start : start + 16]!r}")
    return start + 7 + size


class Inbox:
    """One connection's incoming bytes."""

    def __init__(self) -> None:
        self.ledger: Ledger | None = None
        self.meter: Meter | None = None
        self.others: list[tuple[int, int, bytes]] = []
        self.returned: int = 0
        self.rest: bytes = b""
        self.returning: bool = False
        self.remaining: int = 0
        self.single: bool = True
        self.numbered: bool = False

    def feed(self, chunk: bytes, now: int) -> None:
        """Take in what the socket gave at `now`."""
        data = self.rest + chunk if self.rest else chunk
        position = 0
        length = len(data)
        meter = self.meter
        if meter is not None:
            meter.start = -1
        while length - position >= 8:
            if meter is not None and meter.length and not self.remaining:
                position = meter.like_the_last(data, position, now)
                if length - position < 8:
                    break
            end = frame_end(data, position)
            if end >= length:
                break
            if data[end] != FRAME_END:
                raise BadFrame("a frame without its end")
            self._frame(data, position, end, now)
            position = end + 1
        self.rest = data[position:] if position else data

    def _frame(self, data: bytes, start: int, end: int, now: int) -> None:
        kind = data[start]
        if kind == METHOD:
            self._method(data, start, end, now)
        elif kind == HEADER:
            self._header(data, start, end, now)
        elif kind == BODY:
            self._body(data, start, end, now)
        elif kind != HEARTBEAT:
            raise BadFrame(f"a frame of type {kind}")

    def _method(self, data: bytes, start: int, end: int, now: int) -> None:
        if data[start + 8] == BASIC and not data[start + 7] and not data[start + 9]:
            method = data[start + 10]
            if method == DELIVER and self.meter is not None:
                self.returning = False
                self.meter.deliver(data, start)
                return
            if (method == ACK or method == NACK) and self.ledger is not None:
                flags = data[start + 19]
                tag = number(data, start + 11, 8)
                self.ledger.settle(tag, now, multiple=bool(flags & 1), refused=method == NACK)
                return
            if method == RETURN:
                self.returning = True
                self.returned += 1
                return
        self.others.append((METHOD, data[start + 1] << 8 | data[start + 2], data[start + 7 : end]))

    def _header(self, data: bytes, start: int, end: int, now: int) -> None:
        self.remaining = number(data, start + 11, 8)
        self.single = True
        if not self.remaining and not self.returning and self.meter is not None:
            self.meter.complete(data, -1, end + 1, now)

    def _body(self, data: bytes, start: int, end: int, now: int) -> None:
        self.remaining -= end - start - 7
        if self.returning:
            self._excuse(data, start + 7, end)
            return
        if self.meter is None:
            return
        self.meter.body(data, start + 7, end)
        if self.remaining > 0:
            self.single = False
        else:
            self.meter.complete(data, start + 7 if self.single else -1, end + 1, now)

    def _excuse(self, data: bytes, start: int, end: int) -> None:
        """A numbered message came back as unroutable: nobody will receive it."""
        if self.numbered and self.single and self.ledger is not None and end - start >= NUMBERED_SIZE:
            self.ledger.refused.append(number(data, start + 16, 8))
        self.single = False
