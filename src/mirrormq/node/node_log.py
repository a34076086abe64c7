"""The broker's log on the node's disk: appends go to the store, commits to the committer, recovery back into the queues."""
from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from mirrormq.broker.broker import Broker
from mirrormq.broker.queue import Queue
from mirrormq.broker.recovery import restore_queue
from mirrormq.cluster.keepsake import sync_directory
from mirrormq.log import lives
from mirrormq.log.committer import Committer
from mirrormq.log.directory import is_blank
from mirrormq.log.entries import Entry
from mirrormq.log.errors import QueueDamaged
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.keeper import Keeper
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.steps import Step
from mirrormq.log.store import Store
from mirrormq.log.syncer import Worker
from mirrormq.log.trail import Trail
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.rings import RingLog, Rings
from mirrormq.node.surroundings import Surroundings

log = logging.getLogger("mirrormq")
BEGINNING: Final = "BEGINNING"      # the file that says that this log began with nothing, and was not relied on yet
BEHIND: Final = 32 << 20            # bytes gathered and not yet on disk beyond which publishers wait
CAUGHT_UP: Final = 8 << 20
TRIM_AFTER: Final = 4 << 20         # bytes of messages that went since a queue's segments were last looked at


class OnBusy(Protocol):
    def __call__(self, *, is_behind: bool) -> None: ...


class NodeLog(RingLog):
    def __init__(self, directory: Path, on_durable: Callable[[int], None], on_fault: Callable[[str | None], None],
                 on_busy: OnBusy, surroundings: Surroundings | None = None) -> None:
        super().__init__()
        self._surroundings = surroundings or Surroundings()
        self.store = Store(directory, wal_bytes=self._surroundings.wal_bytes, segment_bytes=self._surroundings.segment_bytes,
                           disk=self._surroundings.disk())
        self._beginning = directory / BEGINNING
        self.has_news = False
        self._wants_sync = False
        self._is_busy = False
        self._on_durable = on_durable
        self._on_fault = on_fault
        self._on_busy = on_busy
        self._refusals: dict[str, str] = {}             # what the disk refuses now, by whose work it is
        self._broker: Broker | None = None
        self._rings: Rings | None = None
        self.graves: dict[int, Snapshot | None] = {}    # logs of deleted queues that can be had back, with their last state
        self.adopt: Callable[[int], Queue | None] = _nobody     # whose an unknown log is
        self.is_short = False                           # nothing was there when it was opened, or not every file
        self._committer: Committer | None = None
        self._keeper: Keeper | None = None
        self._keeping: asyncio.Task[None] | None = None

    def attach(self, broker: Broker) -> None:
        self._broker = broker

    def serve(self, rings: Rings) -> None:
        self._rings = rings

    def recover(self, loop: asyncio.AbstractEventLoop) -> tuple[list[str], dict[int, RecoveredQueue]]:
        """Open the store and give every queue back what its log holds. Returns sentences for the operator, and what was found
        of mirrored queues."""
        broker = self._broker
        assert broker is not None
        if is_blank(self.store.directory):
            self._mark_beginning()
        recovery = self.store.open()
        self.is_short = self._beginning.exists() or len(recovery.missing) > 0
        self.position = self.store.position
        self._committer = Committer(self.store, loop, self._durable, partial(self._refused, "committing"),
                                    syncer=self._surroundings.syncer(loop))
        self._keeper = Keeper(self.store, self._committer, loop, self._snapshot, partial(self._refused, "tidying up"),
                              worker=self._surroundings.worker(loop, self.store.lock_fd))
        self._keeping = loop.create_task(self._keeper.run(), name="keeping the log small")
        self._keeping.add_done_callback(_complain)
        notes = list(recovery.notes)
        mirrored: dict[int, RecoveredQueue] = {}
        for log_id, found in recovery.queues.items():
            queue = broker.queues_by_log.get(log_id) or self.adopt(log_id)
            if queue is not None or log_id in broker.forwarding.mirrored:
                self.graves.pop(log_id, None)       # records from before its end were brought back: it lives
            if log_id in broker.forwarding.mirrored:
                mirrored[log_id] = found
                if found.doubt and not found.damage:
                    self.condemn(log_id, found.doubt)
            elif log_id in self.graves and not found.damage:
                self.graves[log_id] = Trail(found).snapshot()
            elif queue is None:
                self.store.drop(log_id)
                self.has_news = True
            else:
                try:
                    restore_queue(queue, found)
                except QueueDamaged as problem:
                    queue.damage = str(problem)
                if queue.damage:
                    notes.append(f"queue '{queue.name}' in vhost '{queue.vhost}' is not served: {queue.damage}")
        return notes, mirrored

    def _mark_beginning(self) -> None:
        """Until the disk has which queues have lost their logs. After a crash before that the log would be there, whole and
        without them: they would pass for empty ones, and this node for a member in sync."""
        self._beginning.parent.mkdir(parents=True, exist_ok=True)
        self._beginning.touch()
        sync_directory(self._beginning.parent)
        sync_directory(self._beginning.parent.parent)

    async def begin(self) -> None:
        """The queues whose logs were lost are condemned: when that is on the disk, the log can be relied on."""
        assert self._committer is not None
        await self._committer.drain()
        if self._beginning.exists():
            self._beginning.unlink()
            sync_directory(self._beginning.parent)

    # --- the broker's side ----------------------------------------------------------------------------------------

    def append(self, log_id: int, first_index: int, count: int, chunk: bytes, *, sync: bool) -> None:
        self.store.append(log_id, first_index, count, chunk)
        self.position = self.store.position
        self.has_news = True
        if sync:
            self._wants_sync = True

    def sync(self) -> None:
        self.has_news = True
        self._wants_sync = True

    def read(self, log_id: int, index: int, max_bytes: int) -> list[Entry]:
        return self.store.read(log_id, index, max_bytes)

    def drop(self, log_id: int) -> None:
        if log_id not in self.graves:
            self.store.drop(log_id)
            self.has_news = True

    def holding(self, log_id: int) -> Holding | None:
        return None if self._rings is None else self._rings.by_id.get(log_id)

    def holdings(self) -> list[Holding]:
        return [] if self._rings is None else list(self._rings.by_id.values())

    # --- for mirrored queues --------------------------------------------------------------------------------------

    def has_written(self) -> None:
        self.position = self.store.position
        self.has_news = True

    def condemn(self, log_id: int, why: str) -> None:
        """The log of a mirrored queue is not to be relied on any more."""
        lives.condemn(self.store, log_id, why)
        self.has_written()

    def put_snapshot(self, snapshot: Snapshot) -> None:
        self.store.put_snapshot(snapshot)
        self.has_written()

    async def take_steps(self, steps: Generator[Step, None, Snapshot | None], worker: Worker) -> Snapshot | None:
        """A long piece of work on the log, step by step."""
        assert self._committer is not None
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                self.has_written()
                state: Snapshot | None = end.value
                return state
            if step.position:
                self.has_written()
                await self._committer.reach(step.position)
            elif step.job is not None:
                await worker.perform(step.job)
            else:
                await asyncio.sleep(0)

    # --- the node's side ------------------------------------------------------------------------------------------

    def kick(self) -> None:
        """Once a turn: commit what was appended."""
        assert self._committer is not None
        self._committer.kick(sync=self._wants_sync)
        self.has_news = False
        self._wants_sync = False
        if not self._is_busy and self.store.pending_bytes > BEHIND:
            self._is_busy = True
            self._on_busy(is_behind=True)

    def _durable(self, position: int) -> None:
        if self._rings is not None:
            self._rings.durable(position)
        self._on_durable(position)
        if self._is_busy and self.store.pending_bytes < CAUGHT_UP:
            self._is_busy = False
            self._on_busy(is_behind=False)

    def _refused(self, work: str, sentence: str | None) -> None:
        """Commits and tidying up fail each by themselves: when one works again, the other may not."""
        if sentence is None:
            self._refusals.pop(work, None)
        else:
            self._refusals[work] = sentence
        self._on_fault(sentence or next(iter(self._refusals.values()), None))

    def _snapshot(self, log_id: int) -> Snapshot | None:
        """A queue's state for the log. What the broker has gathered is sealed first, so that state and log agree."""
        broker = self._broker
        assert broker is not None
        holding = self.holding(log_id)
        if holding is not None:
            return holding.snapshot()
        if broker.active:
            broker.turn()
        queue = broker.queues_by_log.get(log_id)
        return self.graves.get(log_id) if queue is None else queue.snapshot(final=False)

    def trim(self) -> None:
        """From time to time: give up the space of what has gone of queues with segments, without waiting for the log to roll."""
        broker, keeper = self._broker, self._keeper
        assert broker is not None
        assert keeper is not None
        keeper.try_again()
        for queue in list(broker.queues_by_log.values()):
            if queue.ended_bytes > TRIM_AFTER and not queue.damage and queue.ring is None:
                queue.ended_bytes = 0
                kept = self.store.queue(queue.log_id)
                snapshot = self._snapshot(queue.log_id) if kept is not None and kept.segments else None
                if snapshot is not None:
                    self.store.trim(queue.log_id, snapshot)
                    keeper.compact(queue.log_id)
                    self.has_news = True

    def settle(self, log_id: int) -> None:
        """Have what is written and not synced synced too: a state in the log is never left unsynced."""
        queue = self.store.queue(log_id)
        if self.store.wal.unsynced and queue is not None and not queue.damage:
            snapshot = self._snapshot(log_id)
            if snapshot is not None:
                self.store.put_snapshot(snapshot)
                self.position = self.store.position
                self.kick()

    async def close(self) -> None:
        """Everything durable, and for each queue a snapshot that knows exactly what was delivered."""
        broker = self._broker
        assert broker is not None
        if self._committer is None:
            return
        if broker.active:           # links have ended since the last turn, and what their clients held went back
            broker.turn()
        for queue in list(broker.queues_by_log.values()):
            if queue.keeps and not queue.damage and queue.next_index > 1 and queue.ring is None:
                self.store.put_snapshot(queue.snapshot(final=True))
        await self.begin()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self.store.close()


def _nobody(_log_id: int) -> Queue | None:
    return None


def _complain(task: asyncio.Task[None]) -> None:
    """The task runs until it is cancelled; if it ends otherwise, the log would grow for ever, unseen."""
    if not task.cancelled():
        log.critical("the log is not kept small any more; restart the node", exc_info=task.exception())
