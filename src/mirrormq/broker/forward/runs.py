"""Publishes that are forwarded: runs on the publishers' node, and what the home remembers of each publisher.

Rules
 1. A run is what one node published to one queue in one turn, under consecutive sequence numbers. It travels as one frame, so the
    home has all of it or nothing.
 2. The clients' node keeps a run until the home has confirmed it, and sends the same bytes again after a broken link. The home
    skips what it has seen, so nothing is enqueued twice.
 3. The home remembers which sequences it refused for as long as its answer may have been lost.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.forward.codec import MESSAGE, RUN, RUN_SIZE, SAME
from mirrormq.log.ranges import RangeSet

if TYPE_CHECKING:
    from mirrormq.broker.message import Message
    from mirrormq.broker.stability import Barrier


class Publisher:
    """What a queue remembers of one node's publishes: the last sequence, and those it refused."""

    def __init__(self) -> None:
        self.last: i64 = 0
        self.refused: list[int] = []
        self.uncertain: i64 = 0         # up to here it is known from the log, which tells what was taken,
        self.unsure: i64 = 0            # but not of what is not above this
        self.taken: RangeSet = RangeSet()

    def is_new(self, sequence: i64) -> bool:
        return sequence > self.last

    def comes_early(self, first: i64, settled: i64) -> bool:
        """One before it is missing, and comes again. What was answered before `settled` may have been answered elsewhere."""
        return first > self.last + 1 and first > settled

    def settled(self, below: i64) -> None:
        if self.refused:
            self.refused = [sequence for sequence in self.refused if sequence >= below]


class Run:
    """Publishes of one turn to one queue. `starts`, `waiters` and `marks` tell whose each message is, for those that wait."""

    def __init__(self, first: i64) -> None:
        self.first: i64 = first
        self.count: i64 = 0
        self.size: i64 = 0
        self.messages: list[Message] = []
        self.contents: list[bytes] = []         # a queue here may take them from its messages
        self.frame: bytes = b""
        self.is_sent: bool = False
        self.last_waiter: Barrier | None = None
        self.starts: list[int] = []             # at which message of the run a stretch of one waiter begins,
        self.waiters: list[Barrier | None] = []
        self.marks_from: list[int] = []         # and where its marks begin
        self.marks: list[int] = []

    def add(self, message: Message, waiter: Barrier | None) -> i64:
        """Returns what the message adds to the size of the run."""
        content = message.content
        self.messages.append(message)
        self.contents.append(content)
        length: i64 = len(content)
        if waiter is not self.last_waiter:
            self._begin(waiter)
        if waiter is not None:
            self.marks.append(waiter.mark())
        self.count += 1
        self.size += length + 64
        return length + 64

    def _begin(self, waiter: Barrier | None) -> None:
        self.last_waiter = waiter
        self.starts.append(self.count)
        self.waiters.append(waiter)
        self.marks_from.append(len(self.marks))
        if waiter is not None:
            waiter.outstanding += 1

    def seal(self, log_id: i64, publisher: i64, settled: i64) -> None:
        """Make it bytes. All messages before `settled` were answered."""
        head = RUN.pack(log_id, publisher, self.first, settled, self.count)
        if self.frame:
            self.frame = head + self.frame[RUN_SIZE:]
        else:
            self.frame = head + self._pack()
            self.messages = []
            self.contents = []

    def _pack(self) -> bytes:
        pieces: list[bytes] = []
        last: bytes | None = None
        for message, content in zip(self.messages, self.contents, strict=True):
            address = message.address
            if address is last:
                pieces.append(MESSAGE.pack(SAME, message.size, len(content)))
            else:
                last = address
                pieces.append(MESSAGE.pack(len(address), message.size, len(content)))
                pieces.append(address)
            pieces.append(content)
        return b"".join(pieces)

    def refuse(self, sequence: i64) -> None:
        """One of them was not taken."""
        place = sequence - self.first
        at = len(self.starts) - 1
        while at >= 0 and self.starts[at] > place:
            at -= 1
        if at >= 0:
            waiter = self.waiters[at]
            if waiter is not None:
                waiter.refuse(self.marks[self.marks_from[at] + place - self.starts[at]])

    def refuse_all(self) -> None:
        if self.starts:
            for place in range(self.count):
                self.refuse(self.first + place)

    def done(self) -> None:
        """The home has answered for all of them."""
        waiters = self.waiters
        self.waiters = []
        self.starts = []
        for waiter in waiters:
            if waiter is not None:
                waiter.outstanding -= 1
                if waiter.outstanding == 0:
                    waiter.passed()
