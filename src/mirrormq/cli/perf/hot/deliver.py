"""Consuming: deliveries are counted, measured and acknowledged. Compiled.

Deliveries from one producer to one consumer differ only in delivery tag, redelivered bit and stamp. The meter learns
the bytes around those from one delivery and compares the next ones to it; whatever differs is parsed frame by frame.
"""

from __future__ import annotations

from typing import Final

from .histogram import Histogram
from .publish import NUMBERED_SIZE, STAMP_SIZE
from .verify import Witness

METHOD: Final = 1
BASIC: Final = 60
DELIVER: Final = 60
FRAME_END: Final = 0xCE
ACK_HEAD: Final = b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50"
ACK_ONE: Final = b"\x00\xce"
ACK_ALL: Final = b"\x01\xce"
NO_STAMP: Final = bytes(STAMP_SIZE)
# A stamp further away than this is no latency: the message is somebody else's.
FOREIGN_NS: Final = 30 * 86400 * 1_000_000_000


class BadFrame(Exception):
    """The broker sent bytes that are no AMQP frame."""


def number(data: bytes, start: int, size: int) -> int:
    """An unsigned big-endian number inside `data`."""
    return int.from_bytes(data[start : start + size], "big")


class Meter:
    """The deliveries to one consumer: counted, measured, acknowledged into `out` by `every` messages (0: auto-ack)."""

    def __init__(self, latency: Histogram, every: int, limit: int, witness: Witness | None) -> None:
        self.latency: Histogram = latency
        self.every: int = every
        self.left: int = limit or 1 << 60
        self.witness: Witness | None = witness
        self.out: bytearray = bytearray()
        self.received: int = 0
        self.redelivered: int = 0
        self.unacked: int = 0
        self.tag: bytes = b""
        # The shape of a delivery: what precedes the tag, what lies between redelivered bit and body, and its length.
        self.prefix: bytes = b""
        self.middle: bytes = b""
        self.length: int = 0
        # The delivery that is being read frame by frame; offsets are -1 when its beginning was in an earlier chunk.
        self.start: int = -1
        self.tag_at: int = 0
        self.again: bool = False
        self.stamp: bytes = NO_STAMP
        self.mark: bytes = b""

    def like_the_last(self, data: bytes, start: int, now: int) -> int:
        """Read deliveries of the known shape from `start` on; the position behind the last one."""
        length = self.length
        tag_at = len(self.prefix)
        high, low = self.prefix[5], self.prefix[6]
        expected = self.middle + self.stamp
        body_at = tag_at + 9 + len(self.middle)
        end = len(data) - length
        run = 0
        # Size and ids of the method frame are compared here; what follows the tag, frame ends included, by `expected`.
        while start <= end and self.left and data[start + 6] == low and data[start + 5] == high:
            if data[start] != METHOD or data[start + 8] != BASIC or data[start + 10] != DELIVER:
                break
            place = start + tag_at
            if not data.startswith(expected, place + 9):
                if not data.startswith(self.middle, place + 9):
                    break
                self._measure(run, now)
                run = 0
                self.stamp = data[start + body_at : start + body_at + STAMP_SIZE]
                expected = self.middle + self.stamp
            if data[start + length - 1] != FRAME_END:
                raise BadFrame("a body frame without its end")
            run += 1
            self.left -= 1
            if data[place + 8]:
                self.redelivered += 1
            if self.witness is not None:
                self._check(data[start + body_at : start + body_at + NUMBERED_SIZE], data[place + 8] != 0)
            self._settle(data, place)
            start += length
        if run:
            self._measure(run, now)
            self.tag = data[start - length + tag_at : start - length + tag_at + 8]
        return start

    def deliver(self, data: bytes, start: int) -> None:
        """A basic.deliver frame begins at `start`."""
        self.start = start
        self.tag_at = start + 12 + data[start + 11]
        self.tag = data[self.tag_at : self.tag_at + 8]
        self.again = data[self.tag_at + 8] != 0
        self.stamp = NO_STAMP
        self.mark = b""

    def body(self, data: bytes, start: int, end: int) -> None:
        """A body payload from `start` to `end`."""
        if self.mark:
            return
        self.mark = data[start : min(start + NUMBERED_SIZE, end)]
        if len(self.mark) >= STAMP_SIZE:
            self.stamp = self.mark[:STAMP_SIZE]

    def complete(self, data: bytes, body_at: int, end: int, now: int) -> None:
        """The delivery is whole. When it lies in this chunk with one body frame at `body_at`, its shape is learnt."""
        if not self.left:
            return
        self.left -= 1
        if self.again:
            self.redelivered += 1
        if self.witness is not None:
            self._check(self.mark, self.again)
        self._measure(1, now)
        self._settle(self.tag, 0)
        if self.start >= 0 and body_at >= 0 and end - body_at > STAMP_SIZE:
            self.prefix = data[self.start : self.tag_at]
            self.middle = data[self.tag_at + 9 : body_at]
            self.length = end - self.start

    def acknowledge_rest(self) -> None:
        """Acknowledge what waits for more messages to share an ack with."""
        if self.unacked and self.every:
            self.out += ACK_HEAD + self.tag + ACK_ALL
        self.unacked = 0

    def _settle(self, data: bytes, place: int) -> None:
        if self.every == 1:
            self.out += ACK_HEAD + data[place : place + 8] + ACK_ONE
        elif self.every:
            self.unacked += 1
            if self.unacked >= self.every:
                self.out += ACK_HEAD + data[place : place + 8] + ACK_ALL
                self.unacked = 0

    def _measure(self, count: int, now: int) -> None:
        self.received += count
        if not count:
            return
        waited = now - int.from_bytes(self.stamp, "big")
        if -FOREIGN_NS < waited < FOREIGN_NS:
            self.latency.add(waited // 1000, count)

    def _check(self, mark: bytes, redelivered: bool) -> None:
        assert self.witness is not None
        if len(mark) < NUMBERED_SIZE:
            self.witness.foreign += 1
            return
        self.witness.saw(number(mark, 8, 4), number(mark, 12, 4), number(mark, 16, 8), redelivered)
