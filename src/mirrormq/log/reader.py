"""Reading a queue's messages in order, wherever they lie. Compiled.

A read goes through the parts of a QueueLog: segments, write-ahead log, memory. Bytes are fetched in windows that cover
several chunks, verified chunk by chunk, and decoded as far as the caller's budget goes. Where a read stopped within a
chunk is kept (`partial`, for a few queues at a time) so that a large chunk is fetched and verified once.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from mirrormq.log.chunk import HEADER_SIZE, MESSAGES, Chunk, decode_chunk, verify_payload
from mirrormq.log.entries import Cursor, Entry
from mirrormq.log.errors import DamagedChunk, QueueDamaged
from mirrormq.log.queue import QueueLog
from mirrormq.log.segment import Segment
from mirrormq.log.wal import Wal, WalFile

MIN_WINDOW: Final = 64 * 1024
MAX_WINDOW: Final = 256 * 1024
MAX_GAP: Final = 4096
MAX_PARTIALS: Final = 64
MAX_PARTIAL_BYTES: Final = 32 * 1024 * 1024
MAX_OPEN: Final = 128
AHEAD: Final = 1024 * 1024


class Reader:
    """One read at a time: `left` is what remains of its budget, `want` the next index that it looks for."""

    __slots__ = ("_left", "_open", "_out", "_partial_bytes", "_partials", "_reserve", "_wal", "_want")

    def __init__(self, wal: Wal) -> None:
        self._wal: Wal = wal
        self._out: list[Entry] = []
        self._left: int = 0
        self._want: int = 0
        self._partials: dict[int, QueueLog] = {}
        self._partial_bytes: int = 0
        self._open: dict[int, Segment] = {}
        self._reserve: int = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, queue: QueueLog, index: int, max_bytes: int) -> list[Entry]:
        """The messages with index >= `index`, in order, about max_bytes of them; raises QueueDamaged."""
        if queue.damage:
            raise QueueDamaged(queue.damage)
        out: list[Entry] = []
        self._out = out
        self._left = max(max_bytes, 1)
        self._want = index
        if queue.partial is not None:
            self._resume(queue, queue.partial)
        if self._left > 0 and queue.segments:
            self._from_segments(queue)
        if self._left > 0:
            self._from_wal(queue)
        if self._left > 0:
            self._from_tail(queue)
        return out

    def _resume(self, queue: QueueLog, cursor: Cursor) -> None:
        if cursor.index <= self._want < cursor.next_index:
            self._take(queue, cursor)
        else:
            self._forget(queue)

    def _take(self, queue: QueueLog, cursor: Cursor) -> None:
        self._left -= cursor.take(self._out, self._want, self._left)
        if cursor.at < cursor.end:
            self._want = cursor.index
            self._keep(queue, cursor)
        else:
            self._want = max(self._want, cursor.next_index)
            self._forget(queue)

    def _keep(self, queue: QueueLog, cursor: Cursor) -> None:
        if queue.partial is cursor:
            return
        self._forget(queue)
        queue.partial = cursor
        self._partials[queue.queue_id] = queue
        self._partial_bytes += len(cursor.data)
        while len(self._partials) > MAX_PARTIALS or (self._partial_bytes > MAX_PARTIAL_BYTES and len(self._partials) > 1):
            self._forget(self._partials[next(iter(self._partials))])

    def _forget(self, queue: QueueLog) -> None:
        if queue.partial is not None:
            self._partial_bytes -= len(queue.partial.data)
            queue.partial = None
            del self._partials[queue.queue_id]

    def rewind(self, queue: QueueLog) -> None:
        """The queue's log has changed under its readers."""
        self._forget(queue)
        queue.near_segment = None

    def forget(self, queue: QueueLog) -> None:
        """The queue is gone: keep nothing open for it."""
        self._forget(queue)
        for segment in queue.segments:
            self.close_segment(segment)

    def _from_segments(self, queue: QueueLog) -> None:
        for at in range(segment_for(queue.segments, self._want), len(queue.segments)):
            segment = queue.segments[at]
            try:
                self._from_segment(queue, segment, at)
            except DamagedChunk as problem:
                raise damaged(queue, str(segment.path), problem) from problem
            except OSError as problem:
                raise unreadable(queue, str(problem.filename or segment.path), problem) from problem
            if self._left <= 0:
                return

    def _from_segment(self, queue: QueueLog, segment: Segment, at: int) -> None:
        is_near = queue.near_segment is segment and queue.near_index == self._want
        if not is_near and at + 1 < len(queue.segments):
            os.posix_fadvise(self.open_segment(queue.segments[at + 1]), 0, AHEAD, os.POSIX_FADV_WILLNEED)
        fd = self.open_segment(segment)         # the last to be opened, for that may close any other
        offset = queue.near_offset if is_near else segment.offset_for(self._want, fd)
        while offset < segment.length and self._left > 0:
            offset = self._segment_window(queue, segment, fd, offset)
        queue.near_segment = segment
        queue.near_index = queue.partial.next_index if queue.partial is not None else self._want
        queue.near_offset = offset

    def _segment_window(self, queue: QueueLog, segment: Segment, fd: int, offset: int) -> int:
        """Read one window at offset; returns where the next one starts."""
        size = min(max(self._left, MIN_WINDOW), MAX_WINDOW, segment.length - offset)
        data = os.pread(fd, size, offset)
        at = 0
        while at + HEADER_SIZE <= len(data) and self._left > 0:
            chunk = _decode(data, at, offset)
            if chunk.next_index > self._want and chunk.flags & MESSAGES:
                if chunk.end > len(data):
                    if at > 0:
                        break
                    data = os.pread(fd, chunk.size, offset)
                self._take_chunk(queue, data, chunk, offset)
            at = chunk.end
        if at == 0:
            raise DamagedChunk(f"the file ends within a chunk at offset {offset}")
        return offset + at

    def _take_chunk(self, queue: QueueLog, data: bytes, chunk: Chunk, base: int) -> None:
        try:
            verify_payload(data, chunk)
        except DamagedChunk as problem:
            raise DamagedChunk(f"{problem} at offset {base + chunk.offset}") from problem
        if chunk.queue_id != queue.queue_id:
            raise DamagedChunk(f"the chunk at offset {base + chunk.offset} is of queue {chunk.queue_id:x}")
        self._take(queue, Cursor(data, chunk))

    def _from_wal(self, queue: QueueLog) -> None:
        index = queue.index
        at = index.find(self._want)
        while at < len(index) and self._left > 0:
            if not index.has_messages(at):
                at += 1
                continue
            stop = self._window_of(queue, at)
            file = self._wal.by_sequence[index.sequence(at)]
            start = index.offset(at)
            data = self._fetch(queue, file, start, index.offset(stop - 1) + index.size(stop - 1) - start)
            while at < stop and self._left > 0:
                if index.has_messages(at):
                    self._wal_chunk(queue, data, index.offset(at) - start, start, file.path.name)
                at += 1

    def _fetch(self, queue: QueueLog, file: WalFile, start: int, size: int) -> bytes:
        try:
            return os.pread(file.fd, size, start)
        except OSError as problem:
            raise unreadable(queue, str(file.path), problem) from problem

    def _window_of(self, queue: QueueLog, at: int) -> int:
        """The chunks from `at` that are worth one read; returns the place behind the last."""
        index = queue.index
        sequence = index.sequence(at)
        start = index.offset(at)
        end = start + index.size(at)
        limit = start + min(max(self._left, MAX_GAP), MAX_WINDOW)
        at += 1
        while at < len(index) and end < limit and index.sequence(at) == sequence:
            offset = index.offset(at)
            if offset < end or offset > end + MAX_GAP:
                break
            end = offset + index.size(at)
            at += 1
        return at

    def _wal_chunk(self, queue: QueueLog, data: bytes, at: int, base: int, name: str) -> None:
        try:
            self._take_chunk(queue, data, _decode(data, at, base), base)
        except DamagedChunk as problem:
            raise damaged(queue, name, problem) from problem

    def _from_tail(self, queue: QueueLog) -> None:
        tail = queue.tail
        for at in range(tail_for(queue, self._want), len(tail)):
            item = tail[at]
            if item.messages:
                self._take(queue, Cursor(item.chunk, decode_chunk(item.chunk, 0)))
                if self._left <= 0:
                    return

    def file(self, sequence: int) -> WalFile:
        return self._wal.by_sequence[sequence]

    def open_segment(self, segment: Segment) -> int:
        if segment.fd < 0:
            segment.fd = self._open_file(segment.path)
            self._open[segment.fd] = segment
            if len(self._open) > MAX_OPEN:
                self.close_segment(self._open[next(iter(self._open))])
        return segment.fd

    def _open_file(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as problem:
            self._make_room(problem)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def names_in(self, directory: Path) -> list[str]:
        """A directory takes a descriptor too while it is read."""
        try:
            return os.listdir(directory)
        except OSError as problem:
            self._make_room(problem)
        names = os.listdir(directory)
        self._keep_reserve()
        return names

    def _make_room(self, problem: OSError) -> None:
        """Clients may have taken every descriptor that the process may have. No queue is to fail for that, so one of ours makes
        room: another segment's, or the one that is kept for this."""
        if problem.errno not in (errno.EMFILE, errno.ENFILE):
            raise problem
        if self._open:
            self._close(self._open[next(iter(self._open))])
        elif self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _keep_reserve(self) -> None:
        if self._reserve < 0:
            with suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close_segment(self, segment: Segment) -> None:
        if segment.fd >= 0:
            self._close(segment)
            self._keep_reserve()

    def _close(self, segment: Segment) -> None:
        del self._open[segment.fd]
        os.close(segment.fd)
        segment.fd = -1

    def close(self) -> None:
        for segment in list(self._open.values()):
            self._close(segment)
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1


def damaged(queue: QueueLog, file: str, problem: DamagedChunk) -> QueueDamaged:
    """Note the damage on the queue, in a sentence that says what to do."""
    queue.damage = (
        f"queue {queue.queue_id:x} is damaged in {file}: {problem}; restore the file from a backup or a mirror, "
        "or delete the queue to go on without its messages"
    )
    return QueueDamaged(queue.damage)


def unreadable(queue: QueueLog, file: str, problem: OSError) -> Exception:
    """A file that is gone or cannot be read is damage; that too many are open, or memory is short, passes."""
    if problem.errno in (errno.ENOENT, errno.EIO):
        return damaged(queue, file, DamagedChunk(problem.strerror))
    return problem


def _decode(data: bytes, at: int, base: int) -> Chunk:
    try:
        return decode_chunk(data, at)
    except DamagedChunk as problem:
        raise DamagedChunk(f"{problem} at offset {base + at}") from problem


def segment_for(segments: list[Segment], index: int) -> int:
    """The place of the first segment that reaches beyond index."""
    low = 0
    high = len(segments)
    while low < high:
        middle = (low + high) // 2
        if segments[middle].next_index > index:
            high = middle
        else:
            low = middle + 1
    return low


def tail_for(queue: QueueLog, index: int) -> int:
    """The place of the first item in memory that reaches beyond index."""
    tail = queue.tail
    low = 0
    high = len(tail)
    while low < high:
        middle = (low + high) // 2
        if tail[middle].first + tail[middle].count > index:
            high = middle
        else:
            low = middle + 1
    return low
