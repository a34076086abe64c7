"""Mirrored queues in the node: their views in the store, their frames on the links, and their timers.

Rules
 1. A view is part of its queue's record. It changes only by a transaction on the record's revision; many go in one round trip.
 2. Whoever stops hands its queues over first, while its links are up.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.metadata import Record, key
from mirrormq.broker.queue import Queue
from mirrormq.broker.registry import bindings_of, first_view, record_of
from mirrormq.cluster.coordination import CoordinationError, Item, Put, Transaction, Unchanged
from mirrormq.cluster.coordination.port import MAX_WRITES
from mirrormq.cluster.link import BULK, RING
from mirrormq.cluster.replica import METADATA
from mirrormq.log.backfill import install_piece
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.syncer import Worker
from mirrormq.mirror.convert import view_from, view_record
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.effects import BecameLeader, Compared, InstallPiece
from mirrormq.mirror.machine.inputs import HandOver, ProposalFailed
from mirrormq.mirror.machine.records import View
from mirrormq.mirror.machine.state import LEADER
from mirrormq.mirror.rings import RingHost, Rings
from mirrormq.node.audit import Audit, note_epoch
from mirrormq.node.cluster import MACHINE
from mirrormq.node.detours import Detours
from mirrormq.node.mirror_news import MirrorNews
from mirrormq.node.wishing import Wishing

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

ROUND: Final = 500              # views in one round trip
HAND_OVER: Final = 3.0          # seconds that a stop waits for others to take over
LISTEN: Final = 0.2             # seconds between two looks at who is quiet
LOOK: Final = 0.5               # seconds between two looks at the store's reachability


class Mirroring(RingHost):
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._broker = runtime.broker
        self._cluster = runtime.cluster
        self._loop = asyncio.get_running_loop()
        self.rings = Rings(runtime.broker, self, runtime.log, runtime.log.store)
        self._views: dict[int, tuple[AwayQueue, Record, int]] = {}     # seen before the log was open
        self._turned: dict[int, Queue] = {}                            # queues of this node that are becoming mirrored ones
        self._proposals: list[tuple[AwayQueue | Queue, Record, int, int]] = []
        self._has_proposals = asyncio.Event()
        self._doubted: dict[Holding, None] = {}                        # of which it is not certain that this node leads them
        self._has_doubts = asyncio.Event()
        self._is_open = False
        self._is_reachable = True
        self._released = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._worker: Worker | None = None
        self._installing: dict[int, asyncio.Lock] = {}
        self.audit = Audit(runtime)
        self.news = MirrorNews(runtime)
        self.wishing = Wishing(runtime, self.rings, self._begin)

    # --- starting and stopping --------------------------------------------------------------------------------------

    def start(self, found: dict[int, RecoveredQueue]) -> None:
        """The log is open: take up every queue that this node holds."""
        self._is_open = True
        self._worker = self._runtime.surroundings.worker(self._loop, self._runtime.log.store.lock_fd)
        views, self._views = self._views, {}
        for log_id, (front, record, revision) in views.items():
            view = view_from(record)
            if not view.holds(self.rings.me):
                self._leave(front, view, revision, found.get(log_id))
            else:
                recovered = found.get(log_id)
                is_old = revision <= self._cluster.membership.entered_at or view.epoch > 1     # a new queue has no log yet
                is_lost = recovered is None and is_old and self._runtime.log.is_short
                if is_lost:
                    self._runtime.log.condemn(log_id, "nothing was found of it, and files are missing")
                self.rings.hold(front, view, revision, is_fresh=False, is_damaged=self._is_damaged(front, view),
                                saved=None if recovered is None else recovered.since)

    def _leave(self, front: AwayQueue, view: View, revision: int, found: RecoveredQueue | None) -> None:
        """The cluster has gone on without this node. What its log still holds goes as soon as the leader has said what it has in
        common with its own; were it left here, it would be in the way of a new copy."""
        kept = self._runtime.log.store.queue(front.log_id)
        if kept is not None and kept.damage:
            self.rings.forget(front.log_id)
        elif kept is not None:
            self.rings.hold(front, view, revision, is_fresh=False, saved=None if found is None else found.since)

    def _is_damaged(self, front: AwayQueue, view: View) -> bool:
        """The log of a mirrored queue was found, or called, damaged."""
        kept = self._runtime.log.store.queue(front.log_id)
        if kept is None or not kept.damage:
            return False
        others = " and ".join(node for node in view.ring if node != self.rings.me)
        then = f"it gets everything again from {others}" if others else "no other node was in sync, so nobody leads it"
        self.report("warning", f"queue '{front.name}' in vhost '{front.vhost}' is not in sync here: {kept.damage}; {then}")
        return True

    def run(self) -> None:
        self._cluster.spawn(self._propose(), "proposing views", is_vital=True)
        self._cluster.spawn(self._confirm(), "asking who leads", is_vital=True)
        self._cluster.spawn(self._listen(), "listening whether members are quiet", is_vital=True)
        self._cluster.spawn(self._watch_store(), "minding the store")
        self._cluster.spawn(self.audit.write(), "writing down who leads")
        self._cluster.spawn(Detours(self._runtime).run(), "looking for ways round")
        self.wishing.start()

    async def hand_over(self) -> None:
        """Before the node stops: the others take over what it leads."""
        self.wishing.stop()
        if not self._cluster.neighbours:
            return
        for holding in list(self.rings.by_id.values()):
            holding.released = ""
            self.rings.give(holding, HandOver("", leave=True))
        give_up = self.now() + HAND_OVER
        while waiting := [holding for holding in self.rings.by_id.values() if not holding.released]:
            if self.now() > give_up:
                self.report("warning", f"stopping although {len(waiting)} mirrored queues could not be handed over in time")
                return
            await self._hand_on(waiting)

    async def _hand_on(self, waiting: list[Holding]) -> None:
        """A lead may come here while this node is stopping, from one that stops too."""
        for holding in waiting:
            if holding.state.role == LEADER and not holding.state.handing:
                self.rings.give(holding, HandOver("", leave=True))
        self._broker.schedule()
        self._released.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK / 10):
                await self._released.wait()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._worker is not None:
            self._worker.close()

    # --- for the broker ---------------------------------------------------------------------------------------------

    def hosts(self, log_id: int, queue: Queue) -> None:
        """Everything that it gathered is in its log before it belongs to a ring."""
        if self._broker.active:
            self._broker.turn()
        self._runtime.log.put_snapshot(queue.snapshot(final=False))
        self._turned[log_id] = queue

    def view_seen(self, front: AwayQueue, record: Record, revision: int) -> None:
        if not self._is_open:
            self._views[front.log_id] = (front, record, revision)
            return
        view = view_from(record)
        holding = self.rings.by_id.get(front.log_id)
        if holding is not None:
            self._note_view(holding, view)
            self.rings.view_seen(holding, view, revision)
        elif front.log_id in self.rings.unwell:
            self.rings.take_up(front.log_id, view, revision)
        elif view.holds(self.rings.me):
            queue = self._turned.pop(front.log_id, None)
            saved = None if queue is None else queue.snapshot(final=False)
            if view.epoch == 1 and view.ring[0] == self.rings.me:
                self.news.born(front, view)
            is_fresh = queue is not None or self._runtime.log.store.queue(front.log_id) is None
            self.rings.hold(front, view, revision, is_fresh=is_fresh, saved=saved, queue=queue)
        self.wishing.look_at(front.log_id)

    def queue_gone(self, log_id: int) -> None:
        self._views.pop(log_id, None)
        self._turned.pop(log_id, None)
        self.news.gone(log_id)
        holding = self.rings.by_id.get(log_id)
        leads = holding is not None and holding.state.role == LEADER and holding.state.epoch > 1
        self.audit.forget(log_id, has_records=leads)
        self.rings.forget(log_id)

    def link_up(self, node: str) -> None:
        self.audit.link_found(node)
        self.rings.link_up(node)
        self._look_round()

    def link_down(self, node: str) -> None:
        self.audit.link_lost(node, self.now())
        self.rings.linked.pop(node, None)
        self._look_round()
        self.rings.link_down(node)

    def received(self, node: str, payload: bytes) -> None:
        self.rings.received(node, payload)

    def _begin(self, queues: list[Queue]) -> None:
        """A policy wants these queues of this node alone to be mirrored."""
        proposed = {proposal[0].log_id for proposal in self._proposals}
        for queue in queues:
            if queue.log_id not in proposed:
                self._proposals.append((queue, first_view([self.rings.me]), queue.revision, 0))
                self._has_proposals.set()

    # --- for the rings ----------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._loop.time()

    def send(self, node: str, payload: bytes, *, is_bulk: bool) -> None:
        neighbour = self._cluster.neighbours.get(node)
        if neighbour is not None:
            neighbour.peer.send(BULK if is_bulk else RING, MACHINE, payload)

    def propose(self, holding: Holding, view: View) -> None:
        self._proposals.append((holding.front, view_record(view), holding.revision, view.epoch))
        self._has_proposals.set()

    def confirm(self, holding: Holding) -> None:
        self._doubted[holding] = None
        self._has_doubts.set()

    def install(self, holding: Holding, piece: InstallPiece) -> None:
        self.news.copies(holding.front, holding.state.view, piece.base)
        self._cluster.spawn(self._install(holding, piece), "installing a piece of a full sync")

    async def _install(self, holding: Holding, piece: InstallPiece) -> None:
        store, worker = self._runtime.log.store, self._worker
        assert worker is not None
        async with self._installing.setdefault(holding.log_id, asyncio.Lock()):
            steps = install_piece(store, holding.log_id, piece.data, piece.next)
            try:
                state = await self._runtime.log.take_steps(steps, worker)
            except FileNotFoundError:
                if self.rings.by_id.get(holding.log_id) is holding:
                    raise
                return              # the queue is not held any more, and its files are gone
        if self.rings.by_id.get(holding.log_id) is holding:
            holding.installed(piece, state)
            self._broker.schedule()

    def release(self, holding: Holding) -> None:
        if holding.state.has_parted:
            self._loop.call_soon(self._forget_if_outside, holding)
        self._released.set()

    def _forget_if_outside(self, holding: Holding) -> None:
        if self.rings.by_id.get(holding.log_id) is holding and holding.state.has_parted:
            self.rings.forget(holding.log_id)
            self._broker.schedule()

    def wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._runtime.tick()
        self.rings.tick()
        self._broker.schedule()

    def led(self, holding: Holding, effect: BecameLeader, requeued: int) -> None:
        front = holding.front
        if effect.epoch > 1:
            self.report("info", f"queue '{front.name}' in vhost '{front.vhost}': {effect.why or 'leads here'}")
            self.audit.led(holding, effect, requeued)

    def quarantined(self, holding: Holding, why: str) -> None:
        front = holding.front
        self.report("warning", f"queue '{front.name}' in vhost '{front.vhost}': {why}; they are in quarantine")

    def orphaned(self, holding: Holding, epoch: int, count: int) -> None:
        front = holding.front
        self.audit.orphaned(holding.log_id, epoch, count)
        self.report("warning", f"queue '{front.name}' in vhost '{front.vhost}': {count} messages are in quarantine: this node "
                               f"had them, and the node that took over in epoch {epoch} was not in sync and did not")

    def compared(self, holding: Holding, effect: Compared) -> None:
        front = holding.front
        self.audit.compared(holding, effect)
        if not effect.are_equal:
            self.report("error", f"queue '{front.name}' in vhost '{front.vhost}': the copy on {effect.node} has {effect.theirs} "
                                 f"messages at index {effect.index} and differs from the leader's, which has {effect.mine}; "
                                 "it is taken anew")

    def report(self, level: str, text: str) -> None:
        self._runtime.report(level, text)

    # --- the store --------------------------------------------------------------------------------------------------

    async def _propose(self) -> None:
        while True:
            await self._has_proposals.wait()
            batch, self._proposals = self._proposals[:ROUND], self._proposals[ROUND:]
            if not self._proposals:
                self._has_proposals.clear()
            transactions = [_transaction(queue, record, revision) for queue, record, revision, _ in batch]
            try:
                outcomes = await self._cluster.store.transact_many(transactions)
            except CoordinationError as fault:
                outcomes = [fault] * len(batch)
            self._runtime.tick()
            for proposal, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, CoordinationError):
                    self._unheard(proposal[0].log_id, proposal[3])
                elif outcome.succeeded:
                    self._seen(proposal[0].log_id, proposal[1], outcome.revision)
                else:
                    self._lost(proposal[0], outcome.found)
            self._broker.schedule()

    async def _confirm(self) -> None:
        while True:
            await self._has_doubts.wait()
            batch = [(holding, holding.doubts, holding.state.epoch) for holding in islice(self._doubted, ROUND)]
            for holding, _, _ in batch:
                del self._doubted[holding]
            if not self._doubted:
                self._has_doubts.clear()
            transactions = [Transaction([Unchanged(_place(holding.front), holding.revision)], []) for holding, _, _ in batch]
            try:
                outcomes = await self._cluster.store.transact_many(transactions)
            except CoordinationError as fault:
                outcomes = [fault] * len(batch)
            self._runtime.tick()
            for (holding, doubts, epoch), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, CoordinationError):
                    continue                    # asked again by and by, see Rings.tidy
                if outcome.succeeded or _epoch_in(outcome.found, holding.front) == epoch:
                    self.rings.still_leads(holding, doubts)
                else:
                    self._lost(holding.front, outcome.found)
            self._broker.schedule()

    def _seen(self, log_id: int, record: Record, revision: int) -> None:
        """The machine need not wait until the store's watch tells it."""
        holding = self.rings.by_id.get(log_id)
        if holding is not None and record["epoch"] > holding.state.epoch:
            view = view_from(record)
            self._note_view(holding, view)
            self.rings.view_seen(holding, view, revision)

    def _note_view(self, holding: Holding, view: View) -> None:
        """Before the machine is told."""
        if view.epoch > holding.state.epoch:
            note_epoch(holding, view.epoch)
            self.news.view_changes(holding.front, holding.state.view, view)

    def _lost(self, queue: Queue, found: dict[str, Item]) -> None:
        item = found.get(_place(queue))
        if item is not None:
            record = json.loads(item.value)
            if record["id"] == queue.log_id and "view" in record:
                self._seen(queue.log_id, record["view"], item.revision)
            else:
                self._loop.call_later(LOOK, self.wishing.look_again)

    def _look_round(self) -> None:
        """Who sees fewer than half of the nodes that are up proposes nothing: those who see the others will."""
        running = set(self._cluster.membership.running) | {self.rings.me}
        seen = len(running.intersection(self.rings.linked)) + 1
        is_reachable = self._cluster.store.reachability.is_reachable and 2 * seen >= len(running)
        if is_reachable != self._is_reachable:
            self._is_reachable = is_reachable
            self.rings.store_reachable(is_reachable=is_reachable)
            self.wishing.look_again()
            self._broker.schedule()

    def _unheard(self, log_id: int, epoch: int) -> None:
        holding = self.rings.by_id.get(log_id)
        if holding is not None:
            self.rings.give(holding, ProposalFailed(epoch))
            self._loop.call_later(LOOK, self.wishing.look_at, log_id)
        else:
            self._loop.call_later(LOOK, self.wishing.look_again)

    async def _listen(self) -> None:
        while True:
            await asyncio.sleep(LISTEN)
            quiet = frozenset(name for name, neighbour in self._cluster.neighbours.items() if neighbour.peer.is_quiet())
            if quiet != self.rings.quiet:
                self._runtime.tick()
                self.rings.listened(quiet)

    async def _watch_store(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            self._look_round()


def _epoch_in(found: dict[str, Item], queue: Queue) -> int:
    """Of the view in the queue's record, which was written again for another reason; 0 where there is none."""
    item = found.get(_place(queue))
    record = {} if item is None else json.loads(item.value)
    return int(record["view"]["epoch"]) if record.get("id") == queue.log_id and "view" in record else 0


def _place(queue: Queue) -> str:
    return METADATA + key("queue", queue.vhost, queue.name)


def _transaction(queue: Queue, view: Record, revision: int) -> Transaction:
    """What went with its node's lease stays from now on: others may hold it."""
    place = _place(queue)
    writes = [Put(place, json.dumps(record_of(queue, view), ensure_ascii=True))]
    if not queue.keeps_record:
        writes += [Put(METADATA + name, json.dumps(record, ensure_ascii=True)) for name, record in bindings_of(queue)]
    return Transaction([Unchanged(place, revision)], writes[:MAX_WRITES])
