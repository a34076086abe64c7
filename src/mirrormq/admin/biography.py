"""The biography of a message: every entry of its queue's log that is about it, in order.

Rules
 1. A message is known by its index. Its entry is the first; later ones name it by their ranges.
 2. The log says what is stable: a delivery is not logged, only that deliveries up to an index may happen from now on. The words
    of the answer say that, and no more.
 3. A request reads so many bytes of the log and no more; `next` says where to go on. The end of a message is the end of its
    biography.
 4. Entries that are tidied away are not made up: `note` says from where on the log is whole.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mirrormq.admin.browse import HERE, MAX_PAYLOAD, at_home, damaged, queue_here, readable, show_message, why_not_here
from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.errors import bad_request
from mirrormq.admin.peek import GONE, HELD, READY, UNKNOWN, Seen, Spot, find_ready, hidden
from mirrormq.admin.queue_view import timestamp
from mirrormq.broker.backlog import LogHole
from mirrormq.broker.queue import Queue
from mirrormq.log.chunk import decode_chunk
from mirrormq.log.entries import (
    ACK,
    DROP,
    ENQUEUE,
    EXPIRED,
    LOST,
    MAXLEN,
    MOVED,
    ORIGIN,
    PURGED,
    REJECTED,
    REQUEUE,
    RESERVE,
    RESTART,
    SKIP,
    Entry,
    entries_in,
)
from mirrormq.log.errors import LogError
from mirrormq.log.lives import lineage, read_chunks
from mirrormq.log.store import Store

MAX_READ: Final = 16 << 20
STEP: Final = 512 << 10
HELD_LOOK: Final = 50_000       # a channel that holds more than this is not searched for who holds the message
DROPS: Final = {
    EXPIRED: "expired", MAXLEN: "dropped because the queue was over its length limit", PURGED: "purged",
    REJECTED: "rejected without requeueing",
    RESTART: "transient, and gone with a restart of all nodes that held it",
    MOVED: "given another place when the queue became a mirrored one",
    LOST: "not held by the node that took over although it was not in sync; a node that held it has it in quarantine",
}  # fmt: skip


async def show_biography(call: Call) -> Answer:
    queue = readable(call)
    about: Json = {"index": _number(call.args["index"])}
    if "from" in call.query:
        about["from"] = _number(call.query["from"])
    return Answer(200, await at_home(call, queue, "biography", about))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20) or int(text) < 1:
        raise bad_request(["no index of a message", text])
    return int(text)


async def biography_here(state: State, about: Json) -> Json:
    queue = queue_here(state, about)
    if queue is None:
        return why_not_here(state, about)
    try:
        return await _Biography(state, queue, int(about["index"])).tell(int(about.get("from") or about["index"]))
    except (LogError, LogHole, OSError) as fault:
        return damaged(fault)


HERE["biography"] = biography_here


class _Biography:
    def __init__(self, state: State, queue: Queue, index: int) -> None:
        self._state = state
        self._store: Store = state.runtime.log.store
        self._queue = queue
        self._index = index
        self._entries: list[Json] = []
        self._message: Json | None = None
        self._is_reserved = False
        self._is_over = False           # nothing more can follow
        self._has_ended = False

    async def tell(self, start: int) -> Json:
        queue, index = self._queue, self._index
        queue.append_gathered()
        line = lineage(self._store, queue.log_id)
        whole_from = max(1, line.first_kept)
        self._find_message()
        is_lost = index < whole_from and self._message is None
        at = None if is_lost else await self._read(max(start, whole_from))
        now = self._now()
        return {
            "vhost": queue.vhost, "name": queue.name, "index": index, "now": now, "message": self._message,
            "entries": self._entries, "next": at, "whole_from": whole_from, "end": queue.next_index - 1,
            "note": self._note(whole_from, now), "held_by": self._holder() if now == HELD else None,
            "node": self._state.broker.node_name,
        }  # fmt: skip

    def _find_message(self) -> None:
        backlog = self._queue.backlog
        found = backlog.read(self._index, 1)
        if found and found[0].index == self._index:
            seen = Seen(Spot(0, self._index), backlog.message_of(found[0]))
            self._message = show_message(seen, MAX_PAYLOAD, "")
            self._message["published_at"] = timestamp(found[0].time_ms)

    async def _read(self, start: int) -> int | None:
        """Returns where to go on, None when everything was read."""
        left = MAX_READ
        while left > 0:
            chunks = read_chunks(self._store, self._queue.log_id, start, STEP)
            for data in chunks:
                self._take_chunk(data)
                left -= len(data)
                start = decode_chunk(data, 0).next_index
            if not chunks or self._stops():
                return None
            await asyncio.sleep(0)
        return start

    def _now(self) -> str:
        if self._has_ended or self._index >= self._queue.next_index:
            return GONE
        if self._index in self._queue.held_logged:
            return HELD
        ready = find_ready(self._queue, self._index)
        if ready is None:
            return UNKNOWN if self._is_over and hidden(self._queue) else GONE
        if self._message is None:
            self._message = show_message(ready, MAX_PAYLOAD, READY)
        return READY

    def _stops(self) -> bool:
        return self._is_over

    def _take_chunk(self, data: bytes) -> None:
        epoch = decode_chunk(data, 0).epoch
        for entry in entries_in(data, 0):
            sentence = "" if self._is_over else self._sentence(entry)
            if sentence:
                self._entries.append({
                    "epoch": epoch, "index": entry.index, "kind": KINDS[entry.kind], "time": timestamp(entry.time_ms),
                    "sentence": sentence})

    def _sentence(self, entry: Entry) -> str:
        """What an entry says about the message; nothing if it is about others."""
        kind, index = entry.kind, self._index
        if kind == ENQUEUE:
            return _entered(entry) if entry.index == index else ""
        if kind == SKIP and entry.index <= index < entry.index + entry.count:
            self._is_over = True
            return "a transient message that lived in memory alone: the log knows only that its index was given"
        if kind == RESERVE and entry.count > index and not self._is_reserved:
            self._is_reserved = True
            return f"deliveries up to index {entry.count - 1} may happen from now on, of this message too"
        if kind == ORIGIN and entry.ranges and entry.ranges[2] <= index < entry.ranges[2] + entry.ranges[3]:
            sequence = entry.ranges[1] + index - entry.ranges[2]
            return f"it was forwarded by publisher {entry.ranges[0]:x} as its message {sequence}"
        if kind in (ACK, DROP, REQUEUE) and _names(entry.ranges or [], index):
            self._is_over = self._has_ended = kind != REQUEUE
            return _ended(entry)
        return ""

    def _note(self, whole_from: int, now: str) -> str:
        if self._index >= self._queue.next_index:
            return f"the queue has given no index above {self._queue.next_index - 1} yet"
        if self._index < whole_from and self._message is not None:
            return (f"entries before index {whole_from} are tidied away where their messages have ended; what happened to this "
                    "message before that is known from its own entry alone")
        if self._index < whole_from:
            return f"the log keeps every entry from index {whole_from} on; this message ended before, and its entries are gone"
        if not self._entries and now != GONE:
            return "it is in memory alone: a transient message, of which the log will say nothing"
        return ""

    def _holder(self) -> Json | None:
        """Which client of this node holds it."""
        for consumer in self._queue.turns.everyone:
            channel = consumer.channel
            if len(channel.unacked) > HELD_LOOK:
                continue
            for delivery in channel.unacked.values():
                if delivery.queue is self._queue and delivery.message.index == self._index:
                    tag = delivery.consumer.tag if delivery.consumer is not None else None
                    return {"connection": channel.connection.name, "channel": channel.number, "consumer_tag": tag,
                            "since": timestamp(int(delivery.at))}
        return None


KINDS: Final[dict[int, str]] = {
    SKIP: "skip", ENQUEUE: "enqueue", RESERVE: "reserve", ACK: "ack", REQUEUE: "requeue", DROP: "drop", ORIGIN: "origin",
}  # fmt: skip


def _names(ranges: list[int], index: int) -> bool:
    return any(ranges[at] <= index <= ranges[at + 1] for at in range(0, len(ranges), 2))


def _entered(entry: Entry) -> str:
    kind = "transient message, written because memory had no room" if entry.flags & 1 else "persistent message"
    return f"published: a {kind} of {entry.size} bytes entered the queue"


def _ended(entry: Entry) -> str:
    count = sum((entry.ranges or [])[1::2]) - sum((entry.ranges or [])[::2]) + len(entry.ranges or []) // 2
    others = f", together with {count - 1} other{'s' if count > 2 else ''}" if count > 1 else ""
    if entry.kind == ACK:
        return f"acknowledged{others}: the message has ended"
    if entry.kind == REQUEUE:
        return f"put back into the queue{others}"
    return f"{DROPS.get(entry.reason, 'dropped')}{others}: the message has ended"
