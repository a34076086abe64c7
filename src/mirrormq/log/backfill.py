"""Full sync: live messages as pieces, and pieces as segments below a log's first entry. Compiled.

A piece is chunks of messages with SKIPs between them, as compaction writes them; the last one has the source's state behind
them. Encoding, little-endian: version u8 (1), done u8, u16 0, length of chunks u32, chunks, snapshot (if done).

Pieces come by index. How far they go is logged with each, so that a restart goes on there; a piece that comes again is passed
over. The log itself goes on meanwhile, in segments of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator
from struct import Struct
from typing import Final

from mirrormq.log.chunk import Chunk, decode_chunk, verify_payload
from mirrormq.log.dissolve import unfilled
from mirrormq.log.errors import DamagedChunk
from mirrormq.log.lives import finish_install, has_orphans
from mirrormq.log.packer import Packer
from mirrormq.log.queue import QueueLog
from mirrormq.log.segment import Segment, segment_header
from mirrormq.log.slices import sliced
from mirrormq.log.snapshot import Snapshot, decode_snapshot
from mirrormq.log.steps import Step
from mirrormq.log.store import Store

VERSION: Final = 1
HEAD: Final = Struct("<BBHI")


class Piece:
    """`next` is where the next piece starts."""

    __slots__ = ("data", "done", "next")

    def __init__(self, data: bytes, next: int, done: bool) -> None:
        self.data: bytes = data
        self.next: int = next
        self.done: bool = done


def live_messages(store: Store, queue_id: int, state: Snapshot, position: int, base: int, limit: int) -> Piece:
    """The live messages with position <= index < base, about `limit` bytes of them, by the state that the queue has now.
    Raises QueueDamaged."""
    packer = Packer(queue_id, state.epoch)
    at = position
    while at < base and packer.size < limit:
        at = _next_live(state, at, base)
        if at >= base:
            break
        entries = store.read(queue_id, at, limit - packer.size)
        at = base
        for entry in entries:
            at = entry.index + 1
            if entry.index >= base:
                break
            if _next_live(state, entry.index, base) == entry.index:
                packer.add(entry)
    at = min(at, base)
    chunks = packer.close()
    done = at >= base
    front = HEAD.pack(VERSION, 1 if done else 0, 0, len(chunks))
    return Piece(front + chunks + (state.encode() if done else b""), at, done)


def _next_live(state: Snapshot, index: int, base: int) -> int:
    """The first index from `index` on that may be live; base where there is none below it."""
    if index >= state.cursor:
        return min(index, base)
    at = bisect_left(state.live, index)
    return min(state.live[at] if at < len(state.live) else state.cursor, base)


def open_piece(data: bytes) -> tuple[list[bytes], Snapshot | None]:
    """The chunks of a piece, and the state if it is the last; raises DamagedChunk."""
    if len(data) < HEAD.size or data[0] != VERSION:
        raise DamagedChunk("a piece of a full sync makes no sense")
    length: int = HEAD.unpack_from(data, 0)[3]
    at = HEAD.size
    end = at + length
    chunks: list[bytes] = []
    while at < end:
        chunk: Chunk = decode_chunk(data, at)
        verify_payload(data, chunk)
        chunks.append(data[at : chunk.end])
        at = chunk.end
    return chunks, decode_snapshot(data[end:]) if data[1] else None


def install_piece(store: Store, queue_id: int, data: bytes, next: int) -> Generator[Step, None, Snapshot | None]:
    """Keep a piece below the log's first entry. When the steps are done it is durable. The last piece returns the state, for
    finish_install, which is tried at once unless something must be kept before (see lives.has_orphans).

    Raises DamagedChunk before anything is kept.
    """
    queue = store.queue(queue_id)
    chunks, state = open_piece(data)
    if queue is None or queue.whole:
        return state
    chunks = _wanted(queue, chunks)
    if chunks:
        segment, is_new = _place(store, queue, chunks)
        head = segment_header(queue_id, segment.first_index) if is_new else b""
        segment.pinned = True
        yield Step(("copy", [(str(segment.path), segment.length, head, [(b"".join(chunks), [])])]), 0)
        segment.pinned = False
        if store.queue(queue_id) is not queue:
            if is_new:
                store.discard([segment.path])
            return None
        _extend(queue, segment, chunks, is_new=is_new)
    queue.filled = max(queue.filled, min(next, queue.base + 1))
    if state is None or has_orphans(store, queue_id, state) or not finish_install(store, queue_id, state):
        store.put_snapshot(unfilled(queue))
    yield Step(None, store.position)
    return state


def _wanted(queue: QueueLog, chunks: list[bytes]) -> list[bytes]:
    """Without what is there already, and without what the log itself has."""
    out: list[bytes] = []
    for data in chunks:
        chunk = decode_chunk(data, 0)
        if chunk.queue_id != queue.queue_id:
            raise DamagedChunk("a piece of a full sync is of another queue")
        if chunk.next_index > queue.filled and chunk.first_index <= queue.base:
            out.append(sliced(data, queue.filled, queue.base + 1))
    return out


def _place(store: Store, queue: QueueLog, chunks: list[bytes]) -> tuple[Segment, bool]:
    """The newest segment below the log, or a new one."""
    size = sum([len(data) for data in chunks])
    below = [segment for segment in queue.segments if segment.first_index <= queue.base]
    if below and not below[-1].sealed and below[-1].length + size <= store.segment_bytes:
        return below[-1], False
    return store.new_segment(queue, decode_chunk(chunks[0], 0).first_index), True


def _extend(queue: QueueLog, segment: Segment, chunks: list[bytes], *, is_new: bool) -> None:
    for data in chunks:
        chunk = decode_chunk(data, 0)
        segment.extend([(chunk.first_index, segment.length)], chunk.size, chunk.next_index, chunk.count)
    if is_new:
        queue.segments = sorted([*queue.segments, segment], key=_first_index)
    queue.near_segment = None


def _first_index(segment: Segment) -> int:
    return segment.first_index
