"""Moving chunks from the write-ahead log to a queue's newest segment. Compiled.

A Move takes a stretch from the front of a queue's index: gather() chooses the chunks, job() tells how to copy them, settle()
lets them be read at their new place once the copy is on disk. Until then the segment is pinned: trimming must not give up a
file that is being written to, although nothing in it may be live yet.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from mirrormq.log.helper import Job
from mirrormq.log.queue import QueueLog
from mirrormq.log.segment import Segment, segment_header
from mirrormq.log.snapshot import Snapshot, is_live
from mirrormq.log.steps import Step, pause
from mirrormq.log.store import Store

MOVE_BYTES: Final = 4 * 1024 * 1024
LOOK_CHUNKS: Final = 256


def is_kept(queue: QueueLog, at: int, snapshot: Snapshot, keep_from: int) -> bool:
    """Must this chunk outlive its file? From keep_from on all of them: recovery folds them, or mirrors still want them."""
    index = queue.index
    next_index = index.next_index(at)
    if next_index > keep_from or (queue.wanted and queue.wants(index.firsts[at], next_index)):
        return True
    return index.has_messages(at) and is_live(snapshot, index.firsts[at], next_index)


class Move:
    """`size` is how many bytes are to be copied; `complete` says whether all up to the wanted index were gathered."""

    def __init__(self, store: Store, queue: QueueLog) -> None:
        self._store: Store = store
        self._segment: Segment | None = queue.segments[-1] if queue.segments else None
        self._is_new: bool = False
        self._sources: list[tuple[str, list[int]]] = []
        self._places: list[tuple[int, int]] = []
        self._indexes: int = 0
        self._next_index: int = 0
        self._upto: int = 0
        self._snapshot: Snapshot | None = None
        self._turn: int = store.turns.get(queue.queue_id, 0)
        self.queue: QueueLog = queue
        self.size: int = 0
        self.complete: bool = False
        if self._segment is not None and (self._segment.sealed or self._segment.first_index <= queue.base):
            self._segment = None        # a segment below the log's first entry is for pieces of a full sync
        if self._segment is not None:
            self._segment.pinned = True

    def gather(self, snapshot: Snapshot, upto: int) -> Generator[Step, None, None]:
        """Choose chunks from the front on; those that nobody needs are passed over."""
        self._snapshot = snapshot
        index = self.queue.index
        keep_from = self.queue.keep_from(snapshot)
        at = 0
        while at < len(index) and index.firsts[at] < upto and not self.is_void:
            if at % LOOK_CHUNKS == LOOK_CHUNKS - 1:
                yield pause()
            if self.size >= MOVE_BYTES or (is_kept(self.queue, at, snapshot, keep_from) and not self._take(at)):
                return
            self._upto = index.next_index(at)
            at += 1
        self.complete = True

    @property
    def is_void(self) -> bool:
        """The log was cut or began anew since: what was gathered may not be what it holds."""
        return self._turn != self._store.turns.get(self.queue.queue_id, 0)

    def _take(self, at: int) -> bool:
        """False where the segment is full."""
        index = self.queue.index
        size = index.size(at)
        segment = self._segment
        if segment is None or segment.length + self.size + size > self._store.segment_bytes:
            if self.size:
                return False
            segment = self._begin_segment(index.firsts[at])
        self._add(str(self._store.wal.by_sequence[index.sequence(at)].path), index.offset(at), size)
        if segment.index.is_far(segment.length + self.size, self._places):
            self._places.append((index.firsts[at], segment.length + self.size))
        self._next_index = index.next_index(at)
        self._indexes += self._next_index - index.firsts[at]
        self.size += size
        return True

    def _begin_segment(self, first_index: int) -> Segment:
        if self._segment is not None:
            self._segment.pinned = False
        self._segment = segment = self._store.new_segment(self.queue, first_index)
        self._is_new = True
        return segment

    def _add(self, source: str, offset: int, size: int) -> None:
        """Chunks that lie side by side are copied as one run."""
        if not self._sources or self._sources[-1][0] != source:
            self._sources.append((source, []))
        runs = self._sources[-1][1]
        if runs and runs[-2] + runs[-1] == offset:
            runs[-1] += size
        else:
            runs += (offset, size)

    def job(self) -> Job:
        """What one ("copy", [...]) job is to do for this move."""
        segment = self._segment
        assert segment is not None
        head = segment_header(segment.queue_id, segment.first_index) if self._is_new else b""
        return (str(segment.path), segment.length, head, self._sources)

    def give_up(self) -> None:
        """Nothing of it counts."""
        queue = self.queue
        segment = self._segment
        if segment is not None:
            segment.pinned = False
        if queue.dropped and self._store.queue(queue.queue_id) is None:
            # The copy may have made the queue's directory after the drop found none to remove.
            self._store.discard_directory(queue.queue_id)
        elif segment is not None and self._is_new:
            self._store.discard([segment.path])

    def settle(self) -> None:
        """The copy is on disk: from now on these chunks are read there."""
        queue = self.queue
        segment = self._segment
        if queue.dropped or self.is_void:
            self.give_up()
            return
        if segment is not None:
            segment.pinned = False
        if segment is not None and self.size:
            if self._is_new:
                queue.segments.append(segment)
            segment.extend(self._places, self.size, self._next_index, self._indexes)
        queue.index.cut_below(self._upto)
        queue.moved_upto = max(queue.moved_upto, self._upto)
        if self._snapshot is not None:
            queue.rely_on(self._snapshot)
