"""The backlog of a queue with `x-max-priority`: highest priority first, by index within one.

Each level keeps a window in memory, all of them together no more bytes than a plain queue's; beyond it a message costs eight
bytes, its index, and is read from the log in its turn.
"""
from __future__ import annotations

import heapq
from array import array
from collections import deque
from typing import Final

from mypy_extensions import i64

from mirrormq.broker.backlog import ENTRY_OVERHEAD, WINDOW_BYTES, Backlog, Budget, LogHole, extend_ranges, light_among
from mirrormq.broker.message import InfoCache, Message
from mirrormq.broker.ports import LogPort

LEVEL_WINDOW: Final = 2048


class Level:
    """Ready messages of one priority."""

    def __init__(self) -> None:
        self.returned: list[tuple[int, Message]] = []
        self.window: deque[Message] = deque()
        self.tail: array[int] = array("Q")
        self.tail_at: int = 0

    def tail_size(self) -> int:
        return len(self.tail) - self.tail_at

    def is_empty(self) -> bool:
        return not self.returned and not self.window and self.tail_at == len(self.tail)

    def next_tail(self) -> int:
        return self.tail[self.tail_at]

    def pass_tail(self) -> None:
        self.tail_at += 1
        if self.tail_at > 4096 and self.tail_at * 2 > len(self.tail):
            del self.tail[:self.tail_at]
            self.tail_at = 0


class PriorityBacklog(Backlog):
    def __init__(self, log: LogPort, infos: InfoCache, budget: Budget, max_priority: int) -> None:
        super().__init__(log, infos, budget)
        self.max_priority: i64 = max_priority
        self.levels: list[Level] = [Level() for _ in range(max_priority + 1)]
        self.top: i64 = -1          # no level above it holds anything
        self.window_bytes: i64 = 0
        self.tails: i64 = 0         # messages in all tails, and those of them that are persistent
        self.tail_persistent: i64 = 0
        self.tail_persistent_bytes: i64 = 0

    def has_room(self, size: int) -> bool:
        return not self.tails and self.count < LEVEL_WINDOW and self._has_bytes()

    def _has_bytes(self) -> bool:
        return self.window_bytes < WINDOW_BYTES and self.budget.used < self.budget.limit

    def _level(self, message: Message) -> Level:
        priority: i64 = message.info.priority
        if priority > self.max_priority:
            priority = self.max_priority
        if priority > self.top:
            self.top = priority
        return self.levels[priority]

    def push(self, message: Message) -> None:
        self._admit(self._level(message), message)
        self._count(message)

    def _admit(self, level: Level, message: Message) -> None:
        level.window.append(message)
        self.window_bytes += message.size
        self.budget.used += message.size + ENTRY_OVERHEAD

    def push_logged(self, message: Message) -> None:
        level = self._level(message)
        if not level.tail_size() and len(level.window) < LEVEL_WINDOW and (self._has_bytes() or not level.window):
            self.push(message)
            return
        level.tail.append(message.index)
        self._count(message)
        self._count_tail(message, 1)

    def _count_tail(self, message: Message, more: i64) -> None:
        self.tails += more
        if message.persistent:
            self.tail_persistent += more
            self.tail_persistent_bytes += more * message.size

    def put_back(self, message: Message) -> None:
        heapq.heappush(self._level(message).returned, (message.index, message))
        self._count(message)

    def _count(self, message: Message) -> None:
        self.count += 1
        self.bytes += message.size

    def _highest(self) -> Level | None:
        while self.top >= 0:
            level = self.levels[self.top]
            if not level.is_empty():
                return level
            self.top -= 1
        return None

    def head(self) -> Message | None:
        level = self._highest()
        while level is not None:
            first = self._first(level)
            if first is not None:
                return first
            level = self._highest()
        return None

    def _refill(self, level: Level) -> bool:
        while level.tail_size() and (not level.window or (len(level.window) < 64 and self._has_bytes())):
            index = level.next_tail()
            entries = self.read(index, 1)
            if not entries or entries[0].index != index:
                raise LogHole(f"the message with index {index} is not in the log")
            message = self.message_of(entries[0])
            level.pass_tail()
            self._count_tail(message, -1)
            self._admit(level, message)
        return len(level.window) > 0

    def pop(self) -> Message:
        message = self.head()
        assert message is not None
        self.load(message)
        self._take(self.levels[self.top], message)
        return message

    def _first(self, level: Level) -> Message | None:
        if level.returned:
            return level.returned[0][1]
        return level.window[0] if level.window or self._refill(level) else None

    def _take(self, level: Level, message: Message) -> None:
        if level.returned:
            heapq.heappop(level.returned)
        else:
            level.window.popleft()
            self.window_bytes -= message.size
            self.budget.used -= message.size + ENTRY_OVERHEAD
        self.count -= 1
        self.bytes -= message.size

    def take_all(self, next_index: int) -> tuple[list[int], int, int]:
        ended: list[int] = []
        count: i64 = self.tail_persistent
        size: i64 = self.tail_persistent_bytes
        for message in self._in_memory():
            if message.logged:
                ended.append(message.index)
                if message.persistent:
                    count += 1
                    size += message.size
        for level in self.levels:
            ended.extend(level.tail[level.tail_at:])
        ended.sort()
        ranges: list[int] = []
        for index in ended:
            extend_ranges(ranges, index, index)
        self.clear()
        return ranges, count, size

    def _in_memory(self) -> list[Message]:
        found: list[Message] = []
        for level in self.levels:
            found.extend(pair[1] for pair in level.returned)
            found.extend(level.window)
        return found

    def take_light(self, since: int) -> list[Message]:
        taken = light_among(self._in_memory(), since, moves_all=self.tails == 0)
        gone = {message.index for message in taken}
        for level in self.levels:
            level.returned = [pair for pair in level.returned if pair[0] not in gone]
            heapq.heapify(level.returned)
            for message in level.window:
                if message.index in gone:
                    self.window_bytes -= message.size
                    self.budget.used -= message.size + ENTRY_OVERHEAD
            level.window = deque([message for message in level.window if message.index not in gone])
        self.count -= len(taken)
        self.bytes -= sum([message.size for message in taken])
        return taken

    def clear(self) -> None:
        for level in self.levels:
            for message in level.window:
                self.budget.used -= message.size + ENTRY_OVERHEAD
        self.levels = [Level() for _ in range(self.max_priority + 1)]
        self.top = -1
        self.window_bytes = 0
        self.tails = 0
        self.tail_persistent = 0
        self.tail_persistent_bytes = 0
        self.count = 0
        self.bytes = 0

    def cursor(self, next_index: int) -> int:
        return next_index

    def live_below(self, cursor: int) -> list[int]:
        live = [message.index for message in self._in_memory() if message.logged]
        for level in self.levels:
            live.extend(level.tail[level.tail_at:])
        return live
