"""Keeping the store small while the node serves: retired files are dissolved, segments trimmed and compacted.

run() belongs into the owner's task group and lasts until it is cancelled. It sleeps until the store has work. Each step
holds the event loop for about a millisecond at most; what takes longer is done by the worker. A step that the disk
refuses is repeated until it works, for every job may be repeated. But what frees space must not wait for what needs some:
where there is no room, segments are not brought together, and while a file cannot be dissolved, what has gone is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Final

from mirrormq.log.committer import Committer
from mirrormq.log.compact import Compactor
from mirrormq.log.dissolve import Dissolver, Snapshotter, collect_garbage, note_files
from mirrormq.log.helper import perform
from mirrormq.log.steps import Step
from mirrormq.log.store import Store
from mirrormq.log.syncer import Worker

RETRY_SECONDS: Final = 0.5


class Keeper:
    """on_fault(sentence) is called when the disk refuses a step, on_fault(None) when it is done after all."""

    def __init__(
        self, store: Store, committer: Committer, loop: asyncio.AbstractEventLoop, snapshotter: Snapshotter,
        on_fault: Callable[[str | None], None] | None = None, *, worker: Worker | None = None,
    ) -> None:
        self._store: Store = store
        self._committer: Committer = committer
        self._worker: Worker = worker if worker is not None else Worker(loop, store.lock_fd)
        self._snapshotter: Snapshotter = snapshotter
        self._compactor: Compactor = Compactor(store, snapshotter)
        self._on_fault: Callable[[str | None], None] | None = on_fault
        self._wake: asyncio.Event = asyncio.Event()
        self._faulty: bool = False
        self._sparse: set[int] = set()
        store.on_work = self._wake.set
        self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._store.turns.clear()       # nothing is under way that could ask; deleted queues would add up
                for step in due_work(self._store, self._snapshotter, self._compactor):
                    await self._take(step)
                self._report(None)
                sparse, self._sparse = self._sparse, set()
                for step in self._compactor.compact_all(sparse):
                    await self._take(step)
        finally:
            self._worker.close()

    def compact(self, queue_id: int) -> None:
        """Much of the queue has gone: where little is written the log moves on late, and the disk may be full before."""
        self._sparse.add(queue_id)
        self._wake.set()

    def try_again(self) -> None:
        """From time to time: there may be room now for what was given up."""
        if self._compactor.refused:
            self._sparse |= self._compactor.refused
            self._compactor.refused.clear()
            self._wake.set()

    async def _take(self, step: Step) -> None:
        if step.position:
            await self._committer.reach(step.position)
        elif step.refusal is not None:
            await self._wait_out(step.refusal)
        elif step.job is None:
            await asyncio.sleep(0)
        else:
            await self._perform(step)

    async def _perform(self, step: Step) -> None:
        assert step.job is not None
        was_refused = False
        while True:
            try:
                await self._worker.perform(step.job)
            except OSError as problem:
                if step.is_attempt:
                    step.refusal = problem
                    return
                was_refused = True
                await self._wait_out(problem)
            else:
                if was_refused or step.is_attempt:      # what is removed meanwhile does not end the trouble
                    self._report(None)
                return

    async def _wait_out(self, refusal: OSError) -> None:
        self._report(f"cannot tidy up the log: {refusal.strerror}; it is tried again until it works")
        await asyncio.sleep(RETRY_SECONDS)

    def _report(self, sentence: str | None) -> None:
        if (sentence is not None) != self._faulty:
            self._faulty = sentence is not None
            if self._on_fault is not None:
                self._on_fault(sentence)


def due_work(store: Store, snapshotter: Snapshotter, compactor: Compactor | None = None) -> Generator[Step, None, None]:
    """Everything that is to be done now, one thing after another."""
    if compactor is None:
        compactor = Compactor(store, snapshotter)
    while True:
        # What was concluded from a file that is missing is durable before it is missed no more.
        yield Step(None, store.position)
        yield from note_files(store)
        yield from collect_garbage(store)
        if store.wal.retired:
            file = store.wal.retired[0]
            queues = set(file.queues)
            yield from Dissolver(store, snapshotter).dissolve(file)
            yield from compactor.compact_all(queues)
        elif store.wal.wants_spare():
            yield from prepare_spare(store)
        else:
            return


def prepare_spare(store: Store) -> Generator[Step, None, None]:
    """A spare only makes commits faster. Where it cannot be had, for whatever reason, nobody asks again until the next file
    begins: neither publishers nor what frees space wait for it."""
    path = store.wal.spare_path()
    store.wal.unspared = store.wal.current.sequence
    fill = Step(("fill", str(path), store.wal.file_bytes), 0, is_attempt=True)
    yield fill
    if fill.refusal is None:
        store.wal.spares.append(path)


def run_steps(store: Store, steps: Generator[Step, None, None]) -> None:
    """Take every step here and now."""
    for step in steps:
        if step.job is not None:
            try:
                perform(step.job)
            except OSError as problem:
                if not step.is_attempt:
                    raise
                step.refusal = problem
        elif step.position > store.durable:
            store.commit()
