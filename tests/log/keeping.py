"""A store whose queues are models, and the keeper's work on it."""

from __future__ import annotations

from pathlib import Path

from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store

from .support import ModelQueue, append_ack, append_messages, read_all

KIB = 1024


class Node:
    """A store with queues whose messages end in order, but for a few."""

    def __init__(self, folder: Path, **sizes: int) -> None:
        self.folder = folder
        self.sizes = sizes
        self.store = Store(folder, **sizes)
        self.store.open()
        self.queues: dict[int, ModelQueue] = {}

    def queue(self, queue_id: int) -> ModelQueue:
        return self.queues.setdefault(queue_id, ModelQueue(queue_id))

    def publish(self, queue_id: int, bodies: list[bytes], per_chunk: int = 10) -> list[int]:
        queue = self.queue(queue_id)
        indexes = append_messages(self.store, queue_id, bodies, per_chunk=per_chunk)
        for index, body in zip(indexes, bodies, strict=True):
            queue.messages[index] = (0, b"to", body, len(body), 1)
        queue.live.update(indexes)
        queue.next_index = self.store.next_index(queue_id)
        return indexes

    def ack(self, queue_id: int, indexes: list[int]) -> None:
        queue = self.queue(queue_id)
        append_ack(self.store, queue_id, indexes, queue.end(indexes)[2])
        queue.next_index = self.store.next_index(queue_id)

    def snapshot(self, queue_id: int) -> Snapshot | None:
        return self.queues[queue_id].snapshot() if queue_id in self.queues else None

    def tidy(self) -> None:
        run_steps(self.store, due_work(self.store, self.snapshot))

    def commit(self) -> None:
        self.store.commit()
        self.tidy()

    def live_bodies(self, queue_id: int) -> list[bytes]:
        live = self.queue(queue_id).live
        return [entry.content for entry in read_all(self.store, queue_id) if entry.index in live]

    def restart(self) -> None:
        self.store.close()
        self.store = Store(self.folder, **self.sizes)
        recovery = self.store.open()
        assert recovery.notes == []
        assert all(queue.damage is None for queue in recovery.queues.values())

    def bytes_in_use(self) -> int:
        """Without what is only kept to be overwritten."""
        segments = sum(path.stat().st_size for path in self.folder.rglob("*.seg"))
        assert segments == self.store.stats().segment_bytes
        return self.store.stats().wal_bytes + segments
