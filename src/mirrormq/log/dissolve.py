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
from array import array
from collections.abc import Callable, Generator
from typing import Final

from mirrormq.log.chunk import decode_chunk, verify_payload
from mirrormq.log.errors import DamagedChunk
from mirrormq.log.move import LOOK_CHUNKS, MOVE_BYTES, Move, is_kept
from mirrormq.log.queue import NEVER, QueueLog
from mirrormq.log.reader import damaged
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.standing import ASIDE
from mirrormq.log.steps import Step, pause, wait_out
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
        self._put_off: set[int] = set()     # queues whose moves found no room

    def dissolve(self, file: WalFile) -> Generator[Step, None, None]:
        """Empty one file and give it up."""
        self._carried = 0
        store = self._store
        left: dict[int, int] = {}
        while True:
            # A log that was cut, or began anew, since it left may need in this file what was passed over.
            staying = [queue_id for queue_id in sorted(file.queues) if left.get(queue_id) != store.turns.get(queue_id, 0)]
            if not staying:
                break
            for queue_id in staying:
                left[queue_id] = store.turns.get(queue_id, 0)
                yield from self._leave(file, queue_id)
                yield pause()
                if self._put_off:
                    break
            yield from self._finish_moves(file)
            for queue_id in self._put_off:
                left.pop(queue_id, None)
            self._put_off = set()
            yield Step(None, store.position)
        for queue_id in file.queues:
            yield from self._forget(file, queue_id)
        yield from collect_garbage(store)
        yield from note_files(store, leaving=file)
        store.give_up(file)
        yield from collect_garbage(store)

    def _leave(self, file: WalFile, queue_id: int) -> Generator[Step, None, None]:
        """Make the file dispensable for one queue."""
        store = self._store
        aside = store.asides.get(queue_id)
        if aside is not None:
            yield from self._leave_aside(file, aside)
        queue = store.queue(queue_id)
        if queue is None:
            return
        snapshot = None if queue.damage else self._state_of(queue)
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

    def _state_of(self, queue: QueueLog) -> Snapshot | None:
        """A log that is not whole yet loses nothing, whoever owns it."""
        return self._snapshotter(queue.queue_id) if queue.whole else unfilled(queue)

    def _leave_aside(self, file: WalFile, aside: QueueLog) -> Generator[Step, None, None]:
        """What is set aside is never carried: behind the record that the log began anew, it would pass for the new one's."""
        if aside.state is not None and not aside.damage:
            if aside.index.end_in(file.sequence):
                yield from self._move(aside, file, aside.state)
            elif aside.snapshot_sequence <= file.sequence or aside.is_unsaid:
                self._store.log_state(aside, aside.state, ASIDE)

    def _live_bytes(self, queue: QueueLog, file: WalFile, snapshot: Snapshot) -> Generator[Step, None, int]:
        """How many bytes of the file the queue still needs; not counted further than it matters."""
        index = queue.index
        keep_from = queue.keep_from(snapshot)
        size = 0
        for at in range(len(index)):
            if at % LOOK_CHUNKS == LOOK_CHUNKS - 1:
                yield pause()
            if at >= len(index):
                break
            if index.sequence(at) == file.sequence and is_kept(queue, at, snapshot, keep_from):
                size += index.size(at)
                if size >= CARRY_BYTES:
                    break
        return size

    def _carry(self, queue: QueueLog, file: WalFile, snapshot: Snapshot) -> Generator[Step, None, None]:
        """Append the live chunks again, behind the queue's state."""
        if not self._put_state(queue, file, moved=False):
            return
        index = queue.index
        keep_from = queue.keep_from(snapshot)
        turn = self._store.turns.get(queue.queue_id, 0)
        for at in range(len(index)):
            if at % LOOK_CHUNKS == LOOK_CHUNKS - 1:
                yield pause()
            if self._store.turns.get(queue.queue_id, 0) != turn:
                return
            if index.sequence(at) == file.sequence and is_kept(queue, at, snapshot, keep_from):
                if not self._carry_chunk(queue, file, at):
                    self._store.put_damage(queue)
                    return
                self._carried += index.size(at)

    def _carry_chunk(self, queue: QueueLog, file: WalFile, at: int) -> bool:
        index = queue.index
        try:
            data = os.pread(file.fd, index.size(at), index.offset(at))
            verify_payload(data, decode_chunk(data, 0))
        except DamagedChunk as problem:
            damaged(queue, str(file.path), DamagedChunk(f"{problem} at offset {index.offset(at)}"))
            return False
        except OSError as refusal:
            damaged(queue, str(file.path), DamagedChunk(f"{refusal.strerror} at offset {index.offset(at)}"))
            return False
        self._store.carry(queue, index.firsts[at], data)
        return True

    def _move(self, queue: QueueLog, file: WalFile, snapshot: Snapshot) -> Generator[Step, None, None]:
        """Copy the live chunks up to the last one in the file to the queue's segments, together with other queues'."""
        upto = queue.index.end_in(file.sequence)
        turn = self._store.turns.get(queue.queue_id, 0)
        while not queue.dropped and not queue.damage and self._store.turns.get(queue.queue_id, 0) == turn:
            move = Move(self._store, queue)
            yield from move.gather(snapshot, upto)
            self._moves.append(move)
            self._moving += move.size
            if move.complete:
                if len(self._moves) >= GROUP or self._moving >= MOVE_BYTES:
                    yield from self._finish_moves(file)
                return
            yield from self._finish_moves(file)
            if self._put_off:
                return

    def _finish_moves(self, file: WalFile) -> Generator[Step, None, None]:
        """Do what was gathered as one job; then the queues' states may say where their chunks lie now."""
        moves = self._moves
        self._moves = []
        self._moving = 0
        jobs = [move.job() for move in moves if move.size and not move.is_void]
        if jobs:
            copy = Step(("copy", jobs), 0, is_attempt=True)
            yield copy
            if copy.refusal is not None:
                yield from self._give_up(moves, copy.refusal)
                return
        for move in moves:
            was_void = move.is_void
            move.settle()
            yield pause()
            if was_void or move.is_void:
                continue
            if move.queue.state is not None:
                self._store.log_state(move.queue, move.queue.state, ASIDE)
            elif move.queue.damage:
                self._store.put_damage(move.queue)
            elif move.complete:
                self._put_state(move.queue, file, moved=True)

    def _give_up(self, moves: list[Move], refusal: OSError) -> Generator[Step, None, None]:
        """There is no room. What has gone makes some, perhaps just what was to be moved: these queues are looked at anew."""
        for move in moves:
            move.give_up()
            self._put_off.add(move.queue.queue_id)
        yield wait_out(refusal)
        yield from collect_garbage(self._store)

    def _put_state(self, queue: QueueLog, file: WalFile, *, moved: bool) -> bool:
        """Log the queue's state anew, unless a later file has it; False where the queue is gone meanwhile."""
        store = self._store
        if queue.dropped:
            return False
        # A snapshot at the log's end has everything that it needs behind it; one that is followed by others has not.
        settled = not queue.is_lagging and queue.retain_from == NEVER and queue.whole and not queue.is_unsaid
        if not moved and queue.snapshot_sequence > file.sequence and settled:
            return True
        snapshot = self._state_of(queue)
        if snapshot is None:
            store.drop(queue.queue_id)
            return False
        store.put_snapshot(snapshot)
        return True

    def _forget(self, file: WalFile, queue_id: int) -> Generator[Step, None, None]:
        """Everything live has another place by now; what still points into the file is gone."""
        for queue in self._store.lives(queue_id):
            at = 0
            while at < len(queue.index):
                at += queue.index.forget(file.sequence, at, at + LOOK_CHUNKS)
                yield pause()


def unfilled(queue: QueueLog) -> Snapshot:
    """The state of a log that is not whole: all that is there may be live."""
    return Snapshot(queue.queue_id, queue.epoch, queue.base + 1, 1, array("Q"))


def note_files(store: Store, leaving: WalFile | None = None) -> Generator[Step, None, None]:
    """Before a file goes, and when one has come."""
    job = store.roster.due(store.wal, leaving)
    if job is not None:
        yield Step(job, 0)


def collect_garbage(store: Store) -> Generator[Step, None, None]:
    """Remove files that nothing durable refers to any more."""
    for position, job in store.take_garbage():
        yield Step(None, position)
        yield Step(job, 0)
