"""What happens to a log as a whole: it is cut, begins anew, is filled from below, is given up for an older one. Compiled.

Rules
 1. Each change is one record, or records gathered together, which one batch holds: after a crash it has happened or it has not.
    In memory it holds at once; what is under way in the old order is marked, and written, and void by the record behind it.
 2. A log is not cut below its newest snapshot, for messages that ended before it may be gone. Whoever may have to cut therefore
    gives snapshots of what is stable, and not of all that is appended.
 3. What is cut off is in quarantine, on disk, before it is cut.
 4. A cut within a chunk makes the front of that chunk a chunk of its own, behind the record.
 5. What is set aside stays until the new log is whole; until then it can be had back.
 6. A log that is not whole loses nothing, because nobody knows what in it is live.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mirrormq.log import quarantine
from mirrormq.log.chunk import CUT, EXTENDED, decode_chunk
from mirrormq.log.dissolve import unfilled
from mirrormq.log.entries import Entry, entries_in
from mirrormq.log.errors import CannotCut, QueueDamaged
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.queue import NEVER, RECORD, QueueLog
from mirrormq.log.ranges import RangeSet, pairs
from mirrormq.log.raw import chunk_at, first_kept, read_raw
from mirrormq.log.segment import Segment, encode_manifest
from mirrormq.log.slices import sliced
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.standing import AGAIN, BEGIN, RESTORE, SAME, encode_standing
from mirrormq.log.store import Store

FOLDER: Final = "quarantine"


class Lineage:
    """Which epoch wrote which indexes; run k has epochs[k] and starts at firsts[k]. `first_kept`: from there on the log has no
    hole. `floor`: the lowest index that cut() may keep. `whole`, `filled`: see QueueLog."""

    __slots__ = ("base", "end", "epochs", "filled", "first_kept", "firsts", "floor", "whole")

    def __init__(self, queue: QueueLog, first_kept: int) -> None:
        self.base: int = queue.base
        self.end: int = queue.next_index - 1
        self.epochs: list[int] = queue.epochs[:]
        self.firsts: list[int] = queue.firsts[:]
        self.floor: int = max(queue.floor - 1, queue.base)
        self.first_kept: int = first_kept
        self.whole: bool = queue.whole
        self.filled: int = queue.filled


def lineage(store: Store, queue_id: int) -> Lineage:
    """Of an unknown queue, that of an empty log."""
    queue = store.queue(queue_id)
    return Lineage(queue, first_kept(store.reader, queue)) if queue is not None else nothing(queue_id)


def nothing(queue_id: int) -> Lineage:
    """Of an empty log."""
    return Lineage(QueueLog(queue_id), 1)


def read_chunks(store: Store, queue_id: int, first: int, max_bytes: int) -> list[bytes]:
    """See raw.read_raw."""
    queue = store.queue(queue_id)
    return read_raw(store.reader, queue, first, max_bytes) if queue is not None else []


def retain(store: Store, queue_id: int, first: int = NEVER) -> None:
    """Keep every entry from `first` on, for those who follow. It is not remembered across a restart: say it again after open,
    before anything is tidied up."""
    for queue in store.lives(queue_id):
        queue.retain_from = first


def want(store: Store, queue_id: int, ranges: list[int]) -> None:
    """Keep the entries in these flat, inclusive ranges, though their messages have ended. As with retain, say it again after
    open. A log that begins anew knows nothing of it."""
    queue = store.queue(queue_id)
    if queue is not None:
        queue.wanted = ranges


def entry_at(store: Store, queue_id: int, index: int) -> Entry | None:
    """The entry with that index, whatever it is; None where the log has it no more. Raises QueueDamaged."""
    queue = store.queue(queue_id)
    data = b"" if queue is None else chunk_at(store.reader, queue, index)
    found = [entry for entry in entries_in(data, 0) if entry.index == index] if data else []
    return found[0] if found else None


def condemn(store: Store, queue_id: int, why: str) -> None:
    """What the log holds is not to be relied on, nor served, after a restart either; begin_at() lets another take its place."""
    queue = store.queue(queue_id)
    if queue is None:
        queue = QueueLog(queue_id, store.retain_new)
        store.adopt(queue)
    queue.damage = queue.damage or why
    store.put_damage(queue)


def cut(store: Store, queue_id: int, keep: int, reason: str, time_ms: int) -> Path | None:
    """Cut off everything behind `keep`; returns the quarantine file, None where there was nothing.

    Raises CannotCut where `keep` is below lineage().floor, OSError where quarantine cannot be written; then nothing is cut.
    """
    queue = store.queue(queue_id)
    if queue is None or keep + 1 >= queue.next_index:
        return None
    if queue.damage:
        raise QueueDamaged(queue.damage)
    if keep + 1 < queue.floor or keep < queue.base:
        raise CannotCut(f"queue {queue_id:x} cannot be cut behind {keep}: its state is known from {queue.floor - 1} on")
    path = quarantine.put(store.directory / FOLDER, store.disk, store.reader, queue, keep + 1, reason, time_ms)
    front = chunk_at(store.reader, queue, keep + 1)
    border = decode_chunk(front, 0).first_index
    front = sliced(front, border, keep + 1) if border <= keep else b""
    if queue.relied is not None:
        store.log_state(queue, queue.relied, SAME)      # the manifest that comes with the cut holds by this state only
    gone = _cut_off(store, queue, border)
    standing = encode_standing(queue, SAME, has_aside=queue_id in store.asides)
    store.put_record(CUT | EXTENDED, queue, standing + encode_manifest(queue.moved_upto, queue.segments))
    if front:
        store.append(queue_id, border, keep + 1 - border, front)
    if gone:
        store.discard([segment.path for segment in gone])
    return path


def spare(store: Store, queue_id: int, keep: int, reason: str, time_ms: int) -> Path | None:
    """Of a log that is to be given up: put into quarantine what lies behind `keep`, as far as it has no hole. Raises OSError."""
    queue = store.queue(queue_id)
    if queue is None or queue.damage:
        return None
    first = max(keep + 1, first_kept(store.reader, queue))
    if first >= queue.next_index:
        return None
    return quarantine.put(store.directory / FOLDER, store.disk, store.reader, queue, first, reason, time_ms)


def spare_live(store: Store, queue_id: int, ranges: list[int], reason: str, time_ms: int) -> int:
    """The same for what is live in these flat ranges, where the log has holes. Returns how many messages that are."""
    queue = store.queue(queue_id)
    if queue is None or queue.damage:
        return 0
    return quarantine.put_orphans(store.directory / FOLDER, store.disk, store.reader, queue, ranges, queue.epoch, reason, time_ms)


def _cut_off(store: Store, queue: QueueLog, border: int) -> list[Segment]:
    """Forget the chunks from border on, wherever they lie; returns the segments of which nothing is left."""
    store.turned(queue.queue_id)
    store.reader.rewind(queue)
    for item in store.on_the_way():
        if item.queue is queue and item.kind != RECORD and item.first >= border:
            item.cut = True
    gone = [segment for segment in queue.segments if segment.first_index >= border]
    queue.segments = [segment for segment in queue.segments if segment.first_index < border]
    for segment in gone:
        store.reader.close_segment(segment)
    for segment in queue.segments:
        if segment.next_index > border:
            segment.cut(border, store.reader.open_segment(segment))
    queue.moved_upto = min(queue.moved_upto, border)
    queue.index.cut_from(border)
    queue.tail = [item for item in queue.tail if item.first < border]
    queue.cut_runs(border - 1)
    queue.next_index = border
    return gone


def begin_at(store: Store, queue_id: int, first: int, before_epoch: int, state: Snapshot | None, *,
             differs: bool = False) -> None:
    """Start the log anew at `first`, behind an entry of before_epoch. What it held is set aside, with its `state`, which is
    needed unless the log is empty or not whole; whether it `differs`: see QueueLog. What was set aside before stays in preference
    to a log that is not whole."""
    old = store.queue(queue_id)
    life = AGAIN
    if old is not None and old.whole and not old.damage and old.next_index > 1:
        assert state is not None, "what is set aside must be known"
        assert state.next_index >= old.floor, "a state never goes back"
        _give_up_aside(store, queue_id)
        old.differs = differs
        store.log_state(old, state, SAME)
        old.state = state
        store.reader.rewind(old)
        store.asides[queue_id] = old
        life = BEGIN
    elif old is not None:
        _give_up(store, old)
    new = QueueLog(queue_id, store.retain_new)
    new.start_behind(first - 1, before_epoch)
    new.epoch = before_epoch
    new.whole = first == 1
    if old is not None:
        new.retain_from = old.retain_from
        new.next_generation = old.next_generation
    store.adopt(new)
    store.log_state(new, unfilled(new), life)


def _give_up(store: Store, queue: QueueLog) -> None:
    store.abandon(queue)
    if queue.segments:
        store.discard([segment.path for segment in queue.segments])


def _give_up_aside(store: Store, queue_id: int) -> None:
    aside = store.asides.pop(queue_id, None)
    if aside is not None:
        _give_up(store, aside)


def forget_aside(store: Store, queue_id: int) -> None:
    """What was set aside is not wanted any more."""
    queue = store.queue(queue_id)
    if queue is not None and queue_id in store.asides:
        assert not queue.whole, "a log that is whole has nothing set aside"
        _give_up_aside(store, queue_id)
        store.put_snapshot(unfilled(queue))


def restore_aside(store: Store, queue_id: int) -> Snapshot | None:
    """The log that was set aside is the log again; returns its state, to be folded on. None where there is none."""
    aside = store.asides.pop(queue_id, None)
    if aside is None or aside.state is None:
        return None
    new = store.queue(queue_id)
    if new is not None:
        _give_up(store, new)
    state = aside.state
    aside.state = None
    aside.differs = False
    store.adopt(aside)
    store.log_state(aside, state, RESTORE)
    return state


def has_orphans(store: Store, queue_id: int, state: Snapshot) -> bool:
    """The log that is set aside ends before a leader ended by name what it did not have, or it differed from the leader's: what
    is live in it may be nowhere else."""
    aside = store.asides.get(queue_id)
    return aside is not None and aside.state is not None and (aside.differs or aside.state.lost_in < state.lost_in)


def keep_orphans(store: Store, queue_id: int, state: Snapshot, reason: str, time_ms: int) -> int:
    """Before finish_install: put into quarantine what was live in the log that is set aside and is not in the one that takes its
    place. Returns how many messages that are."""
    aside = store.asides[queue_id]
    assert aside.state is not None
    old = RecoveredQueue(queue_id)
    old.start_from(aside.state)
    old.next_index = aside.next_index
    new = RecoveredQueue(queue_id)
    new.start_from(state)
    gone = RangeSet()
    for low, high in pairs(old.live_in(1, old.next_index - 1)):
        gone.add(low, high)
    for low, high in pairs(new.live_in(1, new.next_index - 1)):
        gone.discard(low, high)
    folder = store.directory / FOLDER
    return quarantine.put_orphans(folder, store.disk, store.reader, aside, gone.flat(), state.lost_in, reason, time_ms)


def keep_lost(store: Store, queue_id: int, state: RecoveredQueue, reason: str, time_ms: int, epoch: int) -> int:
    """Put the state's orphans into quarantine, which are live no longer since that epoch. Returns how many messages that are."""
    queue = store.queue(queue_id)
    if queue is None:
        return 0
    folder = store.directory / FOLDER
    count = quarantine.put_orphans(folder, store.disk, store.reader, queue, state.orphans, epoch, reason, time_ms)
    state.orphans = []
    return count


def finish_install(store: Store, queue_id: int, state: Snapshot) -> bool:
    """Every piece is installed: the log is whole, with this state of its source's, and what was set aside goes.

    False where the log does not reach as far as that state yet: ask again when more has been appended.
    """
    queue = store.queue(queue_id)
    if queue is None or queue.next_index < state.next_index:
        return False
    if not queue.whole:
        queue.whole = True
        queue.filled = queue.base + 1
        _give_up_aside(store, queue_id)
        store.put_snapshot(state)
    return True
