"""The store: all queues' logs of one node in one directory. Compiled.

    DIR/FORMAT                               the format version, a number
    DIR/FILES                                which files of the write-ahead log there are
    DIR/LOCK                                 held while a process has the store open
    DIR/wal/000000001.wal                    the write-ahead log, all queues
    DIR/queues/<queue_id hex>/<first_index>-<generation>.seg
    DIR/damaged/                             write-ahead log files kept because a damaged queue has entries in them
    DIR/quarantine/                          entries that were cut off a log

append() only gathers; a commit takes what was gathered, writes it and accounts for it: committer.py from the event loop, commit()
at once. `position` counts the bytes ever appended. `durable` is how far they are synced: a commit without
a sync does not move it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final

from mirrormq.log.chunk import DAMAGED, DROPPED, EXTENDED, MESSAGES, SNAPSHOT, encode_chunk
from mirrormq.log.directory import lock, prepare
from mirrormq.log.disk import Disk
from mirrormq.log.entries import Entry
from mirrormq.log.errors import QueueDamaged
from mirrormq.log.helper import Job
from mirrormq.log.leftovers import Leftovers
from mirrormq.log.queue import CARRIED, FRESH, NEVER, RECORD, Pending, QueueLog
from mirrormq.log.reader import Reader
from mirrormq.log.recovery import Recoverer, Recovery
from mirrormq.log.roster import Roster
from mirrormq.log.segment import SEGMENT_HEADER_SIZE, Segment, encode_manifest
from mirrormq.log.snapshot import Snapshot, is_live
from mirrormq.log.spent import Spent
from mirrormq.log.standing import SAME, encode_standing
from mirrormq.log.stats import Stats
from mirrormq.log.wal import Batch, Wal, WalFile

MIB: Final = 1024 * 1024
U64: Final = Struct("<Q")
MAX_UNSYNCED: Final = 8 * MIB
STATE_SHARE: Final = 4


class Store:
    def __init__(self, directory: Path, *, wal_bytes: int = 64 * MIB, segment_bytes: int = 16 * MIB,
                 disk: Disk | None = None) -> None:
        self.directory: Path = directory.absolute()     # the helper that gets its paths stands in another directory
        self.wal_bytes: int = wal_bytes
        self.segment_bytes: int = segment_bytes
        self.disk: Disk = disk if disk is not None else Disk()
        self.position: int = 0
        self.durable: int = 0
        self.pending_bytes: int = 0
        self.state_bytes: int = 0
        self.retain_new: int = NEVER        # what a log that begins keeps until lives.retain() says something else
        self.commits: int = 0
        self.last_commit_seconds: float = 0.0
        self._queues: dict[int, QueueLog] = {}
        self.asides: dict[int, QueueLog] = {}
        self.turns: dict[int, int] = {}
        self.roster: Roster = Roster(self.directory)
        self._spent: Spent = Spent()
        self._pending: list[Pending] = []
        self._must_sync: bool = False
        self._in_flight: Batch | None = None
        self.lock_fd: int = -1
        self._opened: Wal | None = None
        self._opened_reader: Reader | None = None
        self._garbage: list[Job] = []
        self.on_work: Callable[[], None] | None = None
        self.on_close: list[Callable[[], None]] = []

    @property
    def wal(self) -> Wal:
        assert self._opened is not None, "the store is not open"
        return self._opened

    @property
    def reader(self) -> Reader:
        assert self._opened_reader is not None, "the store is not open"
        return self._opened_reader

    @property
    def queues_directory(self) -> Path:
        return self.directory / "queues"

    def open(self) -> Recovery:
        """Recover; raises LogError with a sentence where the directory cannot be used at all."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.lock_fd = lock(self.directory)
        try:
            prepare(self.directory, self.disk)
            return self._recover()
        except BaseException:
            self._unlock()
            raise

    def _recover(self) -> Recovery:
        wal = Wal(self.directory / "wal", self.disk, self.wal_bytes)
        recoverer = Recoverer(wal, self.queues_directory, self.disk, self.roster)
        self._queues = recoverer.run()
        self.asides = recoverer.asides
        Leftovers(wal, self.queues_directory, self._queues, recoverer).clear()
        self._opened = wal
        self._opened_reader = Reader(wal)
        self.state_bytes = sum([queue.state_bytes for queue in self._queues.values()])
        return recoverer.recovery

    def _unlock(self) -> None:
        os.close(self.lock_fd)
        self.lock_fd = -1

    def append(self, queue_id: int, first_index: int, count: int, chunk: bytes) -> None:
        """Gather a chunk for the next commit. The first chunk of a queue starts at 1, unless a snapshot was put first."""
        queue = self._queues.get(queue_id)
        if queue is None:
            queue = self._queues[queue_id] = QueueLog(queue_id, self.retain_new)
        if queue.damage:
            raise QueueDamaged(queue.damage)
        assert first_index == queue.next_index, "a chunk must follow on the one before it"
        queue.begin_run(U64.unpack_from(chunk, 16)[0], first_index)
        queue.next_index = first_index + count
        item = Pending(queue, first_index, count, chunk, FRESH, chunk[5] & MESSAGES != 0)
        queue.tail.append(item)
        self._gather(item)

    def _gather(self, item: Pending) -> None:
        size = len(item.chunk)
        self._pending.append(item)
        if item.kind != FRESH:
            self._must_sync = True
        self.pending_bytes += size
        self.position += size

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Log a queue's state; of an unknown queue, it says where its log starts.

        It may be behind the log's end: what follows on it is kept then, and folded at recovery. It never goes back.
        """
        queue = self._queues.get(snapshot.queue_id)
        if queue is None:
            queue = self._queues[snapshot.queue_id] = QueueLog(snapshot.queue_id, self.retain_new)
            queue.start_behind(snapshot.next_index - 1, snapshot.epoch)
        assert snapshot.next_index <= queue.next_index, "seal and append the queue's entries before its snapshot"
        self.log_state(queue, snapshot, SAME)

    def log_state(self, queue: QueueLog, snapshot: Snapshot, life: int) -> None:
        queue_id = queue.queue_id
        standing = encode_standing(queue, life, has_aside=queue_id in self.asides)
        payload = b"".join((standing, encode_manifest(queue.moved_upto, queue.segments), snapshot.encode()))
        chunk = encode_chunk(SNAPSHOT | EXTENDED, queue_id, snapshot.epoch, queue.next_index, 0, 0, payload)
        queue.note_state(snapshot)
        self._count_state(queue, len(chunk))
        self._gather(Pending(queue, snapshot.next_index, 0, chunk, RECORD, False))

    def on_the_way(self) -> list[Pending]:
        """What is gathered, under way, or in a file but not synced: an item may yet be put at its place, or at a new one."""
        under_way = self._in_flight.items if self._in_flight is not None else []
        return self.wal.unsynced + under_way + self._pending

    def adopt(self, queue: QueueLog) -> None:
        """From now on this is the queue's log."""
        self._queues[queue.queue_id] = queue
        self.turned(queue.queue_id)

    def _count_state(self, queue: QueueLog, size: int) -> None:
        """All queues' states together must fit well into one file: each dissolved file has its share written again, and
        if that filled the next file there would be no end to it."""
        self.state_bytes += size - queue.state_bytes
        queue.state_bytes = size
        self.wal.file_bytes = max(self.wal_bytes, STATE_SHARE * self.state_bytes)

    def put_record(self, flags: int, queue: QueueLog, payload: bytes) -> None:
        chunk = encode_chunk(flags, queue.queue_id, queue.epoch, queue.next_index, 0, 0, payload)
        self._gather(Pending(queue, queue.next_index, 0, chunk, RECORD, False))

    def put_damage(self, queue: QueueLog) -> None:
        """Keep the knowledge that the queue is damaged, although the file that showed it may go."""
        self.put_record(DAMAGED, queue, queue.damage.encode())

    def carry(self, queue: QueueLog, first: int, chunk: bytes) -> None:
        """Append a chunk again that lies in a file to be given up."""
        self._gather(Pending(queue, first, 0, chunk, CARRIED, False))

    def drop(self, queue_id: int) -> None:
        """Forget the queue for good; its files go when that is durable."""
        queue = self._queues.pop(queue_id, None)
        if queue is None:
            return
        self._spent.note(queue_id, self._generation(queue))
        for life in [queue, *self.lives(queue_id)]:
            self.abandon(life)
        self.asides.pop(queue_id, None)
        self.put_record(DROPPED, queue, b"")
        self.discard_directory(queue_id)

    def abandon(self, queue: QueueLog) -> None:
        """This life of a queue is over: what is under way for it has no effect any more."""
        queue.dropped = True
        self.turned(queue.queue_id)
        self._count_state(queue, 0)
        self.reader.forget(queue)

    def turned(self, queue_id: int) -> None:
        self.turns[queue_id] = self.turns.get(queue_id, 0) + 1

    def discard_directory(self, queue_id: int) -> None:
        """With its files of now: the queue may come again before that is done."""
        directory = self.queue_directory(queue_id)
        if directory.exists():
            self._discard(("remove_tree", str(directory), self.reader.names_in(directory)))

    def trim(self, queue_id: int, snapshot: Snapshot, retain_from: int = NEVER) -> bool:
        """Give up the queue's segments in which nothing is live and that end below what is retained; were there any?"""
        queue = self._queues.get(queue_id)
        if queue is None or queue.damage or not queue.whole:
            return False
        keep_from = min(queue.keep_from(snapshot), retain_from)
        dead = [segment for segment in queue.segments
                if not segment.pinned and segment.next_index <= keep_from
                and not is_live(snapshot, segment.first_index, segment.next_index)
                and not queue.wants(segment.first_index, segment.next_index)]
        if not dead:
            return False
        self.replace_segments(queue, dead, [])
        self.put_snapshot(snapshot)
        return True

    def replace_segments(self, queue: QueueLog, old: list[Segment], new: list[Segment]) -> None:
        """In memory at once; the files go when the next snapshot, which the caller must log, is durable."""
        gone = {segment.path for segment in old}
        queue.segments = sorted([s for s in queue.segments if s.path not in gone] + new, key=_first_index)
        queue.near_segment = None
        for segment in old:
            self.reader.close_segment(segment)
        self._discard(("remove", [str(segment.path) for segment in old]))

    def discard(self, paths: list[Path]) -> None:
        """Files that nothing refers to, or soon will."""
        self._discard(("remove", [str(path) for path in paths]))

    def _discard(self, job: Job) -> None:
        """A job to be done when everything appended in this turn is durable: the record that allows it is among that."""
        self._garbage.append(job)
        self._work_due()

    def take_garbage(self) -> list[tuple[int, Job]]:
        """What is to be removed, and the position that must be durable before."""
        garbage = [(self.position, job) for job in self._garbage]
        self._garbage = []
        return garbage

    def new_segment(self, queue: QueueLog, first_index: int) -> Segment:
        """A segment that has no file yet."""
        directory = self.queue_directory(queue.queue_id)
        generation = self._generation(queue)
        for life in [queue, *self.lives(queue.queue_id)]:
            life.next_generation = generation + 1
        return Segment(directory, queue.queue_id, first_index, generation, SEGMENT_HEADER_SIZE, first_index, 0)

    def _generation(self, queue: QueueLog) -> int:
        return max([self._spent.of(queue.queue_id), *[life.next_generation for life in [queue, *self.lives(queue.queue_id)]]])

    def queue_directory(self, queue_id: int) -> Path:
        return self.queues_directory / f"{queue_id:x}"

    def queue(self, queue_id: int) -> QueueLog | None:
        return self._queues.get(queue_id)

    def lives(self, queue_id: int) -> list[QueueLog]:
        """The queue's log, and the one that is set aside."""
        return [lives[queue_id] for lives in (self._queues, self.asides) if queue_id in lives]

    def give_up(self, file: WalFile) -> None:
        """A retired file in which nothing is needed: a spare from now on, or evidence if a damaged queue is in it."""
        damaged = [queue_id for queue_id in file.queues if queue_id in self._queues and self._queues[queue_id].damage]
        leftover = self.wal.remove(file, keep=len(damaged) > 0)
        if leftover is not None:
            self._discard(("remove", [str(leftover)]))

    def _work_due(self) -> None:
        if self.on_work is not None:
            self.on_work()

    def crowding(self) -> float:
        """Seconds that a commit should wait. What dissolving itself has to write never waits."""
        return 0.0 if self._must_sync else self.wal.crowding()

    def take(self, *, sync: bool = True, roll: bool = False) -> Batch | None:
        """Everything gathered, as one batch; None where there is nothing, or a batch is still under way. Where only what was
        written before is to be synced, the batch has no items."""
        if self._in_flight is not None:
            return None
        if not self._pending:
            if not sync or not self.wal.unsynced_bytes:
                return None
            self._in_flight = batch = self.wal.begin_sync(self.position)
            return batch
        items = self._pending
        self._pending = []
        # Files are removed on the strength of a record, so a record is never left unsynced.
        sync = sync or self._must_sync or self.wal.unsynced_bytes > MAX_UNSYNCED
        self._must_sync = False
        self._in_flight = batch = self.wal.begin(items, self.position, sync=sync, roll=roll)
        return batch

    def relocate(self, batch: Batch) -> Batch:
        """A sync failed: the batch to write instead, in a new file."""
        self._in_flight = again = self.wal.relocate(batch)
        self.pending_bytes += sum([len(item.chunk) for item in again.items[: len(again.items) - len(batch.items)]])
        return again

    def finish(self, batch: Batch) -> None:
        """The batch is in its file: from now on its chunks are read from there. It is durable only if it was synced."""
        assert batch is self._in_flight
        self._in_flight = None
        is_first = batch.sync and not batch.file.is_durable
        self.wal.finish(batch)
        touched: dict[int, QueueLog] = {}
        for item in batch.items:
            self.pending_bytes -= len(item.chunk)
            if not item.queue.dropped and not item.cut:
                self._settle(item, batch.file, touched)
        for queue in touched.values():
            self._shorten_tail(queue)
        if batch.sync:
            self.durable = batch.position
        self.commits += 1
        if is_first or self.wal.wants_spare():
            self._work_due()

    def _settle(self, item: Pending, file: WalFile, touched: dict[int, QueueLog]) -> None:
        queue = item.queue
        sequence = file.sequence
        file.queues.add(queue.queue_id)
        if item.kind == FRESH:
            touched[queue.queue_id] = queue
            queue.index.put(item.first, item.count, sequence, item.offset, len(item.chunk), messages=item.messages)
        elif item.kind == CARRIED:
            queue.index.move(item.first, sequence, item.offset)
        elif item.chunk[5] & SNAPSHOT:
            queue.snapshot_sequence = sequence

    def _shorten_tail(self, queue: QueueLog) -> None:
        """The oldest items in memory are now in a file; batches finish in the order in which they were gathered."""
        tail = queue.tail
        done = 0
        while done < len(tail) and tail[done].offset >= 0:
            done += 1
        del tail[:done]

    def commit(self, *, sync: bool = True, roll: bool = False) -> int:
        """Write and sync what was gathered, here and now; returns the durable position."""
        batch = self.take(sync=sync, roll=roll)
        if batch is not None:
            self.wal.commit(batch)
            self.finish(batch)
        return self.durable

    def read(self, queue_id: int, index: int, max_bytes: int) -> list[Entry]:
        """The queue's messages from index on, in order, about max_bytes of them but at least one if there is any."""
        queue = self._queues.get(queue_id)
        return self.reader.read(queue, index, max_bytes) if queue is not None else []

    def read_one(self, queue_id: int, index: int) -> Entry | None:
        """The message with that index, or None where there is none."""
        found = self.read(queue_id, index, 1)
        return found[0] if found and found[0].index == index else None

    def next_index(self, queue_id: int) -> int:
        """The index that the queue's next entry gets."""
        queue = self._queues.get(queue_id)
        return queue.next_index if queue is not None else 1

    def stats(self) -> Stats:
        stats = Stats(self.commits, self.durable, self.pending_bytes, self.last_commit_seconds)
        stats.count(self.wal, [*self._queues.values(), *self.asides.values()])
        stats.queues = len(self._queues)
        return stats

    def close(self) -> None:
        """Commit what is gathered and let go of every file; raises OSError where the disk refuses, but lets go all the same.

        While a commit is under way nothing is written: whoever cannot wait for it gives up what it holds.
        """
        if self._opened is None:
            return
        try:
            if self._in_flight is None:
                self.commit()
                self.wal.seal()
                self.roster.note(self.wal)
        finally:
            for let_go in self.on_close:
                let_go()
            self.reader.close()
            self.wal.close()
            self._opened = None
            self._unlock()


def _first_index(segment: Segment) -> int:
    return segment.first_index
