"""Group commit from the event loop, by draining: what is appended while one commit is under way goes into the next.

kick() is called once per turn of the loop when something was appended. Writing into the page cache is done at once, in
slices; the wait for the disk is the syncer's. A failed write keeps its batch, says so once, and is repeated at the same
place until it works. A failed sync is not repeated: the kernel may have dropped the pages and then call the next sync good,
so the batch is written again, into a new file.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import perf_counter
from typing import Final

from mirrormq.log.helper import Answer
from mirrormq.log.store import Store
from mirrormq.log.syncer import Syncer, best_syncer
from mirrormq.log.wal import Batch

RETRY_SECONDS: Final = 0.2
SLICE: Final = 1 << 20


class Committer:
    """on_durable(position) is called on the loop after each commit, with how far the log is synced; on_fault(sentence) when the
    disk refuses, on_fault(None) when it is well again."""

    def __init__(
        self, store: Store, loop: asyncio.AbstractEventLoop, on_durable: Callable[[int], None],
        on_fault: Callable[[str | None], None], *, syncer: Syncer | None = None,
    ) -> None:
        self._store: Store = store
        self._loop: asyncio.AbstractEventLoop = loop
        self._on_durable: Callable[[int], None] = on_durable
        self._on_fault: Callable[[str | None], None] = on_fault
        self._syncer: Syncer = syncer if syncer is not None else best_syncer(loop)
        self._batch: Batch | None = None
        self._wants_sync: bool = False
        self._is_delayed: bool = False
        self._started: float = 0.0
        self._fault: str | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        store.on_close.append(self.close)

    @property
    def busy(self) -> bool:
        """Is a commit under way?"""
        return self._batch is not None

    @property
    def fault(self) -> str | None:
        """What the disk refuses, if it does."""
        return self._fault

    def kick(self, *, sync: bool = True) -> None:
        """Something was appended; sync=False says that it need not outlive a power failure. sync=True is for everything appended
        so far, written already or not."""
        if sync:
            self._wants_sync = True
        if self._batch is None:
            self._start()

    def _start(self) -> None:
        delay = self._store.crowding()
        if delay > 0.0:
            self._start_later(delay)
            return
        self._go()

    def _go(self) -> None:
        batch = self._store.take(sync=self._wants_sync)
        self._wants_sync = False            # without a batch there is nothing that is not synced
        if batch is not None:
            self._begin(batch)

    def _start_later(self, delay: float) -> None:
        """Retired files wait to be dissolved: what is gathered meanwhile slows down those who publish."""
        if not self._is_delayed:
            self._is_delayed = True
            self._loop.call_later(delay, self._start_after_delay)

    def _start_after_delay(self) -> None:
        self._is_delayed = False
        if self._batch is None:
            self._go()

    def _begin(self, batch: Batch) -> None:
        self._batch = batch
        self._started = perf_counter()
        self._sync_before()

    def _sync_before(self) -> None:
        assert self._batch is not None
        before = self._store.wal.targets_before(self._batch)
        if before:
            self._syncer.sync(before, b"d", self._synced_before)
        else:
            self._write()

    def _synced_before(self, answer: Answer) -> None:
        assert self._batch is not None
        if answer[1]:
            self._sync_failed(answer)
        else:
            self._store.wal.previous_synced(self._batch)
            self._write()

    def _write(self) -> None:
        batch = self._batch
        assert batch is not None
        try:
            complete = self._store.wal.write(batch, SLICE)
        except OSError as problem:
            self._failed(f"cannot write {problem.filename or batch.file.path}", problem.strerror or str(problem))
            self._loop.call_later(RETRY_SECONDS, self._write)
            return
        if complete:
            self._sync(batch)
        else:
            self._loop.call_soon(self._write)

    def _sync(self, batch: Batch) -> None:
        wal = self._store.wal
        fds = wal.targets(batch)
        if fds:
            kinds = bytes([ord("f") if fd == wal.directory_fd else ord("d") for fd in fds])
            self._syncer.sync(fds, kinds, self._synced)
        else:
            self._loop.call_soon(self._done, batch)

    def _synced(self, answer: Answer) -> None:
        assert self._batch is not None
        if answer[1]:
            self._sync_failed(answer)
        else:
            self._done(self._batch)

    def _sync_failed(self, answer: Answer) -> None:
        assert self._batch is not None
        self._failed(f"cannot sync {self._batch.file.path}", answer[2] or os.strerror(answer[1]))
        self._loop.call_later(RETRY_SECONDS, self._write_elsewhere)

    def _write_elsewhere(self) -> None:
        assert self._batch is not None
        try:
            self._batch = self._store.relocate(self._batch)
        except OSError as problem:
            self._failed("cannot begin a new file", problem.strerror or str(problem))
            self._loop.call_later(RETRY_SECONDS, self._write_elsewhere)
            return
        self._sync_before()

    def _failed(self, what: str, why: str) -> None:
        sentence = f"{what}: {why}; nothing is lost, it is tried again until it works"
        if self._fault is None:
            self._on_fault(sentence)
        self._fault = sentence

    def _done(self, batch: Batch) -> None:
        self._batch = None
        self._store.last_commit_seconds = perf_counter() - self._started
        self._store.finish(batch)
        if self._fault is not None:
            self._fault = None
            self._on_fault(None)
        # The next commit starts before anyone is told of this one, so that the disk does not wait for them.
        self._start()
        # Not batch.position: a batch that began before anybody asked for a sync is only written, and may hold what somebody
        # has begun to wait for since.
        self._on_durable(self._store.durable)
        self._wake(self._store.durable)

    def _wake(self, position: int) -> None:
        while self._waiters and self._waiters[0][0] <= position:
            waiter = self._waiters.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    async def reach(self, position: int) -> None:
        """Wait until everything appended up to position is durable."""
        if position <= self._store.durable:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append((position, waiter))
        self._waiters.sort(key=_position)
        self.kick()
        await waiter

    async def drain(self) -> None:
        """Commit everything that was appended until now, and wait for it."""
        await self.reach(self._store.position)

    def close(self) -> None:
        """After drain(): let the syncer go. The store's close() does it too."""
        self._syncer.close()


def _position(waiter: tuple[int, asyncio.Future[None]]) -> int:
    return waiter[0]
