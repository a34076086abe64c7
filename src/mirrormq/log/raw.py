"""Reading a queue's log as chunks, for those who follow it. Compiled.

An answer starts exactly at the index that was asked for and has no hole. Where the entries are gone (their messages ended and
retention let them go, or compaction thinned them out) there is no answer: whoever wants them needs a full sync. Chunks are
given as they were sealed; only where the index lies within a chunk is the first one encoded anew.
"""

from __future__ import annotations

import os
from typing import Final

from mirrormq.log.chunk import HEADER_SIZE, decode_chunk, verify_payload
from mirrormq.log.errors import DamagedChunk, QueueDamaged
from mirrormq.log.queue import QueueLog
from mirrormq.log.reader import Reader, damaged, segment_for, tail_for, unreadable
from mirrormq.log.segment import Segment
from mirrormq.log.slices import sliced

WINDOW: Final = 256 * 1024
SMALL_WINDOW: Final = 16 * 1024


def read_raw(reader: Reader, queue: QueueLog, first: int, max_bytes: int) -> list[bytes]:
    """Chunks from `first` on, about max_bytes of them but at least one; none where the entries are gone. Raises QueueDamaged."""
    if queue.damage:
        raise QueueDamaged(queue.damage)
    out: list[bytes] = []
    if first < queue.whole_from:
        return out
    want = first
    left = max(max_bytes, 1)
    while left > 0 and want < queue.next_index:
        found = _chunks_at(reader, queue, want, left)
        if not found:
            break
        for data in found:
            left -= len(data)
        want = decode_chunk(found[-1], 0).next_index
        out += found
    if out:
        out[0] = sliced(out[0], first, queue.next_index)
    return out


def chunk_at(reader: Reader, queue: QueueLog, index: int) -> bytes:
    """The whole chunk that holds the index; empty where there is none."""
    found = _chunks_at(reader, queue, index, 1)
    return found[0] if found else b""


def _chunks_at(reader: Reader, queue: QueueLog, want: int, left: int) -> list[bytes]:
    """Some chunks from one place, the first of which holds `want`."""
    place = segment_for(queue.segments, want)
    if place < len(queue.segments) and queue.segments[place].first_index <= want:
        segment = queue.segments[place]
        try:
            found = _in_segment(reader, segment, want, left)
        except DamagedChunk as problem:
            raise damaged(queue, str(segment.path), problem) from problem
        except OSError as refusal:
            raise unreadable(queue, str(segment.path), refusal) from refusal
        return found
    at = queue.index.find(want)
    if at < len(queue.index) and queue.index.firsts[at] <= want:
        return [_in_wal(reader, queue, at)]
    at = tail_for(queue, want)
    if at < len(queue.tail) and queue.tail[at].first <= want:
        return [queue.tail[at].chunk]
    return []


def _in_segment(reader: Reader, segment: Segment, want: int, left: int) -> list[bytes]:
    fd = reader.open_segment(segment)
    offset = segment.offset_for(want, fd)
    out: list[bytes] = []
    while offset < segment.length and left > 0:
        window = min(max(left, SMALL_WINDOW), WINDOW)
        data = os.pread(fd, min(window, segment.length - offset), offset)
        at = 0
        while at + HEADER_SIZE <= len(data) and left > 0:
            chunk = decode_chunk(data, at)
            if chunk.first_index > want:
                return out
            if chunk.next_index > want:
                whole = data[at : chunk.end] if chunk.end <= len(data) else os.pread(fd, chunk.size, offset + at)
                verify_payload(whole, decode_chunk(whole, 0))
                out.append(whole)
                left -= len(whole)
                want = chunk.next_index
            at = chunk.end
        if at == 0:
            raise DamagedChunk(f"the file ends within a chunk at offset {offset}")
        offset += at
    return out


def _in_wal(reader: Reader, queue: QueueLog, at: int) -> bytes:
    index = queue.index
    file = reader.file(index.sequence(at))
    try:
        data = os.pread(file.fd, index.size(at), index.offset(at))
        verify_payload(data, decode_chunk(data, 0))
    except DamagedChunk as problem:
        where = DamagedChunk(f"{problem} at offset {index.offset(at)}")
        raise damaged(queue, str(file.path), where) from problem
    except OSError as refusal:
        raise unreadable(queue, str(file.path), refusal) from refusal
    return data


def first_kept(reader: Reader, queue: QueueLog) -> int:
    """The index from which on the log has no hole. Raises OSError, DamagedChunk."""
    first = queue.tail[0].first if queue.tail else queue.next_index
    index = queue.index
    for at in range(len(index) - 1, -1, -1):
        if index.next_index(at) < first:
            return max(first, queue.whole_from)
        first = min(first, index.firsts[at])
    for segment in reversed(queue.segments):
        if segment.next_index < first or first <= queue.whole_from:
            break
        if segment.indexes < segment.next_index - segment.first_index:
            first = segment.behind_holes(reader.open_segment(segment))
            break
        first = segment.first_index
    return max(first, queue.whole_from)
