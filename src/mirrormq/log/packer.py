"""Messages in order, packed into chunks with SKIPs between them. Compiled."""

from __future__ import annotations

from mirrormq.log.entries import EXTRA, SEQUENCED, ChunkBuilder, Entry


class Packer:
    """One chunk for each time at which messages were enqueued."""

    def __init__(self, queue_id: int, epoch: int) -> None:
        self._queue_id: int = queue_id
        self._epoch: int = epoch
        self._builder: ChunkBuilder | None = None
        self._time_ms: int = 0
        self._chunks: list[bytes] = []
        self.size: int = 0

    def add(self, entry: Entry) -> None:
        builder = self._builder
        if builder is None or entry.time_ms != self._time_ms:
            self._seal()
            self._time_ms = entry.time_ms
            self._builder = builder = ChunkBuilder(self._queue_id, self._epoch, entry.index)
        if builder.next_index < entry.index:
            builder.skip(entry.index - builder.next_index)
        if entry.flags & (EXTRA | SEQUENCED):
            builder.enqueue_extra(entry.flags, entry.address, entry.content, entry.size, entry.extra, entry.publisher)
        else:
            builder.enqueue(entry.flags, entry.address, entry.content, entry.size)
        self.size += len(entry.content) + len(entry.address) + 32

    def _seal(self) -> None:
        if self._builder is not None:
            self._chunks.append(self._builder.seal(self._time_ms))
            self._builder = None

    def close(self) -> bytes:
        self._seal()
        return b"".join(self._chunks)
