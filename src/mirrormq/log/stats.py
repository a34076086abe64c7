"""What the store counts. Compiled."""

from __future__ import annotations

from mirrormq.log.queue import QueueLog
from mirrormq.log.wal import Wal


class Stats:
    def __init__(self, commits: int, committed_bytes: int, pending_bytes: int, last_commit_seconds: float) -> None:
        self.commits: int = commits
        self.committed_bytes: int = committed_bytes
        self.pending_bytes: int = pending_bytes
        self.wal_files: int = 0
        self.wal_bytes: int = 0
        self.segment_files: int = 0
        self.segment_bytes: int = 0
        self.queues: int = 0
        self.last_commit_seconds: float = last_commit_seconds

    def count(self, wal: Wal, queues: list[QueueLog]) -> None:
        """The files of the write-ahead log, and the segments of those queues."""
        self.wal_files = len(wal.files)
        self.wal_bytes = sum([file.end for file in wal.files])
        for queue in queues:
            self.segment_files += len(queue.segments)
            self.segment_bytes += sum([segment.length for segment in queue.segments])
