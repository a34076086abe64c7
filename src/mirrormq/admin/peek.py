"""Looking at the messages of a queue without taking them.

Rules
 1. Nothing changes: neither order, nor windows, nor counts, nor who is next.
 2. The order is that of delivery: highest priority first, by index within one. A `Spot` is a place in that order, and stays one
    when the message there has gone.
 3. A look is one step of bounded work. Between two steps the queue goes on; what has gone by then is not seen.
 4. What is held by clients is seen as far as the log has it: a transient message on its way is nowhere but with its client.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mirrormq.broker.backlog import Backlog, PlainBacklog
from mirrormq.broker.delayed import DelayBacklog
from mirrormq.broker.message import Message
from mirrormq.broker.priority import Level, PriorityBacklog
from mirrormq.broker.queue import Queue

STEP_MESSAGES: Final = 256
STEP_BYTES: Final = 256 << 10
READY: Final = "ready"
HELD: Final = "unacknowledged"
GONE: Final = "gone"
UNKNOWN: Final = "unknown"          # it was in memory alone, and is with a client or gone


class Spot(NamedTuple):
    """How far below the highest priority, and the index."""

    depth: int
    at: int

    def __str__(self) -> str:
        return f"{self.depth}.{self.at}"


START: Final = Spot(0, 0)


def read_spot(text: str) -> Spot | None:
    """None if it is not what a Spot says of itself."""
    depth, dot, index = text.partition(".")
    if not (dot and text.isascii() and depth.isdecimal() and index.isdecimal()) or len(text) > 40:
        return None
    return Spot(int(depth), int(index))


class Seen(NamedTuple):
    spot: Spot
    message: Message


class Look(NamedTuple):
    """What one step has seen, which may be nothing, and where the next one starts; None at the end."""

    seen: list[Seen]
    at: Spot | None


def look(queue: Queue, after: Spot, *, held: bool = False) -> Look:
    """The next few messages behind a spot. Raises what the log raises."""
    if held:
        return _held(queue, after)
    backlog = queue.backlog
    if isinstance(backlog, PlainBacklog):
        return _plain(backlog, after)
    if isinstance(backlog, PriorityBacklog):
        return _by_priority(backlog, after)
    return _delayed(backlog, after) if isinstance(backlog, DelayBacklog) else Look([], None)


def _plain(backlog: PlainBacklog, after: Spot) -> Look:
    back = heapq.nsmallest(STEP_MESSAGES, [message for index, message in backlog.returned if index > after.at], key=_index)
    waiting = [message for message in backlog.window if message.index > after.at]
    seen = _cut(_whole(backlog, heapq.merge(back, waiting, key=_index)), 0)
    if seen:
        return _behind(seen)
    entries = backlog.read(max(backlog.tail_next, after.at + 1), STEP_BYTES) if backlog.tail else []
    seen = _cut([backlog.message_of(entry) for entry in entries if not backlog.is_forgotten(entry)], 0)
    return Look([], Spot(0, entries[-1].index)) if entries and not seen else _behind(seen)


def _index(message: Message) -> int:
    return int(message.index)


def _behind(seen: list[Seen]) -> Look:
    return Look(seen, seen[-1].spot if seen else None)


def _whole(backlog: Backlog, messages: Iterable[Message]) -> Iterable[Message]:
    """Of those whose content only the log has, copies that have it."""
    for message in messages:
        if message.content:
            yield message
            continue
        copy = message.copy()
        copy.index, copy.expires, copy.logged = message.index, message.expires, message.logged
        copy.persistent, copy.redelivered = message.persistent, message.redelivered
        backlog.load(copy)
        yield copy


def _cut(messages: Iterable[Message], depth: int) -> list[Seen]:
    """As many as one step may have, and at least one."""
    seen: list[Seen] = []
    size = 0
    for message in messages:
        if len(seen) >= STEP_MESSAGES or size > STEP_BYTES:
            break
        seen.append(Seen(Spot(depth, message.index), message))
        size += message.size
    return seen


def _by_priority(backlog: PriorityBacklog, after: Spot) -> Look:
    top = int(backlog.max_priority)
    for depth in range(after.depth, top + 1):
        floor = after.at if depth == after.depth else 0
        seen = _of_level(backlog, backlog.levels[top - depth], depth, floor)
        if seen:
            return _behind(seen)
    return Look([], None)


def _of_level(backlog: Backlog, level: Level, depth: int, floor: int) -> list[Seen]:
    back = heapq.nsmallest(STEP_MESSAGES, [message for index, message in level.returned if index > floor], key=_index)
    waiting = [message for message in level.window if message.index > floor]
    seen = _cut(_whole(backlog, heapq.merge(back, waiting, key=_index)), depth)
    if seen:
        return seen
    at = max(level.tail_at, bisect_right(level.tail, floor))
    return _cut(_read_each(backlog, level.tail[at:at + STEP_MESSAGES]), depth)


def _read_each(backlog: Backlog, indexes: Sequence[int]) -> Iterable[Message]:
    for index in indexes:
        entries = backlog.read(index, 1)
        if entries and entries[0].index == index:
            yield backlog.message_of(entries[0])


def _delayed(backlog: DelayBacklog, after: Spot) -> Look:
    waiting = [(index, message) for _, index, message in backlog.slots if index > after.at]
    found: list[Message] = []
    for index, message in heapq.nsmallest(STEP_MESSAGES, waiting, key=lambda slot: slot[0]):
        found += [message] if message is not None else _read_each(backlog, [index])
    return _behind(_cut(found, 0))


def _held(queue: Queue, after: Spot) -> Look:
    indexes = heapq.nsmallest(STEP_MESSAGES, [index for index in queue.held_logged if index > after.at])
    return _behind(_cut(_read_each(queue.backlog, indexes), 0))


def hidden(queue: Queue) -> int:
    """Messages that are with their clients alone."""
    return max(0, int(queue.held) - len(queue.held_logged))


def find_ready(queue: Queue, index: int) -> Seen | None:
    depths = int(queue.backlog.max_priority) + 1 if isinstance(queue.backlog, PriorityBacklog) else 1
    for depth in range(depths):
        seen = look(queue, Spot(depth, index - 1)).seen
        if seen and seen[0].spot == Spot(depth, index):
            return seen[0]
    return None
