"""Taking a retired write-ahead log file apart, in small steps. Compiled.

A file can go when nothing in it is needed: for each queue with chunks or a snapshot there, the queue's state is logged anew
and its chunks with live messages are either carried (appended again to the current file; a little data of many queues must
not cost a file and a sync each) or moved (copied to the queue's segments, many queues at a time). Only when all that is
durable is the file given up. A crash in between leaves copies, which recovery tells by their index.

Between two steps queues change, so nothing is remembered across a step but indexes; only here are chunks taken from the
front of a queue's index, so places in it stay valid.

Segments hold the older part of a queue's log and the write-ahead log the newer: a move takes every chunk up to the last one
in the file, also those that were carried into a later file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Final

from mirrormq.log.chunk import decode_chunk, verify_payload
from mirrormq.log.errors import DamagedChunk
from mirrormq.log.move import LOOK_CHUNKS, MOVE_BYTES, Move, is_kept
from mirrormq.log.queue import QueueLog
from mirrormq.log.reader import damaged
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.steps import Step, pause
from mirrormq.log.store import Store
from mirrormq.log.wal import WalFile

Snapshotter = Callable[[int], Snapshot | None]

CARRY_BYTES: Final = 64 * 1024
CARRY_SHARE: Final = 4
GROUP: Final = 256


class Dissolver:
    """`snapshotter` gives a queue's state as of everything appended so far: it must seal and append the queue's open
    chunk first. None says that the queue is gone."""

    def __init__(self, store: Store, snapshotter: Snapshotter) -> None:
        self._store: Store = store
        self._snapshotter: Snapshotter = snapshotter
        self._carried: int = 0
        self._moves: list[Move] = []
        self._moving: int = 0

    def dissolve(self, file: WalFile) -> Generator[Step, None, None]:
        """Empty one file and give it up."""
        self._carried = 0
        store = self._store
        for queue_id in sorted(file.queues):
            yield from self._leave(file, queue_id)
            yield pause()
        yield from self._finish_moves(file)
        yield Step(None, store.position)
        for queue_id in file.queues:
            yield from self._forget(file, queue_id)
        yield from collect_garbage(store)
        store.give_up(file)
        yield from collect_garbage(store)

    def _leave(self, file: WalFile, queue_id: int) -> Generator[Step, None, None]:
        """Make the file dispensable for one queue."""
        store = self._store
        queue = store.queue(queue_id)
        if queue is None:
            return
        snapshot = None if queue.damage else self._snapshotter(queue_id)
        if queue.damage:
            store.put_damage(queue)
        elif snapshot is None:
            store.drop(queue_id)
        else:
            size = yield from self._live_bytes(queue, file, snapshot)
            if size < CARRY_BYTES and self._carried + size < store.wal_bytes // CARRY_SHARE:
                yield from self._carry(queue, file, snapshot)
            else:
                yield from self._move(queue, file, snapshot)

    def _live_bytes(self, queue: QueueLog, file: WalFile, snapshot: Snapshot) -> Generator[Step, None, int]:
        """How many bytes of the file the queue still needs; not counted further than it matters."""
        index = queue.index
        size = 0
        for at in range(len(index)):
            if at % LOOK_CHUNKS == LOOK_CHUNKS - 1:
                yield pause()
            if index.sequence(at) == file.sequence and is_kept(index, at, snapshot):
                size += index.size(at)
                if size >= CARRY_BYTES:
                    break
        return size

    def _carry(self, queue: QueueLog, file: WalFile, snapshot: Snapshot) -> Generator[Step, None, None]:
        """Append the live chunks again, behind the queue's state."""
        if not self._put_state(queue, file, moved=False):
            return
        index = queue.index
        for at in range(len(index)):
            if at % LOOK_CHUNKS == LOOK_CHUNKS - 1:
                yield pause()
            if index.sequence(at) == file.sequence and is_kept(index, at, snapshot):
                if not self._carry_chunk(queue, file, at):
                    self._store.put_damage(queue)
                    return
                self._carried += index.size(at)

    def _carry_chunk(self, queue: QueueLog, file: WalFile, at: int) -> bool:
        index = queue.index
        data = os.pread(file.fd, index.size(at), index.offset(at))
        try:
            verify_payload(data, decode_chunk(data, 0))
        except DamagedChunk as problem:
            damaged(queue, str(file.path), DamagedChunk(f"{problem} at offset {index.offset(at)}"))
            return False
        self._store.carry(queue, index.firsts[at], data)
        return True

    def _move(self, queue: QueueLog, file: WalFile, snapshot: Snapshot) -> Generator[Step, None, None]:
        """Copy the live chunks up to the last one in the file to the queue's segments, together with other queues'."""
        upto = queue.index.end_in(file.sequence)
        while not queue.dropped and not queue.damage:
            move = Move(self._store, queue)
            yield from move.gather(snapshot, upto)
            self._moves.append(move)
            self._moving += move.size
            if move.complete:
                if len(self._moves) >= GROUP or self._moving >= MOVE_BYTES:
                    yield from self._finish_moves(file)
                return
            yield from self._finish_moves(file)

    def _finish_moves(self, file: WalFile) -> Generator[Step, None, None]:
        """Do what was gathered as one job; then the queues' states may say where their chunks lie now."""
        moves = self._moves
        self._moves = []
        self._moving = 0
        jobs = [move.job() for move in moves if move.size and not move.queue.dropped]
        if jobs:
            yield Step(("copy", jobs), 0)
        for move in moves:
            move.settle()
            yield pause()
            if move.queue.damage:
                self._store.put_damage(move.queue)
            elif move.complete:
                self._put_state(move.queue, file, moved=True)

    def _put_state(self, queue: QueueLog, file: WalFile, *, moved: bool) -> bool:
        """Log the queue's state anew, unless a later file has it; False where the queue is gone meanwhile."""
        store = self._store
        if queue.dropped:
            return False
        if not moved and queue.snapshot_sequence > file.sequence:
            return True
        snapshot = self._snapshotter(queue.queue_id)
        if snapshot is None:
            store.drop(queue.queue_id)
            return False
        store.put_snapshot(snapshot)
        return True

    def _forget(self, file: WalFile, queue_id: int) -> Generator[Step, None, None]:
        """Everything live has another place by now; what still points into the file is gone."""
        queue = self._store.queue(queue_id)
        at = 0
        while queue is not None and at < len(queue.index):
            at += queue.index.forget(file.sequence, at, at + LOOK_CHUNKS)
            yield pause()


def collect_garbage(store: Store) -> Generator[Step, None, None]:
    """Remove files that nothing durable refers to any more."""
    for position, job in store.take_garbage():
        yield Step(None, position)
        yield Step(job, 0)
