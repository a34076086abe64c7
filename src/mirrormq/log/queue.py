"""What the store knows of one queue. Compiled."""

from __future__ import annotations

from typing import Final

from mirrormq.log.entries import Cursor
from mirrormq.log.index import ChunkIndex
from mirrormq.log.segment import Segment

FRESH: Final = 0
CARRIED: Final = 1
RECORD: Final = 2


class Pending:
    """A chunk on its way to the file. kind: FRESH, CARRIED (an old chunk moved forward) or RECORD (count 0)."""

    __slots__ = ("chunk", "count", "first", "kind", "messages", "offset", "queue")

    def __init__(self, queue: QueueLog, first: int, count: int, chunk: bytes, kind: int, messages: bool) -> None:
        self.queue: QueueLog = queue
        self.first: int = first
        self.count: int = count
        self.chunk: bytes = chunk
        self.kind: int = kind
        self.messages: bool = messages
        self.offset: int = -1


class QueueLog:
    """The log of one queue, oldest part first: segments, then `index` (in the write-ahead log), then `tail` (in memory).

    No index of a later part lies below one of an earlier part; `moved_upto` is the border behind the segments.
    `snapshot_sequence` is the file of the write-ahead log with its newest snapshot, 0 if there is none;
    `state_bytes` is that snapshot's size.
    """

    __slots__ = (
        "damage", "dropped", "epoch", "index", "moved_upto", "near_index", "near_offset", "near_segment",
        "next_generation", "next_index", "partial", "queue_id", "segments", "snapshot_sequence", "state_bytes",
        "tail",
    )

    def __init__(self, queue_id: int) -> None:
        self.queue_id: int = queue_id
        self.epoch: int = 0
        self.next_index: int = 1
        self.moved_upto: int = 0
        self.index: ChunkIndex = ChunkIndex()
        self.tail: list[Pending] = []
        self.segments: list[Segment] = []
        self.next_generation: int = 1
        self.snapshot_sequence: int = 0
        self.state_bytes: int = 0
        self.damage: str = ""
        self.dropped: bool = False
        self.partial: Cursor | None = None
        self.near_segment: Segment | None = None
        self.near_index: int = 0
        self.near_offset: int = 0
