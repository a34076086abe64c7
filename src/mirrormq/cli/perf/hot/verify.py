"""The check of `--verify`: was every message received, once, in order? Compiled.

Each message carries its run, its producer and its sequence number. Per queue and producer a bitmap remembers what has
been seen; each consumer remembers the last number it saw of each producer. Order is judged by consumer, because only
the messages of one consumer have an order that the broker promises; a redelivered message may come late and again.
"""

from __future__ import annotations


class Seen:
    """The sequence numbers of one producer that have come out of one queue."""

    def __init__(self) -> None:
        self.bits: bytearray = bytearray(1024)

    def mark(self, sequence: int) -> bool:
        """Remember `sequence`; True when it was there before."""
        place = sequence >> 3
        if place >= len(self.bits):
            self.bits.extend(bytes(max(len(self.bits), place + 1 - len(self.bits))))
        bit = 1 << (sequence & 7)
        known = bool(self.bits[place] & bit)
        self.bits[place] |= bit
        return known


class Witness:
    """What one consumer saw, and what all consumers of its queue saw together (`seen`, shared)."""

    def __init__(self, run: int, queue: str, seen: dict[int, Seen]) -> None:
        self.run: int = run
        self.queue: str = queue
        self.seen: dict[int, Seen] = seen
        self.last: dict[int, int] = {}
        self.duplicated: int = 0
        self.disordered: int = 0
        self.again: int = 0
        self.foreign: int = 0

    def saw(self, run: int, producer: int, sequence: int, redelivered: bool) -> None:
        """A delivery of message `sequence` of `producer`."""
        if run != self.run:
            self.foreign += 1
            return
        if self._seen_of(producer).mark(sequence):
            self._repeated(redelivered)
        elif sequence > self.last.get(producer, 0):
            self.last[producer] = sequence
        elif not redelivered:
            self.disordered += 1

    def _seen_of(self, producer: int) -> Seen:
        known = self.seen.get(producer)
        if known is None:
            known = self.seen[producer] = Seen()
        return known

    def _repeated(self, redelivered: bool) -> None:
        if redelivered:
            self.again += 1
        else:
            self.duplicated += 1
