"""What a queue writes into its log: entries gathered for the turn's chunk, reservations, and who waits for them.

Rules
 1. Every message gets the next index. It is logged at once if it is persistent and the queue durable, or if memory has no room
    for it; indexes that were never logged are bridged by a skip entry, so the log stays contiguous.
 2. Whatever ends a logged message (acknowledged, expired, dropped, purged) is logged as ranges, once a turn.
 3. `redelivered` is never false for a message that was delivered: the queue reserves a window of indexes in the log ahead of
    delivering from it, and does not deliver past what is stably reserved.
 4. A dead letter enters its target before its end is logged here: a crash between the two may double it and cannot lose it.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.bindings import Destination
from mirrormq.broker.message import Message
from mirrormq.broker.stability import Barrier
from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.fold import MAX_PUBLISHERS

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

EXPIRED: Final = 1                  # why a message ended without being acknowledged
OVERFLOW: Final = 2
PURGED: Final = 3
REJECTED: Final = 4
REASONS: Final = {EXPIRED: "expired", OVERFLOW: "maxlen", REJECTED: "rejected"}
RESERVE: Final = 8192               # indexes ahead of the last delivery while there are consumers
RESERVE_FOR_GETS: Final = 64        # and where messages are only taken one by one


class ReservedMark(Barrier):
    """The reservation up to an index has become stable."""

    def __init__(self, queue: QueueLog, upto: i64) -> None:
        super().__init__()
        self.queue: QueueLog = queue
        self.upto: i64 = upto

    def passed(self) -> None:
        if self.upto > self.queue.reserved_stably:
            self.queue.reserved_stably = self.upto
        self.queue.activate()


class Ended:
    """Logged messages that ended this turn for one reason: flat ranges, and how many of them were persistent."""

    def __init__(self) -> None:
        self.ranges: list[int] = []
        self.high: i64 = -2
        self.count: i64 = 0
        self.bytes: i64 = 0

    def add(self, message: Message) -> None:
        index = message.index
        if index == self.high + 1:
            self.ranges[-1] = index
        else:
            self.ranges.append(index)
            self.ranges.append(index)
        self.high = index
        if message.persistent:
            self.count += 1
            self.bytes += message.size

    def clear(self) -> None:
        self.ranges = []
        self.high = -2
        self.count = 0
        self.bytes = 0


def ended_for(by_reason: dict[int, Ended], reason: int) -> Ended:
    ended = by_reason.get(reason)
    if ended is None:
        ended = by_reason[reason] = Ended()
    return ended


class QueueLog(Destination):
    """The half of a queue that faces its log."""

    def __init__(self, broker: Broker, name: str, log_id: int, *, keeps: bool) -> None:
        super().__init__(name, "queue")
        self.broker: Broker = broker
        self.log_id: i64 = log_id
        self.keeps: bool = keeps                # what is persistent here outlives the process
        self.builder: ChunkBuilder = ChunkBuilder(log_id, 1, 1)
        self.next_index: i64 = 1
        self.unlogged: i64 = 0                  # indexes given since the last log entry that the log does not know
        self.held: i64 = 0                      # delivered, not yet acknowledged
        self.held_bytes: i64 = 0
        self.held_logged: set[int] = set()      # indexes of those that are in the log
        self.kept: i64 = 0                      # persistent messages in the log that are live, and their size
        self.kept_bytes: i64 = 0
        self.ended_bytes: i64 = 0               # of those that ended since the log was last trimmed
        self.acked: Ended = Ended()
        self.dropped: dict[int, Ended] = {}
        self.dead_lettered: dict[int, Ended] = {}
        self.waiters: list[Barrier] = []
        self.last_waiter: Barrier | None = None
        self.reserved: i64 = 0
        self.reserved_stably: i64 = 0
        self.is_consumed: bool = False
        self.senders: dict[int, tuple[int, int]] = {}   # numbered messages: publisher to its last (sequence, index)

    def sent_by(self, publisher: int, sequence: i64, count: i64) -> None:
        """The next `count` messages are this publisher's, numbered from `sequence` on. They must follow at once."""
        self.builder.origin(publisher, sequence, self.next_index, count)
        senders = self.senders
        senders.pop(publisher, None)
        senders[publisher] = (sequence + count - 1, self.next_index + count - 1)
        if len(senders) > MAX_PUBLISHERS:
            del senders[next(iter(senders))]

    def sender_numbers(self) -> list[int]:
        numbers: list[int] = []
        for publisher, (sequence, index) in self.senders.items():
            numbers += (publisher, sequence, index)
        return numbers

    def activate(self) -> None:
        """Have the queue's work done in the next turn."""
        raise NotImplementedError


    def log_message(self, message: Message, flags: int) -> None:
        if self.unlogged:
            self._bridge()
        self.builder.enqueue(flags, message.address, message.content, message.size)
        message.logged = True
        if flags == 0:
            self.kept += 1
            self.kept_bytes += message.size

    def _bridge(self) -> None:
        self.builder.skip(self.unlogged)
        self.unlogged = 0

    def _wait(self, waiter: Barrier) -> None:
        self.last_waiter = waiter
        waiter.outstanding += 1
        self.waiters.append(waiter)

    def wait_for_chunk(self, waiter: Barrier) -> None:
        """Let `waiter` wait for everything that is gathered for this turn's chunk."""
        if self.last_waiter is not waiter:
            self._wait(waiter)
        self.activate()

    def _must_wait(self, message: Message) -> bool:
        """Whether a crash right after delivering this message would make its next delivery look like the first."""
        if not self.keeps or not message.logged or not message.persistent:
            return False
        if message.index >= self.reserved:
            self.reserve(message.index, RESERVE if self.is_consumed else RESERVE_FOR_GETS)
        return True

    def reserve(self, index: i64, window: i64) -> None:
        self.reserved = index + window
        if self.unlogged:
            self._bridge()
        self.builder.reserve(self.reserved)
        self.next_index += 1
        self._wait(ReservedMark(self, self.reserved))
        self.activate()

    def hold(self, message: Message) -> None:
        self.held += 1
        self.held_bytes += message.size
        if message.logged:
            self.held_logged.add(message.index)

    def _let_go(self, message: Message) -> None:
        self.held -= 1
        self.held_bytes -= message.size
        if message.logged:
            self.held_logged.discard(message.index)

    def note_dead_letter(self, message: Message, reason: int) -> None:
        ended_for(self.dead_lettered, reason).add(message)

    def seal(self) -> None:
        """Close this turn's chunk and give it to the log."""
        if self.acked.ranges:
            acked = self.acked
            if self.unlogged:
                self._bridge()
            self.builder.ack(acked.ranges, acked.count, acked.bytes)
            self.next_index += 1
            self.kept -= acked.count
            self.kept_bytes -= acked.bytes
            self.ended_bytes += acked.bytes
            acked.clear()
        if self.dropped:
            self._log_drops(self.dropped)
        self._append()

    def seal_dead_letters(self) -> None:
        """The ends of dead letters, logged after the chunks of their targets."""
        if self.dead_lettered:
            self._log_drops(self.dead_lettered)
            self._append()

    def _log_drops(self, dropped: dict[int, Ended]) -> None:
        if self.unlogged:
            self._bridge()
        for reason, ended in dropped.items():
            self.builder.drop(reason, ended.ranges, ended.count, ended.bytes)
            self.next_index += 1
            self.kept -= ended.count
            self.kept_bytes -= ended.bytes
            self.ended_bytes += ended.bytes
        dropped.clear()

    def append_gathered(self) -> None:
        """Give the log what is gathered so far, in the middle of a turn: its waiters go on waiting for the turn's end."""
        builder = self.builder
        if builder.count:
            first = builder.first_index
            count = builder.count
            broker = self.broker
            broker.log.append(self.log_id, first, count, builder.seal(broker.now), sync=len(self.waiters) > 0)

    def _append(self) -> None:
        """The turn's end. Who waits although nothing is gathered waits for what was appended before."""
        self.append_gathered()
        waiters = self.waiters
        if waiters:
            self.waiters = []
            self.last_waiter = None
            self.broker.stability.add(self.broker.log.position, waiters)
