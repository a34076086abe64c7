"""One queue while the files are read at recovery. Compiled."""

from __future__ import annotations

from typing import Final

from mirrormq.log.chunk import Chunk, decode_chunk
from mirrormq.log.errors import DamagedChunk, QueueDamaged
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.queue import QueueLog
from mirrormq.log.raw import read_raw
from mirrormq.log.reader import Reader
from mirrormq.log.scan import BadPlace
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.standing import Standing

READ_BYTES: Final = 1024 * 1024


class Found:
    """`gap` says what is missing before its next chunk; a snapshot may still close it. The log's next_index tells how far it
    goes by what was read; a queue that is `late` is folded when everything is, from what its log holds then."""

    def __init__(self, queue_id: int) -> None:
        self.log: QueueLog = QueueLog(queue_id)
        self.queue: RecoveredQueue = RecoveredQueue(queue_id)
        self.snapshot: Snapshot | None = None
        self.aside: Found | None = None
        self.late: bool = False
        self.gap: str = ""
        self.damage: str = ""
        self.lost: list[tuple[BadPlace, str]] = []

    def fold(self, data: bytes, chunk: Chunk) -> None:
        """Take a chunk into the state if it is the next; pass over copies of what was folded before."""
        log = self.log
        if chunk.next_index <= log.next_index or self.gap:
            return
        if chunk.first_index != log.next_index:
            self.gap = f"index {log.next_index} is missing, the log goes on at index {chunk.first_index}"
            return
        log.begin_run(chunk.epoch, chunk.first_index)
        log.next_index = chunk.next_index
        if self.late:
            return
        try:
            self.queue.fold(data, chunk)
        except DamagedChunk as problem:
            self.gap = str(problem)

    def take_snapshot(self, chunk: Chunk, standing: Standing | None, snapshot: Snapshot) -> None:
        """The header of the record says where the log ended, the snapshot how far its state goes."""
        log = self.log
        self.snapshot = snapshot
        self.gap = ""
        self._restart()
        self.late = snapshot.next_index < chunk.first_index
        log.index.cut_from(chunk.first_index)
        log.next_index = chunk.first_index
        log.is_lagging = self.late
        if standing is not None:
            standing.give(log)
        else:
            log.whole_from = log.moved_upto
            log.begin_run(snapshot.epoch, 1)

    def take_cut(self, chunk: Chunk, standing: Standing) -> None:
        """Everything from the record's index on is void."""
        log = self.log
        if log.next_index < chunk.first_index and not self.gap:
            self.gap = f"index {log.next_index} is missing, the log was cut at index {chunk.first_index}"
        log.index.cut_from(chunk.first_index)
        log.next_index = chunk.first_index
        standing.give(log)
        if self.queue.next_index > chunk.first_index:
            self._restart()
            self.late = True

    def _restart(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            self.queue = RecoveredQueue(self.log.queue_id)
            return
        self.queue.start_from(snapshot)
        self.log.floor = snapshot.next_index

    def fold_late(self, reader: Reader, advice: str) -> str:
        """Fold from the files; returns a sentence if that fails."""
        queue = self.queue
        log = self.log
        try:
            while queue.next_index < log.next_index:
                found = read_raw(reader, log, queue.next_index, READ_BYTES)
                if not found:
                    return f"queue {log.queue_id:x} is damaged: index {queue.next_index} is missing; {advice}"
                for data in found:
                    queue.fold(data, decode_chunk(data, 0))
        except QueueDamaged as problem:
            return str(problem)
        except DamagedChunk as problem2:
            return f"queue {log.queue_id:x} is damaged: {problem2}; {advice}"
        if queue.next_index > log.next_index:
            return f"queue {log.queue_id:x} is damaged: its log ends before its state; {advice}"
        return ""
