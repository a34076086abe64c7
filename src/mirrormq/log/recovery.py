"""What open() finds: every queue's state, folded from its newest snapshot and the chunks behind it. Compiled.

Rules:
- Files are read oldest first. A chunk with an index that its queue has passed is a copy (carried forward, or left over by
  a crash) and only tells another place where the same entries lie.
- A snapshot reflects everything before it in the log. Chunks before it are places to read from; chunks behind it must
  follow on its next_index without a gap. A queue without a snapshot starts at index 1. A snapshot may be behind the log's
  end, and a cut takes the log back: such a queue is folded when everything is read.
- Only the end of the newest file may be unfinished: what lies at or behind its last sync mark and is not sound is cut, with
  everything of the same queues behind it. It was never reported durable.
- Anything else that is not sound is damage. Its queue is named and not served; its files are kept.
- A whole file that is missing (see roster.py) may have held anything. A queue is in doubt unless a later file has its state and
  what is left holds all that it needs by that state.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Final

from mirrormq.log.batch import encode_batch_head, encode_file_header
from mirrormq.log.chunk import CUT, DAMAGED, DROPPED, EXTENDED, MESSAGES, SNAPSHOT, Chunk, decode_chunk
from mirrormq.log.disk import Disk, write_all
from mirrormq.log.errors import DamagedChunk
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.found import Found
from mirrormq.log.queue import QueueLog
from mirrormq.log.reader import Reader
from mirrormq.log.roster import Roster, missing
from mirrormq.log.scan import NOTHING, UNKNOWN, BadPlace, Scan, has_drop
from mirrormq.log.segment import decode_manifest
from mirrormq.log.snapshot import Snapshot, decode_snapshot, is_live
from mirrormq.log.standing import AGAIN, ASIDE, BEGIN, RESTORE, SAME, Standing, decode_standing
from mirrormq.log.wal import PAGE, SUFFIX, Wal, WalFile

HEAD_BYTES: Final = 4096
ADVICE: Final = "restore the file from a backup or a mirror, or delete the queue to go on without its messages"


class Recovery:
    """`queues` by id, damaged ones among them; `missing` are files whose queues may be unknown; `notes` are sentences for the
    operator."""

    def __init__(self) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        self.missing: list[Path] = []
        self.notes: list[str] = []


class Recoverer:
    def __init__(self, wal: Wal, queues_directory: Path, disk: Disk, roster: Roster) -> None:
        self._wal: Wal = wal
        self._roster: Roster = roster
        self._last_missing: int = 0
        self._directory: Path = queues_directory
        self._disk: Disk = disk
        self._found: dict[int, Found] = {}
        self.dropped: set[int] = set()
        self.asides: dict[int, QueueLog] = {}
        self.recovery: Recovery = Recovery()

    def run(self) -> dict[int, QueueLog]:
        """Read every file, fold every queue, and leave the write-ahead log ready to be appended to."""
        paths = self._begun(sorted(self._wal.directory.glob("*" + SUFFIX)))
        ends = self._ends_of(paths)
        self._miss(missing(self._roster.read(), [int(path.stem) for path in paths]))
        if self._roster.problem:
            self.recovery.notes.append(self._roster.problem)
        for number, path in enumerate(paths):
            self._read_file(path, ends[number], newest=number == len(paths) - 1)
        reader = Reader(self._wal)
        for found in self._found.values():
            self._settle(found, reader)
        reader.close()
        return {queue_id: found.log for queue_id, found in self._found.items()}

    def _miss(self, numbers: list[int]) -> None:
        for number in numbers:
            self._last_missing = number
            path = self._wal.path(number)
            self.recovery.missing.append(path)
            self.recovery.notes.append(f"{path} is missing; a queue that lacks a middle part is named by itself")

    def _begun(self, paths: list[Path]) -> list[Path]:
        """Without what a crash left of beginning a file.

        One carries another number inside than outside, when the crash came before its new name was on disk: what it held
        under the old one had been given up, what it held under the new one was never reported durable. The newest may hold
        nothing yet. Any other file is kept, whatever its state.
        """
        kept = [path for path in paths if not Scan(_head(path, HEAD_BYTES), int(path.stem)).is_recycled()]
        while kept and _is_void(kept[-1]):
            kept.pop()
        for path in paths:
            if path not in kept:
                self._disk.unlink(path)
        return kept

    def _ends_of(self, paths: list[Path]) -> list[int]:
        """Up to where each file is good, as the next one's header says; -1 where nothing says so."""
        ends = []
        for number, path in enumerate(paths):
            after = paths[number + 1] if number + 1 < len(paths) else None
            end = -1
            if after is not None and int(after.stem) == int(path.stem) + 1:
                scan = Scan(_head(after, 64), int(after.stem))
                scan.run(64)
                end = scan.previous_end if scan.has_header else -1
            ends.append(end)
        return ends

    def _read_file(self, path: Path, limit: int, *, newest: bool) -> None:
        sequence = int(path.stem)
        scan = Scan(path.read_bytes(), sequence)
        scan.run(limit)
        if newest:
            self._cut_tail(scan, path)
        file = WalFile(sequence, path, scan.salt)
        file.fd = self._disk.create(path)
        if newest:
            # From here on marks will say that all this is on disk; a killed process may have left it in memory only.
            if not scan.has_header:
                self._write_header(file)
            self._disk.sync(file.fd)
        file.end = file.synced = scan.end
        file.capacity = len(scan.data) if len(scan.data) > scan.end + PAGE else 0
        self._wal.adopt(file)
        self._take_in(scan, file)

    def _write_header(self, file: WalFile) -> None:
        """The newest file is written on, so its header must be good."""
        previous_end = self._wal.files[-1].end if self._wal.files else 0
        write_all(self._disk, file.fd, encode_file_header(file.sequence, file.salt, previous_end), 0)

    def _take_in(self, scan: Scan, file: WalFile) -> None:
        if not scan.has_header:
            self.recovery.notes.append(f"{file.path}: the header of the file is damaged; nothing is lost")
        done = 0
        for chunk in scan.chunks:
            while done < len(scan.bad) and scan.bad[done].offset < chunk.offset:
                self._note_damage(scan.bad[done], file)
                done += 1
            file.queues.add(chunk.queue_id)
            self._take_chunk(chunk, scan.data, file)
        for place in scan.bad[done:]:
            self._note_damage(place, file)

    def _find(self, queue_id: int) -> Found:
        found = self._found.get(queue_id)
        if found is None:
            found = self._found[queue_id] = Found(queue_id)
        return found

    def _take_chunk(self, chunk: Chunk, data: bytes, file: WalFile) -> None:
        if chunk.flags & DROPPED:
            self._found.pop(chunk.queue_id, None)
            self.dropped.add(chunk.queue_id)
            return
        found = self._find(chunk.queue_id)
        payload = data[chunk.payload : chunk.payload + chunk.length]
        if chunk.flags & DAMAGED:
            found.damage = payload.decode("utf-8", "replace")
        elif chunk.flags & (SNAPSHOT | CUT):
            try:
                self._take_record(chunk, payload, file)
            except DamagedChunk as problem:
                found.damage = f"queue {chunk.queue_id:x} is damaged in {file.path}: {problem}; {ADVICE}"
        else:
            found.log.index.put(
                chunk.first_index, chunk.count, file.sequence, chunk.offset, chunk.size,
                messages=chunk.flags & MESSAGES != 0,
            )
            found.fold(data, chunk)

    def _take_record(self, chunk: Chunk, payload: bytes, file: WalFile) -> None:
        standing = decode_standing(payload) if chunk.flags & EXTENDED else None
        found = self._life(chunk.queue_id, standing)
        at = standing.end if standing is not None else 0
        directory = self.queue_directory(chunk.queue_id)
        moved_upto, segments, length = decode_manifest(payload[at:], directory, chunk.queue_id)
        found.log.moved_upto = moved_upto
        found.log.segments = segments
        found.log.index.cut_below(moved_upto)
        if chunk.flags & CUT:
            assert standing is not None
            found.take_cut(chunk, standing)
            return
        found.log.state_bytes = chunk.size
        found.log.snapshot_sequence = file.sequence
        found.take_snapshot(chunk, standing, decode_snapshot(payload[at + length :]))

    def _life(self, queue_id: int, standing: Standing | None) -> Found:
        """Whose record it is, of the lives that the queue's log has had (see standing.py)."""
        found = self._find(queue_id)
        life = standing.life if standing is not None else SAME
        if life == BEGIN or life == AGAIN:
            aside = found if life == BEGIN else found.aside
            found.aside = None
            found = self._found[queue_id] = Found(queue_id)
            found.aside = aside
        elif life == ASIDE:
            if found.aside is None:
                found.aside = Found(queue_id)
            return found.aside
        elif life == RESTORE and found.aside is not None:
            found = self._found[queue_id] = found.aside
        elif standing is None or not standing.has_aside:
            found.aside = None
        return found

    def queue_directory(self, queue_id: int) -> Path:
        return self._directory / f"{queue_id:x}"

    def _note_damage(self, place: BadPlace, file: WalFile) -> None:
        where = f"{file.path} at offset {place.offset} ({place.end - place.offset} bytes)"
        if place.queue_id == NOTHING:
            self.recovery.notes.append(f"{where}: the frame around sound chunks is damaged; nothing is lost")
        elif place.queue_id == UNKNOWN:
            self.recovery.notes.append(
                f"{where}: destroyed, and whose entries lay there is not known; a queue that lacks a middle part is named "
                "by itself, one that lacks only its end is not"
            )
        else:
            file.queues.add(place.queue_id)
            self._find(place.queue_id).lost.append((place, where))

    def _cut_tail(self, scan: Scan, path: Path) -> None:
        """Cut what is unfinished at the end of the newest file, keeping what is sound and complete behind it."""
        torn = [place for place in scan.bad if place.offset >= scan.synced]
        starts = [batch.offset for batch in scan.batches if batch.end > torn[0].offset] if torn else []
        cut = min(starts[0], torn[0].offset) if starts else torn[0].offset if torn else scan.end
        if not torn:
            return
        kept = _complete(scan, torn, cut)
        scan.bad = [place for place in scan.bad if place.offset < scan.synced]
        self._rewrite_tail(scan, path, cut, kept)
        self.recovery.notes.append(
            f"{path}: an unfinished write at offset {cut} was cut; nothing shows that it had been reported as stored"
        )

    def _rewrite_tail(self, scan: Scan, path: Path, cut: int, kept: list[bytes]) -> None:
        """In place: a crash in the middle of this leaves an unfinished tail again."""
        scan.chunks = [chunk for chunk in scan.chunks if chunk.offset < cut]
        end = cut
        new = scan.data[:cut]
        if kept:
            size = sum(map(len, kept))
            head = encode_batch_head(scan.sequence, scan.salt, scan.synced, kept, size)
            new = b"".join([new, head, *kept])
            end = len(new)
        fd = self._disk.create(path)
        try:
            self._disk.truncate(fd, cut)
            write_all(self._disk, fd, new[cut:], cut)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)
        at = end - sum(map(len, kept))
        for piece in kept:
            scan.chunks.append(decode_chunk(new, at))
            at += len(piece)
        scan.data = new
        scan.end = end

    def _settle(self, found: Found, reader: Reader) -> None:
        """Everything is read: judge the queue and hand it out."""
        log = found.log
        queue = found.queue
        self.recovery.queues[log.queue_id] = queue
        self._judge_damage(found)
        if found.gap and not found.damage:
            found.damage = f"queue {log.queue_id:x} is damaged: {found.gap}; {ADVICE}"
        self._check_segments(found)
        if found.late and not found.damage:
            found.damage = found.fold_late(reader, ADVICE)
        queue.settle()
        queue.damage = found.damage or None
        queue.since = found.snapshot
        if self.recovery.missing and not self._is_beyond_doubt(found):
            queue.doubt = f"{self.recovery.missing[-1]} is missing, and may have held a part of it"
        log.damage = found.damage
        log.epoch = queue.epoch
        log.next_index = queue.next_index
        if found.aside is not None:
            self._settle_aside(found.aside)

    def _is_beyond_doubt(self, found: Found) -> bool:
        """Its state is from after what is missing, and the chunks with everything that is live by it follow on one another."""
        snapshot = found.snapshot
        log = found.log
        if snapshot is None or log.snapshot_sequence < self._last_missing:
            return False
        first = min(snapshot.live[0], snapshot.cursor) if snapshot.live else snapshot.cursor
        want = max(first, log.moved_upto)
        for at in range(log.index.find(want), len(log.index)):
            if log.index.firsts[at] > want:
                return False
            want = log.index.next_index(at)
        return want >= log.next_index

    def _settle_aside(self, aside: Found) -> None:
        """It is folded only if it is wanted again."""
        self._check_segments(aside)
        log = aside.log
        log.damage = aside.damage or aside.gap
        log.state = aside.snapshot if aside.snapshot is not None else Snapshot(log.queue_id, 0, 1, 1, array("Q"))
        log.epoch = log.state.epoch
        self.asides[log.queue_id] = log

    def _judge_damage(self, found: Found) -> None:
        """A lost chunk that nobody needs any more is a note; any other makes the queue unfit to be served."""
        for place, where in found.lost:
            snapshot = found.snapshot
            if snapshot is not None and place.count and not is_live(snapshot, place.first, place.first + place.count):
                self.recovery.notes.append(f"{where}: damaged, but nothing in it is needed any more")
            elif not found.damage:
                found.damage = f"queue {found.log.queue_id:x} is damaged in {where}: a checksum is wrong; {ADVICE}"

    def _check_segments(self, found: Found) -> None:
        """Only that they are there and long enough; what is in them is verified when it is read."""
        log = found.log
        for segment in log.segments:
            log.next_generation = max(log.next_generation, segment.generation + 1)
            try:
                size = segment.path.stat().st_size
            except OSError:
                size = -1
            if size < segment.length and not found.damage:
                what = "is missing" if size < 0 else f"has {size} bytes instead of {segment.length}"
                found.damage = f"queue {log.queue_id:x} is damaged: {segment.path} {what}; {ADVICE}"


def _is_void(path: Path) -> bool:
    """Is there no batch in the file at all?"""
    sequence = int(path.stem)
    if Scan(_head(path, HEAD_BYTES), sequence).is_begun():
        return False
    scan = Scan(path.read_bytes(), sequence)
    scan.run(-1)
    return not scan.batches and not scan.bad


def _head(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _complete(scan: Scan, torn: list[BadPlace], cut: int) -> list[bytes]:
    """The sound chunks behind the cut, of queues that have nothing torn, as long as it is known whose everything was.

    A message that was dropped may have become a dead letter in what is cut, for the disk writes in any order. So drops are cut
    too, with what follows in their queue: the message is there again.
    """
    stop = len(scan.data)
    broken: set[int] = set()
    for place in torn:
        if place.queue_id in (UNKNOWN, NOTHING):
            stop = min(stop, place.offset)
        broken.add(place.queue_id)
    kept: list[bytes] = []
    for chunk in scan.chunks:
        if cut <= chunk.offset < stop and chunk.queue_id not in broken:
            if has_drop(scan.data, chunk):
                broken.add(chunk.queue_id)
            else:
                kept.append(scan.data[chunk.offset : chunk.end])
    return kept
