"""What the store counts. Compiled."""

from __future__ import annotations

from mirrormq.log.queue import QueueLog
from mirrormq.log.wal import Wal


class Stats:
    def __init__(self) -> None:
        self.commits: int = 0
        self.committed_bytes: int = 0
        self.pending_bytes: int = 0
        self.wal_files: int = 0
        self.wal_bytes: int = 0
        self.segment_files: int = 0
        self.segment_bytes: int = 0
        self.queues: int = 0
        self.last_commit_seconds: float = 0.0

    def count(self, wal: Wal, queues: list[QueueLog]) -> None:
        """The files of the write-ahead log, and the segments of those queues."""
        self.wal_files = len(wal.files)
        self.wal_bytes = sum([file.end for file in wal.files])
        for queue in queues:
            self.segment_files += len(queue.segments)
            self.segment_bytes += sum([segment.length for segment in queue.segments])
