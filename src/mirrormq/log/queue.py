"""What the store knows of one queue. Compiled."""

from __future__ import annotations

from typing import Final

from mirrormq.log.entries import Cursor
from mirrormq.log.index import ChunkIndex
from mirrormq.log.segment import Segment
from mirrormq.log.snapshot import Snapshot

FRESH: Final = 0
CARRIED: Final = 1
RECORD: Final = 2
NEVER: Final = 1 << 62
MAX_RUNS: Final = 256


class Pending:
    """A chunk on its way to the file. kind: FRESH, CARRIED (an old chunk moved forward) or RECORD (count 0). It is cut when
    the log was cut before it since: a record behind it says so."""

    __slots__ = ("chunk", "count", "cut", "first", "kind", "messages", "offset", "queue")

    def __init__(self, queue: QueueLog, first: int, count: int, chunk: bytes, kind: int, messages: bool) -> None:
        self.queue: QueueLog = queue
        self.first: int = first
        self.count: int = count
        self.chunk: bytes = chunk
        self.kind: int = kind
        self.messages: bool = messages
        self.offset: int = -1
        self.cut: bool = False


class QueueLog:
    """The log of one queue, oldest part first: segments, then `index` (in the write-ahead log), then `tail` (in memory).

    No index of a later part lies below one of an earlier part; `moved_upto` is the border behind the segments.
    `snapshot_sequence` is the file of the write-ahead log with its newest snapshot, 0 if there is none;
    `state_bytes` is that snapshot's size. `floor` is the next_index of the newest snapshot that was logged or relied on:
    everything from it on is kept whole, and the log cannot be cut below it. `relied` is that snapshot while it is not logged:
    chunks were passed over by it, and a manifest behind them must not be read without it. `is_unsaid`: chunks were moved, and no
    state that was logged since says where; their file must not be given up.

    Lineage: run k has epoch epochs[k] and starts at firsts[k]; `base` is the index before the first that is held, and where
    it is not 0 the first run starts at it. From `whole_from` on nothing was thinned out. A log that is not `whole` lacks what
    is live below its base; pieces of it are there up to `filled`. A log that is set aside has its `state` here.
    One that `differs` was set aside because it was not what the leader has.
    `wanted` are flat, inclusive ranges of entries that somebody may want back, although their messages have ended.
    """

    __slots__ = (
        "base", "damage", "differs", "dropped", "epoch", "epochs", "filled", "firsts", "floor", "index", "is_lagging",
        "is_unsaid", "moved_upto", "near_index", "near_offset", "near_segment", "next_generation", "next_index", "partial",
        "queue_id", "relied", "retain_from", "segments", "snapshot_sequence", "state", "state_bytes", "tail",
        "wanted", "whole", "whole_from",
    )

    def __init__(self, queue_id: int, retain_from: int = NEVER) -> None:
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
        self.differs: bool = False
        self.partial: Cursor | None = None
        self.near_segment: Segment | None = None
        self.near_index: int = 0
        self.near_offset: int = 0
        self.base: int = 0
        self.epochs: list[int] = []
        self.firsts: list[int] = []
        self.floor: int = 1
        self.is_lagging: bool = False
        self.relied: Snapshot | None = None
        self.is_unsaid: bool = False
        self.retain_from: int = retain_from
        self.whole: bool = True
        self.whole_from: int = 1
        self.filled: int = 1
        self.state: Snapshot | None = None
        self.wanted: list[int] = []

    def begin_run(self, epoch: int, first: int) -> None:
        """Entries from `first` on are of that epoch; nothing happens where they are of the same as those before."""
        if self.epochs and self.epochs[-1] >= epoch:
            return
        self.epochs.append(epoch)
        self.firsts.append(first)
        if len(self.epochs) > MAX_RUNS:
            del self.epochs[0]
            del self.firsts[0]
            self.base = max(self.base, self.firsts[0])

    def start_behind(self, base: int, epoch: int) -> None:
        """An empty log whose first entry will be base + 1."""
        self.base = base
        self.epochs = [epoch] if base else []
        self.firsts = [base] if base else []
        self.next_index = self.moved_upto = self.whole_from = self.floor = base + 1

    def cut_runs(self, keep: int) -> None:
        while self.firsts and self.firsts[-1] > keep:
            self.firsts.pop()
            self.epochs.pop()

    def keep_from(self, snapshot: Snapshot) -> int:
        """Every chunk that reaches to this index or beyond is kept, whatever it holds."""
        return min(snapshot.next_index, self.retain_from)

    def note_state(self, snapshot: Snapshot) -> None:
        """It is logged, with where everything lies."""
        self.epoch = snapshot.epoch
        self.floor = max(self.floor, snapshot.next_index)
        self.is_lagging = snapshot.next_index < self.next_index
        self.relied = None
        self.is_unsaid = False

    def rely_on(self, snapshot: Snapshot) -> None:
        """Chunks were moved, and what this state does not need passed over. A later state may have been logged meanwhile: that
        needs still less, and states do not go back."""
        self.is_unsaid = True
        if snapshot.next_index >= self.floor:
            self.relied = snapshot
            self.floor = snapshot.next_index

    def wants(self, first: int, next_index: int) -> bool:
        """Is there an entry with first <= index < next_index that somebody may want back?"""
        wanted = self.wanted
        return any(wanted[at] < next_index and wanted[at + 1] >= first for at in range(0, len(wanted), 2))
