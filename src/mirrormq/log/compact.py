"""Giving back the space of segments in which little is left. Compiled.

A segment wholly below the cursor in which nothing is live is deleted; neighbours in which less than a quarter is live are
written anew as one, without what is gone. How much is live is told by the number of messages; only where messages are large
on average is each looked at, for one of a hundred megabytes must not be held by three small ones. A chunk of which most is
gone, or one of large messages of which any is, is written anew too, with only its live entries and SKIPs between them, so that
one old message never holds more than itself. Old files go when the new ones are in a durable manifest.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Generator
from typing import Final

from mirrormq.log.chunk import HEADER_SIZE, Chunk, decode_chunk, verify_payload
from mirrormq.log.dissolve import Snapshotter
from mirrormq.log.entries import ENQUEUE, ChunkBuilder, entry_length, indexes_at
from mirrormq.log.errors import DamagedChunk, QueueDamaged
from mirrormq.log.queue import QueueLog
from mirrormq.log.reader import damaged, unreadable
from mirrormq.log.segment import SEGMENT_HEADER_SIZE, Segment, segment_header
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.steps import Step, pause
from mirrormq.log.store import Store

LIVE_SHARE: Final = 4
LARGE: Final = 16 * 1024
ENTRY_HEAD: Final = 64
WINDOW: Final = 64 * 1024
OUTPUT_BYTES: Final = 1024 * 1024
AHEAD: Final = 1024 * 1024


class Compactor:
    """`refused` are queues for whose new segments there was no room. They are not tried again by themselves."""

    def __init__(self, store: Store, snapshotter: Snapshotter) -> None:
        self._store: Store = store
        self._snapshotter: Snapshotter = snapshotter
        self.refused: set[int] = set()

    def compact_all(self, queue_ids: set[int]) -> Generator[Step, None, None]:
        for queue_id in queue_ids:
            queue = self._store.queue(queue_id)
            if queue is not None and queue.segments and not queue.damage and queue.whole:
                yield from self._compact(queue)
                yield pause()

    def _compact(self, queue: QueueLog) -> Generator[Step, None, None]:
        snapshot = self._snapshotter(queue.queue_id)
        if snapshot is None:
            self._store.drop(queue.queue_id)
            return
        self._store.trim(queue.queue_id, snapshot)
        for group in self._sparse_groups(queue, snapshot):
            rewrite = Rewrite(self._store, queue, snapshot, group)
            try:
                yield from rewrite.run()
            except (QueueDamaged, OSError) as problem:
                self._store.discard([segment.path for segment in rewrite.written])
                if isinstance(problem, OSError):
                    self.refused.add(queue.queue_id)
                return
            if not self._adopt(queue, rewrite):
                return

    def _sparse_groups(self, queue: QueueLog, snapshot: Snapshot) -> list[list[Segment]]:
        """Runs of neighbours below the cursor with little in them, each expected to fit into one new segment. None where a
        segment cannot be read: who reads it is told, and the other queues' are tidied up all the same."""
        try:
            return self._find_sparse(queue, snapshot)
        except (QueueDamaged, OSError):
            return []

    def _find_sparse(self, queue: QueueLog, snapshot: Snapshot) -> list[list[Segment]]:
        groups: list[list[Segment]] = []
        keep_from = queue.keep_from(snapshot)
        room = 0
        for segment in queue.segments:
            live = live_in(snapshot, segment.first_index, segment.next_index)
            in_use = segment.next_index > min(snapshot.cursor, keep_from) or segment.pinned \
                or queue.wants(segment.first_index, segment.next_index)
            if in_use or not self._is_sparse(queue, segment, snapshot, live):
                room = 0
                continue
            expected = segment.length * live // max(segment.indexes, 1)
            if room < expected:
                groups.append([])
                room = self._store.segment_bytes
            room -= expected
            groups[-1].append(segment)
        return groups

    def _is_sparse(self, queue: QueueLog, segment: Segment, snapshot: Snapshot, live: int) -> bool:
        if live * LIVE_SHARE < segment.indexes:
            return True
        if segment.length < LARGE * segment.indexes or segment.judged_live == live:
            return False
        try:
            size = live_bytes(segment, self._store.reader.open_segment(segment), snapshot)
        except DamagedChunk as problem:
            raise damaged(queue, str(segment.path), problem) from problem
        except OSError as refusal:
            raise unreadable(queue, str(segment.path), refusal) from refusal
        is_sparse = size * LIVE_SHARE < segment.length
        if not is_sparse:
            segment.judged_live = live      # and is not looked at again before one of these ends
        return is_sparse

    def _adopt(self, queue: QueueLog, rewrite: Rewrite) -> bool:
        """Put the new segments in the place of the old; False where the queue is gone or was trimmed meanwhile."""
        store = self._store
        fresh = self._snapshotter(queue.queue_id) if not queue.dropped and not rewrite.is_void else None
        present = {segment.path for segment in queue.segments}
        if fresh is None or rewrite.is_void or any(segment.path not in present for segment in rewrite.group):
            for segment in rewrite.group:
                store.reader.close_segment(segment)
            store.discard([segment.path for segment in rewrite.written])
            return False
        store.replace_segments(queue, rewrite.group, rewrite.written)
        queue.whole_from = max(queue.whole_from, rewrite.thinned_upto)
        store.put_snapshot(fresh)
        return True


def live_in(snapshot: Snapshot, first: int, next_index: int) -> int:
    """How many messages below the cursor are live there."""
    return bisect_left(snapshot.live, next_index) - bisect_left(snapshot.live, first)


def live_bytes(segment: Segment, fd: int, snapshot: Snapshot) -> int:
    """Bytes of the live messages in a segment, from the head of each entry; for segments of few and large messages."""
    live = snapshot.live
    size = 0
    at = SEGMENT_HEADER_SIZE
    while at < segment.length:
        chunk = decode_chunk(os.pread(fd, HEADER_SIZE, at), 0)
        index = chunk.first_index
        entry = at + HEADER_SIZE
        while index < chunk.next_index:
            head = os.pread(fd, ENTRY_HEAD, entry).ljust(ENTRY_HEAD, b"\0")
            if entry >= at + chunk.size:
                raise DamagedChunk(f"the entries of the chunk at offset {at} do not fit into it")
            length = entry_length(head, 0)
            place = bisect_left(live, index)
            if place < len(live) and live[place] == index:
                size += length
            index += indexes_at(head, 0)
            entry += length
        at += chunk.size
    return size


class Rewrite:
    """Writes the live messages of a group of segments into new ones."""

    def __init__(self, store: Store, queue: QueueLog, snapshot: Snapshot, group: list[Segment]) -> None:
        self._store: Store = store
        self._queue: QueueLog = queue
        self._snapshot: Snapshot = snapshot
        self._pieces: list[bytes] = []
        self._chunks: list[tuple[Chunk, int]] = []
        self._size: int = 0
        self._turn: int = store.turns.get(queue.queue_id, 0)
        self.thinned_upto: int = 0
        self.group: list[Segment] = group
        self.written: list[Segment] = []

    @property
    def is_void(self) -> bool:
        """The log was cut or began anew since."""
        return self._turn != self._store.turns.get(self._queue.queue_id, 0)

    def run(self) -> Generator[Step, None, None]:
        for segment in self.group:
            at = SEGMENT_HEADER_SIZE
            while at < segment.length:
                if self.is_void:
                    return
                at = self._look_at(segment, at)
                if self._size >= OUTPUT_BYTES:
                    yield from self._flush()
                yield pause()
        yield from self._flush()

    def _look_at(self, segment: Segment, at: int) -> int:
        try:
            return self._window(segment, at)
        except DamagedChunk as problem:
            raise damaged(self._queue, str(segment.path), problem) from problem
        except OSError as refusal:
            raise unreadable(self._queue, str(segment.path), refusal) from refusal

    def _window(self, segment: Segment, at: int) -> int:
        """Look through one window of an old segment; returns where the next one starts."""
        fd = self._store.reader.open_segment(segment)
        data = os.pread(fd, min(WINDOW, segment.length - at), at)
        os.posix_fadvise(fd, at + WINDOW, AHEAD, os.POSIX_FADV_WILLNEED)
        offset = 0
        while offset + HEADER_SIZE <= len(data):
            chunk = decode_chunk(data, offset)
            if live_in(self._snapshot, chunk.first_index, chunk.next_index):
                if chunk.end > len(data) and offset > 0:
                    break
                if chunk.end > len(data):
                    data = os.pread(fd, chunk.size, at)
                verify_payload(data, chunk)
                self._keep(data, chunk)
            offset = chunk.end
        if offset == 0:
            raise DamagedChunk(f"the file ends within a chunk at offset {at}")
        return at + offset

    def _keep(self, data: bytes, chunk: Chunk) -> None:
        live = live_in(self._snapshot, chunk.first_index, chunk.next_index)
        indexes = chunk.count
        piece = data[chunk.offset : chunk.end]
        if live * 2 < chunk.count or (live < chunk.count and chunk.size > LARGE * chunk.count):
            piece = self._thinned(data, chunk)
            indexes = live      # SKIPs take no room: with them it would look sparse, and be written anew, each time
            self.thinned_upto = chunk.next_index
        if piece:
            self._pieces.append(piece)
            self._chunks.append((decode_chunk(piece, 0), indexes))
            self._size += len(piece)

    def _thinned(self, data: bytes, chunk: Chunk) -> bytes:
        """The same chunk with only its live messages; nothing where it has none."""
        live = self._snapshot.live
        at = chunk.payload
        index = chunk.first_index
        wanted = bisect_left(live, index)
        builder = ChunkBuilder(chunk.queue_id, chunk.epoch, live[wanted])
        while wanted < len(live) and live[wanted] < chunk.next_index:
            length = entry_length(data, at)
            if data[at] == ENQUEUE and index == live[wanted]:
                if builder.next_index < index:
                    builder.skip(index - builder.next_index)
                builder.raw(data[at : at + length], messages=1)
            index += indexes_at(data, at)
            at += length
            while wanted < len(live) and live[wanted] < index:
                wanted += 1
        return builder.seal(chunk.time_ms) if builder.count else b""

    def _flush(self) -> Generator[Step, None, None]:
        if not self._pieces:
            return
        segment = self.written[-1] if self.written else None
        head = b""
        if segment is None or segment.length + self._size > self._store.segment_bytes:
            segment = self._store.new_segment(self._queue, self._chunks[0][0].first_index)
            head = segment_header(segment.queue_id, segment.first_index)
            self.written.append(segment)
        copy = Step(("copy", [(str(segment.path), segment.length, head, [(b"".join(self._pieces), [])])]), 0, is_attempt=True)
        yield copy
        if copy.refusal is not None:
            raise copy.refusal
        for chunk, indexes in self._chunks:
            places = [(chunk.first_index, segment.length)]
            segment.extend(places, chunk.size, chunk.next_index, indexes)
        self._pieces = []
        self._chunks = []
        self._size = 0
