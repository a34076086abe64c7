"""What a queue writes into its log: entries gathered for the turn's chunk, reservations, and who waits for them.

Rules
 1. Every message gets the next index. It is logged at once if it is persistent and the queue durable, or if memory has no room
    for it; indexes that were never logged are bridged by a skip entry, so the log stays contiguous.
 2. Whatever ends a logged message (acknowledged, expired, dropped, purged) is logged as ranges, once a turn.
 3. `redelivered` is never false for a message that was delivered: the queue reserves a window of indexes in the log ahead of
    delivering from it, and does not deliver past what is stably reserved. The window follows what consumers can hold and how
    fast they settle (`pace.py`), for after a failover everything in it looks delivered.
 4. A dead letter enters its target before its end is logged here: a crash between the two may double it and cannot lose it.
 5. A mirrored queue gives its chunks to its ring. Every message is logged then, and what waits for persistent ones passes when
    they are on disk all round, for transient ones when they are received all round. A transient one that a consumer waits for,
    and that needs a reservation first, is confirmed with that. Each message says whose it is (origin).
 6. A mirrored queue delivers what has been received all round. Else a leader that is deposed, and does not know it yet, would
    deliver what its publisher sends to the next one, which delivers it once more and knows nothing of the first time.
 7. A leader that may have been deposed delivers nothing (`is_doubted`, see `mirror/rings.py`): what it has reserved, the next
    one delivers as well.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.bindings import Destination
from mirrormq.broker.message import Message
from mirrormq.broker.ports import RingPort
from mirrormq.broker.stability import Barrier, Unstable, pass_all
from mirrormq.log.entries import LOST, RESTART, TRANSIENT, ChunkBuilder
from mirrormq.log.errors import QueueDamaged
from mirrormq.log.fold import MAX_PUBLISHERS, add_index

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

EXPIRED: Final = 1                  # why a message ended without being acknowledged
OVERFLOW: Final = 2
PURGED: Final = 3
REJECTED: Final = 4
REASONS: Final = {EXPIRED: "expired", OVERFLOW: "maxlen", REJECTED: "rejected"}
HELD_WINDOW: Final = 16384          # beyond so many unacknowledged messages their content stays in the log only
HELD_BYTES: Final = 16 << 20        # and beyond so many bytes of them, of one queue
HELD_BY_ALL: Final = 256 << 20      # or of all


class ReservedMark(Barrier):
    """The reservation up to an index has become stable. What was reserved before a withdrawal does not count behind it."""

    def __init__(self, queue: QueueLog, upto: i64) -> None:
        super().__init__()
        self.queue: QueueLog = queue
        self.upto: i64 = upto
        self.withdrawals: i64 = queue.withdrawals

    def passed(self) -> None:
        if self.upto > self.queue.reserved_stably and self.withdrawals == self.queue.withdrawals:
            self.queue.reserved_stably = self.upto
        self.queue.look_ahead()
        self.queue.activate()
        self.queue.offer()


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
        self.is_closed: bool = False            # and what is held of it does not count among all
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
        self.withdrawals: i64 = 0               # how often a reservation was taken back
        self.deliverable: i64 = 0               # what is below this index may be delivered without a further look
        self.is_consumed: bool = False
        # of a mirrored queue that leads here
        self.ring: RingPort | None = None
        self.is_awaited: bool = False           # a consumer waits for the head, and the head for a reservation
        self.is_doubted: bool = False           # another node may lead by now: nothing is delivered until the store says no
        self.doubters: list[Barrier] = []       # gets that wait for that
        self.is_held: bool = False              # nothing is sealed: the lead is being handed over
        self.light: list[Barrier] = []          # who waits until this turn's transient messages are received all round
        self.unstable: deque[Unstable] = deque()        # by index
        self.unreceived: deque[Unstable] = deque()
        self.ring_durable: i64 = 0
        self.ring_received: i64 = 0
        self.is_enough: bool = True             # as many members are in sync as the policy asks for
        self.origin: i64 = 0                    # the publisher whose run is being enqueued, and its message
        self.origin_sequence: i64 = 0
        self.stretch_of: i64 = 0                # messages of one publisher in a row that the chunk does not name yet
        self.stretch_sequence: i64 = 0
        self.stretch_first: i64 = 0
        self.stretch: i64 = 0
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

    def offer(self) -> None:
        """Some consumer can take more: it gets it now, before the turn's work."""
        raise NotImplementedError

    def window(self) -> i64:
        """How many indexes are reserved ahead of a delivery."""
        raise NotImplementedError

    def log_message(self, message: Message, flags: int) -> None:
        if self.unlogged:
            self._bridge()
        self.builder.enqueue(flags, message.address, message.content, message.size)
        message.logged = True
        if not flags & TRANSIENT:
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
        if not message.logged or (self.ring is None and not (self.keeps and message.persistent)):
            return False
        if message.index >= self.reserved:
            self.reserve(message.index, max(self.window(), 1))
        return True

    def look_ahead(self) -> None:
        """More is stable than before, or the queue is in a ring now."""
        self.deliverable = self.reserved_stably
        if self.ring is not None and self.ring_received + 1 < self.deliverable:
            self.deliverable = self.ring_received + 1
        if self.is_doubted:
            self.deliverable = 0

    def reserve(self, index: i64, window: i64) -> None:
        self.reserved = index + window
        if self.unlogged:
            self._bridge()
        self.builder.reserve(self.reserved)
        self.next_index += 1
        mark = ReservedMark(self, self.reserved)
        mark.outstanding = 1
        self.waiters.insert(0, mark)        # a message is delivered before it is confirmed
        self.activate()

    def withdraw(self, index: i64) -> None:
        """Nothing from `index` on has been delivered, and nobody is left to deliver to."""
        self.withdrawals += 1
        self.reserved_stably = min(self.reserved_stably, index)
        self.look_ahead()
        self.reserve(index, 0)

    def hold(self, message: Message) -> None:
        self.held += 1
        self.held_bytes += message.size
        if not self.is_closed:
            self.broker.budget.held += message.size
        if message.logged:
            self.held_logged.add(message.index)

    def holds_much(self) -> bool:
        """Whether what is delivered now is not kept in memory until it is settled."""
        return self.held > HELD_WINDOW or self.held_bytes > HELD_BYTES or self.broker.budget.held > HELD_BY_ALL

    def _let_go(self, message: Message) -> None:
        self.held -= 1
        self.held_bytes -= message.size
        if not self.is_closed:
            self.broker.budget.held -= message.size
        if message.logged:
            self.held_logged.discard(message.index)

    def forget_held(self) -> None:
        """Who holds messages of a queue that led here may never settle them here: they do not count any more."""
        if not self.is_closed:
            self.is_closed = True
            self.broker.budget.held -= self.held_bytes

    def note_dead_letter(self, message: Message, reason: int) -> None:
        ended_for(self.dead_lettered, reason).add(message)

    def seal(self) -> None:
        """Close this turn's chunk and give it to the log."""
        if self.is_held:
            return
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
        if self.dead_lettered and not self.is_held:
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
            if self.stretch:
                self._name_stretch()
            first = builder.first_index
            count = builder.count
            broker = self.broker
            ring = self.ring
            if ring is None:
                try:
                    broker.log.append(self.log_id, first, count, builder.seal(broker.now), sync=len(self.waiters) > 0)
                except QueueDamaged:
                    for waiter in self.waiters:
                        waiter.is_lost = True
                    raise
            else:
                ring.append(first, count, builder.seal(broker.now), waits=self.is_consumed or len(self.light) > 0)

    def _append(self) -> None:
        """The turn's end. Who waits although nothing is gathered waits for what was appended before."""
        self.append_gathered()
        waiters = self.waiters
        if self.ring is not None:
            self._wait_for_ring(waiters)
        elif waiters:
            self.waiters = []
            self.last_waiter = None
            broker = self.broker
            if broker.log.position > broker.stability.reached:
                # What they wait for may have been appended when nobody waited yet, so without a sync: the acknowledgements of a
                # transaction, whose fence comes a turn later from another node.
                broker.log.sync()
            broker.stability.add(broker.log.position, waiters)

    # --- in a ring ----------------------------------------------------------------------------------------------

    def end_lost(self, ranges: list[int]) -> None:
        """This log leads, and others may hold more: these indexes are messages no longer, wherever they are."""
        self.builder.drop(LOST, ranges, self.kept, self.kept_bytes)
        self.next_index += 1
        self.activate()

    def end_transient(self, indexes: list[int]) -> None:
        """All who held this log were down: these messages, which are transient, end on every member alike."""
        ranges: list[int] = []
        for index in indexes:
            add_index(ranges, index, index)
        self.builder.drop(RESTART, ranges, 0, 0)
        self.next_index += 1
        self.activate()

    def note_origin(self, index: i64) -> None:
        """The message with this index is the one whose origin is set."""
        if self.stretch and (self.stretch_of != self.origin or self.stretch_sequence + self.stretch != self.origin_sequence
                             or self.stretch_first + self.stretch != index):
            self._name_stretch()
        if not self.stretch:
            self.stretch_of = self.origin
            self.stretch_sequence = self.origin_sequence
            self.stretch_first = index
        self.stretch += 1

    def _name_stretch(self) -> None:
        self.builder.origin(self.stretch_of, self.stretch_sequence, self.stretch_first, self.stretch)
        self.stretch = 0

    def _wait_for_ring(self, waiters: list[Barrier]) -> None:
        last: i64 = self.builder.next_index - 1
        light = self.light
        if light and self.is_awaited:       # a message is delivered before it is confirmed
            self.light = []
            waiters = waiters + light
            light = []
        if waiters:
            self.waiters = []
            self.last_waiter = None
            self.unstable.append(Unstable(last, waiters))
        if light:
            self.light = []
            self.unreceived.append(Unstable(last, light))
        if (waiters and last <= self.ring_durable) or (light and last <= self.ring_received):
            self.broker.ripe.append(self)

    def reach(self, durable: i64, received: i64, *, is_enough: bool) -> None:
        """The ring has everything up to these indexes, on disk and in memory."""
        self.ring_durable = durable
        self.ring_received = received
        self.is_enough = is_enough
        self.look_ahead()
        self.broker.ripe.append(self)

    def trust(self) -> None:
        """The store says that this node leads."""
        self.is_doubted = False
        self.look_ahead()
        doubters = self.doubters
        self.doubters = []
        pass_all(doubters)
        self.activate()

    def release(self) -> None:
        """Who waited for what the ring has now may go on. Confirms leave with the turn, behind what is delivered here."""
        self._release(self.unstable, self.ring_durable)
        self._release(self.unreceived, self.ring_received)
        if self.is_consumed:
            self.activate()
            self.offer()

    def _release(self, pending: deque[Unstable], upto: i64) -> None:
        while pending and pending[0].position <= upto:
            waiters = pending.popleft().waiters
            if not self.is_enough:
                for waiter in waiters:
                    waiter.is_lost = waiter.is_lost or waiter.is_publish
            pass_all(waiters)
