"""Publishing: one message as bytes, to be stamped and repeated, and the ledger of unsettled confirms. Compiled."""

from __future__ import annotations

from typing import Final

from .histogram import Histogram

STAMP_SIZE: Final = 8
NUMBERED_SIZE: Final = 24


class Block:
    """One producer's message as frames, split where the stamp goes. `mark` (run and producer) numbers the messages."""

    def __init__(self, head: bytes, tail: bytes, mark: bytes, *, stamped: bool) -> None:
        self.head: bytes = head
        self.tail: bytes = tail
        self.mark: bytes = mark
        self.stamped: bool = stamped
        self.size: int = len(head) + len(tail) + (STAMP_SIZE if stamped else 0)
        if mark:
            self.size += NUMBERED_SIZE - STAMP_SIZE

    def messages(self, stamp: int, first: int, count: int) -> bytes:
        """`count` messages, numbered from `first`, as one write."""
        if self.mark:
            return self._numbered(stamp, first, count)
        if not self.stamped:
            return self.head * count
        return (self.head + stamp.to_bytes(8, "big") + self.tail) * count

    def _numbered(self, stamp: int, first: int, count: int) -> bytes:
        head = self.head + stamp.to_bytes(8, "big") + self.mark
        parts: list[bytes] = []
        for sequence in range(first, first + count):
            parts.append(head)
            parts.append(sequence.to_bytes(8, "big"))
            parts.append(self.tail)
        return b"".join(parts)


class Ledger:
    """The publishes of one channel that wait for their confirm. Tags up to `low` are settled, and those in `loose`.

    Without confirms (`awaited` is False) a publish counts as settled when it is written.
    """

    def __init__(self, latency: Histogram, *, awaited: bool) -> None:
        self.latency: Histogram = latency
        self.awaited: bool = awaited
        self.sent: int = 0
        self.low: int = 0
        self.loose: set[int] = set()
        self.confirmed: int = 0
        self.nacked: int = 0
        self.refused: list[int] = []
        self.lasts: list[int] = []
        self.stamps: list[int] = []
        self.at: int = 0

    def publish(self, count: int, stamp: int) -> None:
        """`count` more messages were written at `stamp`."""
        self.sent += count
        if not self.awaited:
            self.low = self.sent
            return
        self.lasts.append(self.sent)
        self.stamps.append(stamp)
        if self.at > 1024:
            del self.lasts[: self.at]
            del self.stamps[: self.at]
            self.at = 0

    def outstanding(self) -> int:
        """How many publishes are neither confirmed nor refused."""
        return self.sent - self.low - len(self.loose)

    def unsettled(self) -> list[int]:
        """The sequence numbers that were never answered."""
        return [tag for tag in range(self.low + 1, self.sent + 1) if tag not in self.loose]

    def settle(self, tag: int, now: int, *, multiple: bool, refused: bool) -> None:
        """A basic.ack (or nack, `refused`) of the broker. Tag 0 with multiple means all."""
        if multiple and not tag:
            tag = self.sent
        before = self.outstanding()
        if refused:
            self._remember_refused(tag, multiple)
        if multiple or tag == self.low + 1:
            self._settle_to(tag, now)
        elif tag > self.low and tag not in self.loose:
            self.loose.add(tag)
            self.latency.add((now - self._stamp_of(tag)) // 1000, 1)
        count = before - self.outstanding()
        if refused:
            self.nacked += count
        else:
            self.confirmed += count

    def _remember_refused(self, tag: int, multiple: bool) -> None:
        first = self.low + 1 if multiple else tag
        self.refused.extend([one for one in range(first, tag + 1) if one > self.low and one not in self.loose])

    def _settle_to(self, tag: int, now: int) -> None:
        tag = min(tag, self.sent)
        while self.low < tag or (self.loose and self.low + 1 in self.loose):
            last = self.lasts[self.at]
            upto = min(last, max(tag, self.low + 1))
            fresh = upto - self.low
            if self.loose:
                fresh = self._without_loose(upto)
            if fresh:
                self.latency.add((now - self.stamps[self.at]) // 1000, fresh)
            self.low = upto
            if upto == last:
                self.at += 1

    def _without_loose(self, upto: int) -> int:
        fresh = 0
        for tag in range(self.low + 1, upto + 1):
            if tag in self.loose:
                self.loose.discard(tag)
            else:
                fresh += 1
        return fresh

    def _stamp_of(self, tag: int) -> int:
        low, high = self.at, len(self.lasts)
        while low < high:
            middle = (low + high) // 2
            if self.lasts[middle] < tag:
                low = middle + 1
            else:
                high = middle
        return self.stamps[low]
