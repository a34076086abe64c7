"""A mirror's store beside a leader's, in random steps: it follows, goes its own way and is cut, begins anew and is filled,
restarts, crashes and loses power. After each it must be as it was after some step since it was last durable."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import suppress
from random import Random

from mirrormq.log import backfill, lives, quarantine
from mirrormq.log.chunk import decode_chunk
from mirrormq.log.entries import TRANSIENT
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.helper import perform
from mirrormq.log.keeper import due_work
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.steps import Step
from mirrormq.log.store import Store
from mirrormq.log.trail import Trail, trail_from

from .ledger import QUEUE, Fold, Ledger, Writer, line, lines
from .support import PowerDisk, abandon, fast_folder, half_done, read_all


class Version:
    """What the mirror's log was after one step."""

    def __init__(self, ledger: Ledger, whole: bool, filled: int, aside: Ledger | None, source: Ledger | None) -> None:
        self.ledger = ledger
        self.whole = whole
        self.filled = filled
        self.aside = aside
        self.source = source

    def copy(self) -> Version:
        return Version(self.ledger.copy(), self.whole, self.filled, self.aside, self.source)

    def fold(self, upto: int) -> Fold:
        """Of a log that began anew and is whole, what its source folds to."""
        return (self.ledger if self.source is None else _joined(self.source, self.ledger)).fold(upto)

    def matches(self, found: lives.Lineage, aside: bool) -> bool:
        mine = (self.ledger.base, self.ledger.end, self.whole, self.aside is not None)
        filled = self.whole or found.filled == self.filled
        runs = [run for run in zip(found.epochs, found.firsts, strict=True) if run[1] > found.base]
        firsts = self.ledger.runs()
        if found.base and firsts and found.epochs[0] == firsts[0][0]:
            firsts = firsts[1:]
        return mine == (found.base, found.end, found.whole, aside) and filled and runs == firsts


def _joined(source: Ledger, ledger: Ledger) -> Ledger:
    joined = source.copy()
    joined.cut(ledger.base)
    joined.entries += ledger.entries
    return joined


class Mirror:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.folder = fast_folder()
        self.sizes = (random.choice((2048, 8192, 50_000)), random.choice((1024, 4096, 20_000)))
        self.leader = Store(self.folder / "leader", wal_bytes=4096, segment_bytes=4096)
        self.leader.open()
        self.truth = Ledger()
        self.writer = Writer(random, b"l")
        self.stray = Writer(random, b"s")
        self.epoch = 1
        self.now = Version(Ledger(), True, 1, None, None)
        self.versions = [self.now.copy()]
        self.trail: Trail = trail_from(QUEUE, None)
        self.keeper: Generator[Step, None, None] | None = None
        self.retained = random.choice((1, 1, 1 << 62))
        self.open()

    def open(self, disk: PowerDisk | None = None) -> None:
        self.disk = disk or PowerDisk()
        self.store = Store(self.folder / "mirror", wal_bytes=self.sizes[0], segment_bytes=self.sizes[1], disk=self.disk)
        self.recovery = self.store.open()
        assert self.recovery.missing == []
        self.keeper = None
        lives.retain(self.store, QUEUE, self.retained)

    def note(self) -> None:
        self.versions.append(self.now.copy())
        lives.retain(self.store, QUEUE, self.retained)

    # --- the leader

    def lead(self) -> None:
        if self.random.random() < 0.1:
            self.epoch += 1
        count, chunk = self.writer.chunk(self.truth, self.epoch)
        self.leader.append(QUEUE, self.truth.end + 1, count, chunk)
        self.truth.take(self.epoch, chunk)
        lives.retain(self.leader, QUEUE, 1)
        if self.random.random() < 0.5:
            self.leader.commit()

    # --- following

    @property
    def in_common(self) -> int:
        """How far the mirror's log is the leader's."""
        mine = self.now.ledger
        for index in range(mine.base + 1, min(mine.end, self.truth.end) + 1):
            ours, theirs = mine.entries[index - mine.base - 1], self.truth.entries[index - 1]
            if ours[0] != theirs[0] or ours[1].index != theirs[1].index or line(ours[1]) != line(theirs[1]):
                return index - 1
        return max(min(mine.end, self.truth.end), mine.base)

    def follow(self) -> None:
        if self.in_common < self.now.ledger.end:
            self.cut_to(self.in_common)
        for data in lives.read_chunks(self.leader, QUEUE, self.now.ledger.end + 1, self.random.choice((1, 300, 3000))):
            chunk = decode_chunk(data, 0)
            self.store.append(QUEUE, chunk.first_index, chunk.count, data)
            self.now.ledger.take(chunk.epoch, data)
            self.note()
        lives.retain(self.store, QUEUE, self.retained)

    def go_astray(self) -> None:
        """It takes itself for the leader, in an epoch that nobody else has."""
        if not self.now.whole or self.now.source is not None:
            return
        self.epoch += 1
        for _ in range(self.random.randrange(1, 4)):
            count, chunk = self.stray.chunk(self.now.ledger, self.epoch)
            self.store.append(QUEUE, self.now.ledger.end + 1, count, chunk)
            self.now.ledger.take(self.epoch, chunk)
            self.note()
        self.epoch += 1

    def cut(self) -> None:
        """Anywhere that is allowed, also within chunks."""
        if self.floor < self.now.ledger.end:
            self.cut_to(self.random.randrange(self.floor, self.now.ledger.end))

    @property
    def floor(self) -> int:
        """What is stable is not cut: how far the trail has folded, if the log is whole."""
        floor = lives.lineage(self.store, QUEUE).floor
        return max(floor, self.trail.next_index - 1) if self.now.whole else floor

    def cut_to(self, keep: int) -> None:
        if keep < self.floor:
            return self.begin_anew()
        gone = self.now.ledger.entries[keep - self.now.ledger.base :]
        batch = self.store.take() if self.random.random() < 0.3 else None
        path = lives.cut(self.store, QUEUE, keep, "test", 5)
        assert path is not None
        messages = [entry.content for entry in quarantine.messages(path)]
        assert messages == [entry.content for _, entry, _ in gone if entry.kind == 1]
        if batch is not None:
            self.store.wal.commit(batch)
            self.store.finish(batch)
        self.now.ledger.cut(keep)
        self.note()
        return None

    # --- full sync

    def begin_anew(self) -> None:
        first = self.truth.end + 1
        if first == 1:
            return
        state = self.state() if self.now.whole and self.now.ledger.end else None
        lives.begin_at(self.store, QUEUE, first, self.truth.epoch_at(first - 1), state)
        if state is not None:
            self.now.aside = self.now.ledger.copy() if self.now.source is None else None
        aside = self.now.aside
        if QUEUE in self.store.asides and aside is None:
            lives.forget_aside(self.store, QUEUE)
        self.now = Version(Ledger(first - 1), False, 1, aside, None)
        self.versions.append(self.now.copy())
        lives.retain(self.store, QUEUE, self.retained)

    def fill(self) -> None:
        if self.now.whole:
            return
        base = self.now.ledger.base + 1
        trail = trail_from(QUEUE, None)
        assert trail.catch_up(self.leader, self.truth.end)
        position = self.now.filled if self.random.random() < 0.8 else 1
        piece = backfill.live_messages(
            self.leader, QUEUE, trail.snapshot(), position, base, self.random.choice((1, 500, 5000))
        )
        steps = backfill.install_piece(self.store, QUEUE, piece.data, piece.next)
        for step in steps:
            if step.job is not None:
                if self.random.random() < 0.1:
                    half_done(step.job, self.random)
                    return
                perform(step.job)
                self.tidy(self.random.randrange(3))
            else:
                self.now.filled = max(self.now.filled, min(piece.next, base))
                if self.store.queue(QUEUE) is not None and lives.lineage(self.store, QUEUE).whole:
                    self.become_whole(trail.snapshot())
                self.note()
                self.commit(sync=True)

    def become_whole(self, state: Snapshot) -> None:
        self.now.whole = True
        self.now.aside = None
        self.now.source = self.truth.copy()
        self.trail = trail_from(QUEUE, state)

    def restore(self) -> None:
        if self.now.aside is None:
            return
        state = lives.restore_aside(self.store, QUEUE)
        assert state is not None
        self.trail = trail_from(QUEUE, state)
        self.now = Version(self.now.aside.copy(), True, 1, None, None)
        self.note()

    # --- tidying up

    def state(self) -> Snapshot:
        """Folded on to anywhere, but never back."""
        folded = self.trail.next_index - 1
        upto = self.random.randrange(folded, max(folded, self.in_common) + 1)
        assert self.trail.catch_up(self.store, upto)
        self.compare(self.trail.state, self.now.fold(upto))
        return self.trail.snapshot()

    def compare(self, state: RecoveredQueue, fold: Fold) -> None:
        kept = fold.persistent()
        assert state.count == len(kept)
        assert state.bytes == sum(map(len, kept.values()))
        assert state.reserved == fold.reserved
        assert state.publishers == fold.publishers

    def snapshotter(self, queue_id: int) -> Snapshot | None:
        return self.state() if self.now.ledger.end else None

    def retain(self) -> None:
        self.retained = max(self.retained, self.random.randrange(1, self.now.ledger.end + 2))
        lives.retain(self.store, QUEUE, self.retained)

    def trim(self) -> None:
        if self.now.whole and self.now.ledger.end:
            self.store.trim(QUEUE, self.state())

    def commit(self, *, sync: bool, roll: bool = False) -> None:
        self.store.commit(sync=sync, roll=roll)
        if not self.disk.undone:
            self.versions = [self.now.copy()]

    def tidy(self, steps: int) -> None:
        for _ in range(steps):
            step = self.next_step()
            if step is None:
                return
            if step.job is not None:
                perform(step.job)
            elif step.position > self.store.durable:
                self.commit(sync=True)

    def next_step(self) -> Step | None:
        if self.keeper is None:
            self.keeper = due_work(self.store, self.snapshotter)
        step = next(self.keeper, None)
        if step is None:
            self.keeper = None
        return step

    # --- stopping

    def restart(self) -> None:
        self.store.close()
        self.versions = [self.now.copy()]
        self.come_back()
        assert self.recovery.notes == []

    def crash(self) -> None:
        self.store.commit(sync=False)
        abandon(self.store)
        self.versions = [self.now.copy()]
        self.come_back(self.disk)

    def power_failure(self) -> None:
        batch = self.store.take() if self.random.random() < 0.5 else None
        if batch is not None and not self.store.wal.targets_before(batch):
            self.store.wal.write(batch)
        abandon(self.store)
        self.disk.lose_power(self.random)
        self.come_back()

    def crash_in_a_job(self) -> None:
        for _ in range(200):
            step = self.next_step()
            if step is None:
                return
            if step.job is not None:
                half_done(step.job, self.random)
                break
            if step.position > self.store.durable:
                self.commit(sync=True)
        abandon(self.store)
        self.disk.lose_power(self.random)
        self.come_back()

    def come_back(self, disk: PowerDisk | None = None) -> None:
        self.open(disk)
        found = lives.lineage(self.store, QUEUE)
        matching = [version for version in self.versions if version.matches(found, QUEUE in self.store.asides)]
        assert matching, f"{found.base} {found.end} {found.epochs} {found.firsts} {found.whole}"
        self.now = matching[-1].copy()
        self.versions = [self.now.copy()]
        queue = self.recovery.queues.get(QUEUE)
        since = None
        if queue is not None:
            assert queue.damage is None, queue.damage
            since = queue.since
            if self.now.whole:
                self.compare(queue, self.now.fold(self.now.ledger.end))
        self.trail = trail_from(QUEUE, since)
        lives.retain(self.store, QUEUE, self.retained)

    # --- what holds at all times

    def check(self) -> None:
        ledger = self.now.ledger
        found = lives.lineage(self.store, QUEUE)
        assert self.now.matches(found, QUEUE in self.store.asides)
        assert found.first_kept <= max(self.retained, ledger.base + 1) or not self.now.whole
        self.check_chunks(ledger, found.first_kept)
        if self.now.whole:
            kept = self.now.fold(ledger.end).live
            read = {entry.index: entry.content for entry in read_all(self.store, QUEUE, 1, self.random.choice((1, 5000)))}
            for index, entry in kept.items():
                if not entry.flags & TRANSIENT or index > ledger.base:
                    assert read[index] == entry.content

    def check_chunks(self, ledger: Ledger, first_kept: int) -> None:
        if ledger.end > ledger.base:
            first = self.random.randrange(ledger.base + 1, ledger.end + 1)
            chunks = lives.read_chunks(self.store, QUEUE, first, self.random.choice((1, 1000, 100_000)))
            assert chunks or first < first_kept
            for at, (index, told) in enumerate(lines(chunks)):
                assert index == first + at
                assert told == line(ledger.entries[index - ledger.base - 1][1])

    def close(self) -> None:
        with suppress(AssertionError, OSError):
            abandon(self.store)
        self.leader.close()
        shutil.rmtree(self.folder, ignore_errors=True)
