"""Queues' logs as those who follow from outside see them, and what is kept for them.

Rules
 1. Followers read stable entries only, by index, without a hole. What is gone is an error that says what is left.
 2. A lake mirror is a parameter of its virtual host: which queues, how far it has read in each, until when it counts. So every
    node knows it, and it outlives restarts.
 3. What a lake mirror has not read is kept, while its lease lasts, and no more of it than `lake-retention-bytes` of the queue's
    policy (or the mirror's own, smaller limit) allows, nor longer than `lake-retention`. A mirror that is left behind is told so,
    by an error and never by a silent hole.
 4. Every holder of a mirrored queue has the same entries at the same indexes, so a mirror answers for what it knows to be stable,
    and keeps for lake mirrors what the leader keeps. A mirror may know of less; it never knows of anything else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from mirrormq.broker.arguments import milliseconds
from mirrormq.broker.policy import PatternError, compile_pattern
from mirrormq.log import lives
from mirrormq.log.chunk import decode_chunk
from mirrormq.log.queue import FRESH, NEVER
from mirrormq.log.queue import QueueLog as StoredLog
from mirrormq.log.raw import first_kept
from mirrormq.log.store import Store
from mirrormq.mirror.holding import TRIM_AFTER, Holding
from mirrormq.mirror.machine.state import LEADER, OUTSIDE

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.queue import Queue
    from mirrormq.node.node_log import NodeLog

COMPONENT: Final = "lake-mirror"
MAX_HELD_BYTES: Final = 1 << 30         # of one queue, where nothing says otherwise
MAX_LEASE: Final = 7 * 86_400_000       # milliseconds
SETTLE_EVERY: Final = 0.5              # seconds between two syncs for followers
BORDER_EVERY: Final = 256             # entries between two places where a span may end
ACTIVE: Final = "active"
EXPIRED: Final = "expired"


class LogSource(Protocol):
    """The logs that this node can answer for. All by the queue's log id; indexes, not addresses."""

    def stable_end(self, log_id: int) -> int:
        """The index behind the last entry that can never be taken back."""

    def earliest(self, log_id: int) -> int:
        """From this index on the log has no hole."""

    def read(self, log_id: int, first: int, max_bytes: int) -> list[bytes]:
        """Chunks from exactly `first` on, about max_bytes of them but at least one; none where the entries are gone."""

    def retain(self, log_id: int, first: int) -> None:
        """Keep every entry from `first` on until told otherwise."""

    def settle(self, log_id: int) -> None:
        """Somebody waits for entries that are appended and not yet stable."""

    def copy(self, log_id: int) -> Holding | None:
        """A mirrored queue's log that is here, and that another node leads."""

    def copies(self) -> list[Holding]:
        """All of them."""

    def span(self, log_id: int, first: int, limit: int) -> tuple[int, int]:
        """The index up to which the entries from `first` on have about `limit` bytes, but at least one; and their bytes."""

    def lineage(self, log_id: int) -> list[list[int]]:
        """Which epoch wrote which entries: [epoch, first index] of each run, oldest first."""

    def is_catching_up(self, log_id: int) -> bool:
        """It has just taken over, and does not know yet that all that was stable before is: its end is too low."""


class LocalLogs:
    """The logs in this node's own store. What is synced is stable; of a mirrored queue, what is synced all round its ring."""

    def __init__(self, log: NodeLog) -> None:
        self._log = log
        self._settled_at = 0.0
        self._earliest: dict[int, tuple[tuple[int, ...], int]] = {}

    @property
    def _store(self) -> Store:
        return self._log.store

    def stable_end(self, log_id: int) -> int:
        holding = self._log.holding(log_id)
        if holding is not None:
            return holding.state.stable + 1
        queue = self._store.queue(log_id)
        if queue is None:
            return 1
        end = queue.next_index
        for item in self._store.on_the_way():
            if item.queue is queue and item.kind == FRESH and not item.cut:
                end = min(end, item.first)
        return end

    def earliest(self, log_id: int) -> int:
        queue = self._store.queue(log_id)
        if queue is None:
            return 1
        shape = _shape(queue)
        known = self._earliest.get(log_id)
        if known is None or known[0] != shape:
            if len(self._earliest) > 10_000:
                self._earliest.clear()
            known = self._earliest[log_id] = (shape, first_kept(self._store.reader, queue))
        return known[1]

    def read(self, log_id: int, first: int, max_bytes: int) -> list[bytes]:
        return lives.read_chunks(self._store, log_id, first, max_bytes)

    def retain(self, log_id: int, first: int) -> None:
        holding = self._log.holding(log_id)
        if holding is not None:
            if first > holding.wanted_from and _is_droppable(self._store.queue(log_id), first):
                holding.trimmed_at = holding.appended_bytes - TRIM_AFTER - 1
            holding.wanted_from = first
            first = min(first, holding.retained_from())
        lives.retain(self._store, log_id, first)

    def settle(self, log_id: int) -> None:
        now = time.monotonic()
        if now - self._settled_at >= SETTLE_EVERY:
            self._settled_at = now
            self._log.settle(log_id)

    def copy(self, log_id: int) -> Holding | None:
        holding = self._log.holding(log_id)
        return holding if holding is not None and holding.queue is None and holding.state.role != OUTSIDE else None

    def copies(self) -> list[Holding]:
        return [holding for holding in self._log.holdings() if holding.queue is None and holding.state.role != OUTSIDE]

    def span(self, log_id: int, first: int, limit: int) -> tuple[int, int]:
        queue, end = self._store.queue(log_id), self.stable_end(log_id)
        upto, size = first, 0
        for border, length in () if queue is None else _borders(self._store, queue, first):
            if upto > first and size + length > limit:
                break
            upto, size = border, size + length
        return max(min(upto, end), first), size

    def lineage(self, log_id: int) -> list[list[int]]:
        queue = self._store.queue(log_id)
        return [] if queue is None else [list(run) for run in zip(queue.epochs, queue.firsts, strict=True)]

    def is_catching_up(self, log_id: int) -> bool:
        holding = self._log.holding(log_id)
        return holding is not None and holding.state.role == LEADER and holding.state.stable < holding.state.floor


def _borders(store: Store, queue: StoredLog, first: int) -> Iterator[tuple[int, int]]:
    """Indexes at which the log can be cut, from `first` on, and the bytes before each: about, for segments know only some."""
    for segment in queue.segments:
        fd = store.reader.open_segment(segment)
        at = segment.offset_for(max(first, segment.first_index), fd)
        while first < segment.next_index:
            border = min(first + BORDER_EVERY, segment.next_index)
            offset = segment.offset_for(border, fd)
            yield border, offset - at
            first, at = border, offset
    index = queue.index
    for place in range(index.find(first), len(index)):
        first = index.next_index(place)
        yield first, index.size(place)
    for item in queue.tail:
        if item.first >= first:
            yield item.first + item.count, len(item.chunk)


def _is_droppable(queue: StoredLog | None, first: int) -> bool:
    """Whether there is a segment that may go if only what is from `first` on is wanted."""
    return queue is not None and bool(queue.segments) and queue.segments[0].next_index <= first


def _shape(queue: StoredLog) -> tuple[int, ...]:
    """Changes whenever the front of the log may have changed."""
    segments, index = queue.segments, queue.index
    return (queue.whole_from, len(segments), segments[0].first_index if segments else 0,
            segments[-1].first_index if segments else 0, index.firsts[0] if len(index) else -1)


def first_within(queue: StoredLog, first: int, limit: int) -> int:
    """The lowest index not below `first` from which on segments have no more than `limit` bytes. What is in the write-ahead log,
    which is of limited size, is there anyway."""
    parts = [segment for segment in queue.segments if segment.next_index > first]
    left = sum(segment.length for segment in parts)
    for segment in parts:
        if left <= limit:
            break
        left -= segment.length
        first = max(first, segment.next_index)
    return first


class LakeMirror:
    """One that is registered, as its parameter says."""

    def __init__(self, vhost: str, name: str, value: dict[str, Any]) -> None:
        self.vhost = vhost
        self.name = name
        self.pattern = str(value.get("pattern", ".*"))
        self.lease = min(_number(value.get("lease"), 86_400_000), MAX_LEASE)
        self.renewed = _number(value.get("renewed"), 0)
        self.max_bytes = _number(value.get("max-bytes"), MAX_HELD_BYTES)
        self.acknowledged: dict[str, int] = dict(value.get("queues") or {})
        self._matcher = _compiled(self.pattern)

    def covers(self, queue: Queue) -> bool:
        """Not the logs behind delayed exchanges and branches: their numbers are odd, and nobody can read them."""
        is_shown = queue.vhost == self.vhost and not queue.exclusive and not queue.log_id & 1
        return is_shown and self._matcher.search(queue.name) is not None

    def next_index(self, log_id: int) -> int:
        """What it wants next; of a queue that it has not read, everything."""
        return max(1, self.acknowledged.get(f"{log_id:x}", 1))

    def has_lapsed(self, now: int, limit: int = -1) -> bool:
        patience = self.lease if limit < 0 else min(self.lease, limit)
        return now - self.renewed > patience

    def state(self, queue: Queue, now: int) -> str:
        limit = milliseconds(queue.effective_policy.get("lake-retention"))
        return EXPIRED if self.has_lapsed(now, limit) else ACTIVE

    def limit(self, queue: Queue) -> int:
        allowed = queue.effective_policy.get("lake-retention-bytes")
        return min(self.max_bytes, allowed) if isinstance(allowed, int) else self.max_bytes


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that cannot be covers nothing; whoever registers one is refused."""
    try:
        return compile_pattern(pattern)
    except PatternError:
        return re.compile(r"(?!)")


class LakeMirrors:
    """All that are registered, and what this node keeps for them."""

    def __init__(self, broker: Broker, store: Store, source: LogSource) -> None:
        self._broker = broker
        self._store = store
        self._source = source
        self._held: dict[int, int] = {}
        self._known: dict[tuple[str, str], tuple[object, LakeMirror]] = {}
        self._is_idle = True                # nobody was registered when hold() looked last, so nothing is held

    def everyone(self) -> list[LakeMirror]:
        found: dict[tuple[str, str], tuple[object, LakeMirror]] = {}
        for (component, vhost, name), value in self._broker.parameters.items():
            if component == COMPONENT and isinstance(value, dict):
                known = self._known.get((vhost, name))
                if known is None or known[0] is not value:
                    known = (value, LakeMirror(vhost, name, value))
                found[vhost, name] = known
        self._known = found
        return [mirror for _, mirror in found.values()]

    def of(self, queue: Queue) -> list[LakeMirror]:
        return [mirror for mirror in self.everyone() if mirror.covers(queue)]

    def hold(self) -> None:
        """From time to time, and before anything is tidied up after a start."""
        mirrors = self.everyone()
        if not mirrors and self._is_idle:
            return
        self._is_idle = not mirrors
        queues = {log_id: queue for log_id, queue in self._broker.queues_by_log.items() if not queue.is_away}
        queues |= {copy.log_id: copy.front for copy in self._source.copies()}
        for log_id, queue in queues.items():
            self._hold_queue(log_id, queue, [mirror for mirror in mirrors if mirror.covers(queue)])
        self._held = {log_id: first for log_id, first in self._held.items() if log_id in queues}

    def changed(self, vhost: str, name: str) -> None:
        """One is registered, renewed or gone. While there is any, a log that begins keeps everything until it is known whether
        somebody wants it. This comes before any queue that is declared later: its first messages may be published, acknowledged
        and gone before hold() comes by. For one that is new older queues are held at once; how far one has read can wait."""
        parameters = self._broker.parameters
        is_any = any(component == COMPONENT for component, _, _ in parameters)
        self._store.retain_new = 1 if is_any else NEVER
        known, value = self._known.pop((vhost, name), None), parameters.get((COMPONENT, vhost, name))
        mirror = LakeMirror(vhost, name, value) if isinstance(value, dict) else None
        if mirror is not None and (known is None or known[1].pattern != mirror.pattern or known[1].has_lapsed(self._broker.now)):
            self.hold()
        elif mirror is not None:
            self._known[vhost, name] = (value, mirror)

    def hold_one(self, queue: Queue) -> None:
        """At once: somebody who has just registered asks for this queue."""
        self._hold_queue(queue.log_id, queue, self.of(queue))

    def _hold_queue(self, log_id: int, queue: Queue, mirrors: list[LakeMirror]) -> None:
        stored = self._store.queue(log_id)
        now = self._broker.now
        first = NEVER
        for mirror in mirrors:
            if stored is not None and mirror.state(queue, now) == ACTIVE:
                first = min(first, first_within(stored, mirror.next_index(log_id), mirror.limit(queue)))
        before = self._held.get(log_id, NEVER)
        if first != before or first != NEVER or (stored is not None and stored.retain_from != NEVER):
            self._source.retain(log_id, first)
            self._held[log_id] = first
            if before != NEVER and first > before:
                queue.ended_bytes += 1 << 30        # what was held may go: have its segments looked at
        if first == NEVER:
            self._held.pop(log_id, None)

    def show(self, queue: Queue) -> list[dict[str, Any]]:
        """For the queue's object in the API."""
        rows: list[dict[str, Any]] = []
        end = self._source.stable_end(queue.log_id)
        for mirror in self.of(queue):
            at = min(mirror.next_index(queue.log_id), end)
            rows.append({"name": mirror.name, "acknowledged": at - 1, "lag": end - at,
                         "state": mirror.state(queue, self._broker.now)})
        return rows


def index_at(source: LogSource, log_id: int, time_ms: int) -> int:
    """The first index that was written at this time or later, among those that are left; the end where there is none."""
    low, high = source.earliest(log_id), source.stable_end(log_id)
    end = high
    while low < high:
        middle = (low + high) // 2
        found = source.read(log_id, middle, 1)
        if not found:
            low = middle + 1
            continue
        chunk = decode_chunk(found[0], 0)
        if chunk.time_ms >= time_ms:
            high = middle
        else:
            low = chunk.next_index
    return min(low, end)
