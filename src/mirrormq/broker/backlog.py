"""The ready messages of a queue: a window in memory, the rest only in the log.

Order is by index. Three places hold what is ready, and every index in one is below every index in the next, but for `returned`:
  returned   requeued messages, by index; always older than anything that was not yet delivered. Those that were given back
             without their content get it from the log when they are popped
  window     messages in memory, next to be delivered
  tail       messages that exist only in the log, from `tail_next` on: a count and a size
A message enters the window while nothing is in the tail and the window has room. Otherwise only its log entry is kept.
"""
from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from mirrormq.broker.message import NEVER, InfoCache, Message
from mirrormq.broker.ports import LogPort
from mirrormq.log.entries import REDELIVERED, TRANSIENT, Entry

if TYPE_CHECKING:
    from mirrormq.broker.queue_log import QueueLog

WINDOW_MESSAGES: Final = 8192
WINDOW_BYTES: Final = 8 << 20
READ_BYTES: Final = 512 << 10
LOW_MESSAGES: Final = 512           # a window that has less than both is filled up from the log
LOW_BYTES: Final = 1 << 20
SMALL_MESSAGES: Final = 16          # what a window holds when all of them together hold too much
SMALL_BYTES: Final = 64 << 10
ENTRY_OVERHEAD: Final = 320         # what a small message costs in memory beside its bytes
BUDGET: Final = 256 << 20


class LogHole(Exception):
    """The log does not have what the queue knows to be there. The queue must not be served as if nothing had happened."""


class Budget:
    """Memory held by the windows of all queues; when it is used up, queues keep only a small window. `held` are the bytes that
    clients hold of all queues: when those are too many, the log alone keeps what is delivered."""

    def __init__(self, limit: int = BUDGET) -> None:
        self.limit: i64 = limit
        self.used: i64 = 0
        self.held: i64 = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Backlog:
    """Base of the plain and the priority backlog."""

    def __init__(self, log: LogPort, infos: InfoCache, budget: Budget) -> None:
        self.log: LogPort = log
        self.infos: InfoCache = infos
        self.budget: Budget = budget
        self.writer: QueueLog | None = None     # who gathers entries that the log does not know yet
        self.log_id: i64 = 0
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.forgotten_below: i64 = 0       # transient entries below this index ended with an earlier run
        self.reserved: i64 = 0              # messages below this index may have been delivered by an earlier run
        self.ttl: i64 = -1

    def has_room(self, size: int) -> bool:
        """Whether a new message may live in memory; if not it must be logged and given to `push_logged`."""
        raise NotImplementedError

    def push(self, message: Message) -> None:
        raise NotImplementedError

    def push_logged(self, message: Message) -> None:
        """Count a message that is in the log; its content need not stay in memory."""
        raise NotImplementedError

    def put_back(self, message: Message) -> None:
        raise NotImplementedError

    def head(self) -> Message | None:
        raise NotImplementedError

    def pop(self) -> Message:
        raise NotImplementedError

    def take_light(self, since: int) -> list[Message]:
        """Take out, by index, every message that is not in the log. Where memory holds everything that is ready, take out also
        what is behind the first of them, or behind index `since`: whoever gives them new places keeps the order then."""
        return []

    def next_expiry(self) -> int:
        """When the first message expires that may; NEVER if none does. Only the head of a line expires, as in RabbitMQ."""
        head = self.head()
        return NEVER if head is None else head.expires

    def take_all(self, next_index: int) -> tuple[list[int], int, int]:
        """Empty it. Returns the log ranges that end, and the count and bytes of the persistent messages in them."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything; unlike `take_all` it needs nothing of the log."""
        raise NotImplementedError

    def cursor(self, next_index: int) -> int:
        """Every logged message at or above this index is live."""
        raise NotImplementedError

    def live_below(self, cursor: int) -> list[int]:
        raise NotImplementedError

    def message_of(self, entry: Entry) -> Message:
        properties_end = 7 + int.from_bytes(entry.content[3:7], "big")
        message = Message(entry.content, entry.address, self.infos.get(entry.content[19:properties_end]), entry.size)
        message.index = entry.index
        message.logged = True
        message.redelivered = entry.flags & REDELIVERED != 0 or entry.index < self.reserved
        ttl = message.info.ttl
        if self.ttl >= 0 and (ttl < 0 or self.ttl < ttl):
            ttl = self.ttl
        if ttl >= 0:
            message.expires = entry.time_ms + ttl
        if entry.flags & TRANSIENT:
            message.persistent = False
        return message

    def read(self, index: int, max_bytes: int) -> list[Entry]:
        """Messages from the log. What this turn has gathered may be among them, so it is appended first."""
        if self.writer is not None:
            self.writer.append_gathered()
        return self.log.read(self.log_id, index, max_bytes)

    def load(self, message: Message) -> None:
        """Before it is taken: a log that cannot be read must not cost a message."""
        if not message.content:
            message.content = self.content_at(message.index)

    def content_at(self, index: int) -> bytes:
        """The content of a live message that is in the log."""
        entries = self.read(index, 1)
        assert entries and entries[0].index == index, "a live message must be in the log"
        return entries[0].content

    def is_forgotten(self, entry: Entry) -> bool:
        return entry.flags & TRANSIENT != 0 and entry.index < self.forgotten_below


class PlainBacklog(Backlog):
    """The backlog of a queue without priorities: memory does not grow with it."""

    def __init__(self, log: LogPort, infos: InfoCache, budget: Budget) -> None:
        super().__init__(log, infos, budget)
        self.returned: list[tuple[int, Message]] = []
        self.window: deque[Message] = deque()
        self.window_bytes: i64 = 0
        self.tail: i64 = 0
        self.tail_next: i64 = 0
        self.tail_persistent: i64 = 0
        self.tail_persistent_bytes: i64 = 0

    def has_room(self, size: int) -> bool:
        if self.tail:
            return False
        if self.budget.used > self.budget.limit:
            return len(self.window) < SMALL_MESSAGES and self.window_bytes < SMALL_BYTES
        return len(self.window) < WINDOW_MESSAGES and self.window_bytes < WINDOW_BYTES

    def push(self, message: Message) -> None:
        self.window.append(message)
        self.window_bytes += message.size
        self.budget.used += message.size + ENTRY_OVERHEAD
        self.count += 1
        self.bytes += message.size

    def push_logged(self, message: Message) -> None:
        if self.has_room(message.size):
            self.push(message)
            return
        if not self.tail:
            self.tail_next = message.index
        self.tail += 1
        self.count += 1
        self.bytes += message.size
        if message.persistent:
            self.tail_persistent += 1
            self.tail_persistent_bytes += message.size

    def put_back(self, message: Message) -> None:
        heapq.heappush(self.returned, (message.index, message))
        self.count += 1
        self.bytes += message.size

    def head(self) -> Message | None:
        if self.returned:
            return self.returned[0][1]
        if not self.window and self.tail:
            self._refill()
        return self.window[0] if self.window else None

    def pop(self) -> Message:
        if self.returned:
            self.load(self.returned[0][1])
            message = heapq.heappop(self.returned)[1]
        else:
            if self.tail and self._is_low():
                self._refill()          # before anything is taken: a log that cannot be read must not cost a message
            message = self.window.popleft()
            self.window_bytes -= message.size
            self.budget.used -= message.size + ENTRY_OVERHEAD
        self.count -= 1
        self.bytes -= message.size
        return message

    def _is_low(self) -> bool:
        if len(self.window) >= LOW_MESSAGES or self.window_bytes >= LOW_BYTES:
            return False
        return self.budget.used <= self.budget.limit or not self.window

    def _refill(self) -> None:
        """Bring the next messages of the tail into the window."""
        while self.tail and self._is_low():
            entries = self.read(self.tail_next, READ_BYTES if self.budget.used <= self.budget.limit else SMALL_BYTES)
            if not entries:
                raise LogHole(f"{self.tail} messages from index {self.tail_next} on are not in the log")
            for entry in entries:
                if self.is_forgotten(entry):
                    continue
                message = self.message_of(entry)
                self.tail -= 1
                if message.persistent:
                    self.tail_persistent -= 1
                    self.tail_persistent_bytes -= message.size
                self.window.append(message)
                self.window_bytes += message.size
                self.budget.used += message.size + ENTRY_OVERHEAD
            self.tail_next = entries[-1].index + 1

    def take_all(self, next_index: int) -> tuple[list[int], int, int]:
        ranges: list[int] = []
        count: i64 = self.tail_persistent
        size: i64 = self.tail_persistent_bytes
        in_memory = [pair[1] for pair in sorted(self.returned)]
        in_memory.extend(self.window)
        for message in in_memory:
            if message.logged:
                extend_ranges(ranges, message.index, message.index)
                if message.persistent:
                    count += 1
                    size += message.size
        if self.tail:
            extend_ranges(ranges, self.tail_next, next_index - 1)
        self.clear()
        return ranges, count, size

    def take_light(self, since: int) -> list[Message]:
        in_memory = [pair[1] for pair in self.returned]
        in_memory.extend(self.window)
        taken = light_among(in_memory, since, moves_all=self.tail == 0)
        gone = {message.index for message in taken}
        self.returned = [pair for pair in self.returned if pair[0] not in gone]
        heapq.heapify(self.returned)
        for message in self.window:
            if message.index in gone:
                self.window_bytes -= message.size
                self.budget.used -= message.size + ENTRY_OVERHEAD
        self.window = deque([message for message in self.window if message.index not in gone])
        self.count -= len(taken)
        self.bytes -= sum([message.size for message in taken])
        return taken

    def clear(self) -> None:
        for message in self.window:
            self.budget.used -= message.size + ENTRY_OVERHEAD
        self.window.clear()
        self.returned = []
        self.window_bytes = 0
        self.tail = 0
        self.tail_persistent = 0
        self.tail_persistent_bytes = 0
        self.count = 0
        self.bytes = 0

    def cursor(self, next_index: int) -> int:
        for message in self.window:
            if message.logged:
                return message.index
        return self.tail_next if self.tail else next_index

    def live_below(self, cursor: int) -> list[int]:
        return [pair[0] for pair in self.returned if pair[1].logged]


def light_among(in_memory: list[Message], since: int, *, moves_all: bool) -> list[Message]:
    """See Backlog.take_light."""
    light = [message.index for message in in_memory if not message.logged]
    since = min([since, *light])
    taken = [(message.index, message) for message in in_memory if not message.logged or (moves_all and message.index >= since)]
    taken.sort()
    return [message for _, message in taken]


def extend_ranges(ranges: list[int], low: int, high: int) -> None:
    """Append a range to a flat list of ascending ranges, merging neighbours."""
    if ranges and ranges[-1] + 1 == low:
        ranges[-1] = high
    else:
        ranges.append(low)
        ranges.append(high)
