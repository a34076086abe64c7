"""The store against plain dictionaries: random appends, ends, rolls, tidying up, restarts, crashes and power failures."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mirrormq.log.entries import PURGED, TRANSIENT, ChunkBuilder
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.helper import perform
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.steps import Step
from mirrormq.log.store import Store

from .support import ModelQueue, PowerDisk, abandon, fast_folder, half_done, read_all, recovered_live, seal

SLOTS = st.integers(0, 3)


class StoreMachine(RuleBasedStateMachine):
    """`model` is what was appended; `kept` how far each queue was durable at the last sync; `history` has every state that
    a queue ever had, by its next index."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = fast_folder()
        self.model: dict[int, ModelQueue] = {}
        self.kept: dict[int, int] = {}
        self.history: dict[int, dict[int, ModelQueue]] = {}
        self.slots = [1, 2, 3, 4]
        self.last_id = 4
        self.keeper: Generator[Step, None, None] | None = None
        self.time = 0

    @initialize(
        seed=st.integers(0, 1 << 32), wal_bytes=st.sampled_from((2048, 8192, 100_000)),
        segment_bytes=st.sampled_from((1024, 4096, 50_000)),
    )
    def start(self, seed: int, wal_bytes: int, segment_bytes: int) -> None:
        self.random = Random(seed)
        self.sizes = (wal_bytes, segment_bytes)
        self.open()

    def open(self, disk: PowerDisk | None = None) -> None:
        self.disk = disk or PowerDisk()
        self.store = Store(self.folder, wal_bytes=self.sizes[0], segment_bytes=self.sizes[1], disk=self.disk)
        self.recovery = self.store.open()
        assert self.recovery.missing == []
        self.keeper = None

    def queue(self, slot: int) -> ModelQueue:
        queue_id = self.slots[slot]
        return self.model.setdefault(queue_id, ModelQueue(queue_id))

    def append(self, queue: ModelQueue, builder: ChunkBuilder) -> None:
        queue.next_index = builder.next_index
        seal(self.store, builder, self.time)
        self.history.setdefault(queue.queue_id, {})[queue.next_index] = queue.copy()

    def builder(self, queue: ModelQueue) -> ChunkBuilder:
        return ChunkBuilder(queue.queue_id, 1, queue.next_index)

    @rule(slot=SLOTS, sizes=st.lists(st.integers(0, 300), min_size=1, max_size=20), transient=st.booleans())
    def publish(self, slot: int, sizes: list[int], transient: bool) -> None:
        queue = self.queue(slot)
        builder = self.builder(queue)
        self.time += 1
        for size in sizes:
            flags = TRANSIENT if transient and self.random.random() < 0.5 else 0
            address, content = self.random.randbytes(4), self.random.randbytes(size)
            index = builder.enqueue(flags, address, content, size)
            queue.messages[index] = (flags, address, content, size, self.time)
            queue.live.add(index)
        self.append(queue, builder)

    @rule(slot=SLOTS, share=st.floats(0, 1), in_order=st.booleans(), drop=st.booleans())
    def end(self, slot: int, share: float, in_order: bool, drop: bool) -> None:
        queue = self.queue(slot)
        live = sorted(queue.live)
        chosen = live[: int(len(live) * share)] if in_order else [i for i in live if self.random.random() < share]
        if chosen:
            ranges, count, size = queue.end(chosen)
            builder = self.builder(queue)
            if drop:
                builder.drop(PURGED, ranges, count, size)
            else:
                builder.ack(ranges, count, size)
            self.append(queue, builder)

    @rule(slot=SLOTS, n=st.integers(1, 1000))
    def skip_and_reserve(self, slot: int, n: int) -> None:
        queue = self.queue(slot)
        builder = self.builder(queue)
        builder.skip(n)
        queue.reserved = max(queue.reserved, builder.next_index)
        builder.reserve(builder.next_index)
        self.append(queue, builder)

    @rule(slot=SLOTS)
    def delete(self, slot: int) -> None:
        """A queue id is never used again."""
        if self.model.pop(self.slots[slot], None) is not None:
            self.store.drop(self.slots[slot])
            self.last_id += 1
            self.slots[slot] = self.last_id

    @rule(sync=st.booleans(), roll=st.booleans())
    def commit(self, sync: bool, roll: bool) -> None:
        before = self.store.position
        self.store.commit(sync=sync, roll=roll)
        assert self.store.durable <= before == self.store.position
        if sync:
            assert self.store.durable == before
        if not self.disk.undone:
            self.note_durable()

    def note_durable(self) -> None:
        self.kept = {queue_id: queue.next_index for queue_id, queue in self.model.items() if queue.next_index > 1}

    @rule(slot=SLOTS)
    def trim(self, slot: int) -> None:
        queue_id = self.slots[slot]
        if queue_id in self.model:
            self.store.trim(queue_id, self.model[queue_id].snapshot())

    def snapshotter(self, queue_id: int) -> Snapshot | None:
        queue = self.model.get(queue_id)
        return queue.snapshot() if queue is not None else None

    @rule(steps=st.integers(1, 60))
    def tidy(self, steps: int) -> None:
        for _ in range(steps):
            if self.keeper is None:
                self.keeper = due_work(self.store, self.snapshotter)
            step = next(self.keeper, None)
            if step is None:
                self.keeper = None
                return
            if step.job is not None:
                perform(step.job)
            elif step.position > self.store.durable:
                self.commit(True, False)

    @rule()
    def tidy_all(self) -> None:
        for _ in range(2):
            run_steps(self.store, self.keeper or due_work(self.store, self.snapshotter))
            self.keeper = None
        self.commit(True, False)
        assert len(self.store.wal.files) <= 2

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.note_durable()
        self.come_back()
        assert self.recovery.notes == []

    @rule()
    def crash(self) -> None:
        """The process is killed: everything written is there, but what was not synced is still not on disk."""
        self.store.commit(sync=False)
        abandon(self.store)
        self.note_durable()
        self.come_back(self.disk)

    @rule(unsynced=st.integers(0, 4), writing=st.booleans())
    def power_failure(self, unsynced: int, writing: bool) -> None:
        """After some commits that were not synced, perhaps in the middle of one that was to be."""
        for _ in range(unsynced):
            self.publish(self.random.randrange(4), [self.random.randrange(200) for _ in range(5)], False)
            self.end(self.random.randrange(4), 0.3, True, False)
            self.commit(False, False)
        batch = self.store.take() if writing else None
        if batch is not None and not self.store.wal.targets_before(batch):
            self.store.wal.write(batch)
        abandon(self.store)
        self.disk.lose_power(self.random)
        self.come_back()

    @rule()
    def crash_in_a_job(self) -> None:
        """The process and its helper die when a job is half done."""
        for _ in range(200):
            if self.keeper is None:
                self.keeper = due_work(self.store, self.snapshotter)
            step = next(self.keeper, None)
            if step is None:
                self.keeper = None
                return
            if step.job is not None:
                half_done(step.job, self.random)
                break
            if step.position > self.store.durable:
                self.commit(True, False)
        abandon(self.store)
        self.disk.lose_power(self.random)
        self.come_back()

    def come_back(self, disk: PowerDisk | None = None) -> None:
        """Every queue must be as it once was, and not before its last durable state."""
        self.open(disk)
        found = self.recovery.queues
        for queue_id, durable in self.kept.items():
            assert queue_id not in self.model or found[queue_id].next_index >= durable
        for queue_id in set(self.model) - set(found):
            del self.model[queue_id]
        for queue_id, queue in found.items():
            assert queue.damage is None, queue.damage
            if queue_id not in self.model:
                self.store.drop(queue_id)
            else:
                self.model[queue_id] = self.go_back(queue_id, queue.next_index)
                self.compare(self.model[queue_id], queue)
        self.note_durable()

    def go_back(self, queue_id: int, next_index: int) -> ModelQueue:
        """The queue as it was at that index; what came later never was."""
        history = self.history[queue_id]
        model = history[next_index].copy()
        model.messages = {index: message for index, message in model.messages.items() if index < next_index}
        self.history[queue_id] = {index: state for index, state in history.items() if index <= next_index}
        return model

    def compare(self, model: ModelQueue, queue: RecoveredQueue) -> None:
        model.restarted()
        assert recovered_live(queue, model.messages) == model.persistent()
        assert queue.count == len(model.live)
        assert queue.bytes == sum(model.messages[index][3] for index in model.live)
        assert queue.reserved == model.reserved

    @invariant()
    def every_live_message_can_be_read(self) -> None:
        for queue_id, queue in self.model.items():
            self.check_reading(queue_id, queue)

    def check_reading(self, queue_id: int, queue: ModelQueue) -> None:
        start = self.random.randrange(1, queue.next_index + 1) if self.random.random() < 0.7 else 1
        entries = read_all(self.store, queue_id, start, self.random.choice((1, 100, 5000)))
        indexes = [entry.index for entry in entries]
        assert indexes == sorted(set(indexes))
        assert set(indexes) >= {index for index in queue.live if index >= start}
        for entry in entries:
            found = (entry.flags, entry.address, entry.content, entry.size, entry.time_ms)
            assert found == queue.messages[entry.index]

    def teardown(self) -> None:
        if hasattr(self, "store"):
            abandon(self.store)
        shutil.rmtree(self.folder, ignore_errors=True)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=40)
