"""The invariants, checked after every event that could break one.

 (1) no confirmed message is lost: every member of the agreed ring holds, on disk, what is stable; in the end it is there or
     consumed
 (2) at most one leader for each epoch, and only the one that the store names
 (3) one address, one content; logs of ring members agree
 (4) the order of each publisher is kept, and nothing is there twice
 (5) every publish is answered, and every queue whole again, in bounded time after healing (world.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.mirror.machine.effects import Compared
from mirrormq.mirror.machine.records import Batch, View
from sim.storage import Log, Publish, entries_of

if TYPE_CHECKING:
    from sim.node import Node
    from sim.world import World


class Violation(AssertionError):
    """An invariant is broken."""


class Truth:
    """What must hold for one queue."""

    def __init__(self) -> None:
        self.stable = 0
        self.batches: list[Batch] = []
        self.seen: set[int] = set()
        self.sequences: dict[str, int] = {}
        self.confirmed: dict[int, Publish] = {}
        self.consumed: set[int] = set()
        self.lossy = False          # a policy allowed loss: a mirror out of sync was promoted, or replication is asynchronous


class Checks:
    def __init__(self, world: World) -> None:
        self.world = world
        self.addresses: dict[tuple[int, int, int], Batch] = {}
        self.leaders: dict[tuple[int, int], str] = {}
        self.views: dict[tuple[int, int], View] = {}
        self.truths: dict[int, Truth] = {}
        self.born: dict[int, float] = {}    # when a transient message was appended by its first leader

    def fail(self, sentence: str) -> None:
        raise Violation(f"t={self.world.clock.now:.4f} {sentence}")

    def committed(self, queue: int, view: View) -> None:
        self.views[queue, view.epoch] = view
        self.world.say("store", queue, f"holds {view}: {view.reason}")
        truth = self.truths[queue]
        if not truth.lossy and not view.forced:
            for name in view.ring:
                self._holds(queue, name, truth.stable)

    def leads(self, node: Node, queue: int, epoch: int, *, forced: bool) -> None:
        before = self.leaders.setdefault((queue, epoch), node.name)
        if before != node.name:
            self.fail(f"(2) {before} and {node.name} both lead queue {queue} in epoch {epoch}")
        view = self.views.get((queue, epoch))
        if view is None or view.ring[0] != node.name:
            self.fail(f"(2) {node.name} leads queue {queue} in epoch {epoch}, which the store does not say")
        truth = self.truths[queue]
        if forced:
            truth.lossy = True
        elif not truth.lossy:
            self._transient_survive(node, queue, truth)

    def _transient_survive(self, node: Node, queue: int, truth: Truth) -> None:
        """A confirmed transient message may go only with a leader that has itself restarted since it was published."""
        pending = [entry for entry in truth.confirmed.values() if entry.transient and entry.message not in truth.consumed]
        if not pending:
            return
        held = messages(node.logs[queue])
        for entry in pending:
            if entry.message not in held:
                if node.crashed_at < self.born[entry.message]:
                    self.fail(f"(1) {node.name} never crashed and leads queue {queue} without transient message {entry.message}")
                del truth.confirmed[entry.message]

    def differs(self, node: Node, queue: int, effect: Compared) -> None:
        if not self.truths[queue].lossy:
            self.fail(f"(3) {effect.node} and {node.name} differ in queue {queue} at {effect.index}")

    def appended(self, node: Node, queue: int, batch: Batch) -> None:
        address = (queue, batch.epoch, batch.first)
        known = self.addresses.get(address)
        if known is None:
            self.addresses[address] = batch
            if batch.waits:
                self._note_birth(batch)
        elif known is not batch:
            self.fail(f"(3) queue {queue} has two entries at {batch.epoch}:{batch.first}; {node.name} appends the second")

    def _note_birth(self, batch: Batch) -> None:
        for entry in entries_of(batch):
            if isinstance(entry, Publish):
                self.born[entry.message] = self.world.clock.now

    def cut(self, node: Node, queue: int, gone: list[Batch]) -> None:
        truth = self.truths[queue]
        if gone and gone[0].first <= truth.stable and not truth.lossy and node.name in self.world.store.views[queue].ring:
            self.fail(f"(1) {node.name}, in the ring of queue {queue}, cuts off {gone[0]}, stable is {truth.stable}")

    def stable(self, node: Node, queue: int, durable: int) -> None:
        truth = self.truths[queue]
        if truth.lossy:
            return
        log = node.logs[queue]
        while truth.stable < durable:
            batch = log.batch_at(truth.stable + 1)
            if batch is None or batch.first != truth.stable + 1 or batch.last > durable:
                self.fail(f"(3) {node.name}: queue {queue} is stable up to {durable}, its log does not follow on {truth.stable}")
                return
            truth.batches.append(batch)
            truth.stable = batch.last
            self._in_order(queue, truth, batch)
        for name in self.world.store.views[queue].ring:
            self._holds(queue, name, durable)

    def _in_order(self, queue: int, truth: Truth, batch: Batch) -> None:
        for entry in entries_of(batch):
            if isinstance(entry, Publish):
                if entry.message in truth.seen:
                    self.fail(f"(4) message {entry.message} is twice in queue {queue}")
                truth.seen.add(entry.message)
                if truth.sequences.get(entry.publisher, 0) >= entry.sequence:
                    self.fail(f"(4) {entry.publisher} sent {entry.sequence} before, queue {queue} has it behind a later one")
                truth.sequences[entry.publisher] = entry.sequence

    def _holds(self, queue: int, name: str, upto: int) -> None:
        """Everything stable is on that member's disk: of two logs that have the same entry there, all before it is the same."""
        if upto == 0:
            return
        log = self.world.nodes[name].disk.get(queue)
        truth = self.truths[queue]
        at = log.batch_at(upto) if log is not None else None
        expected = next(batch for batch in reversed(truth.batches) if batch.first <= upto)
        if at is not expected and not (log is not None and log.base == upto):
            has = log.end if log is not None else 0
            self.fail(f"(1) {name} is in the ring of queue {queue} and lacks {expected} on disk, it has {at} up to {has}")

    def confirmed(self, node: Node, queue: int, entry: Publish) -> None:
        truth = self.truths[queue]
        truth.confirmed.setdefault(entry.message, entry)

    def consumed(self, queue: int, entry: Publish) -> None:
        self.truths[queue].consumed.add(entry.message)

    def in_the_end(self, queue: int) -> None:
        """Everything is healed: whatever was confirmed is there or was consumed, on each member alike."""
        view = self.world.store.views[queue]
        logs = [self.world.nodes[name].logs[queue] for name in view.ring]
        live = logs[0].live()
        for name, log in zip(view.ring, logs, strict=True):
            if log.live() != live:
                self.fail(f"(3) {name} and {view.ring[0]} differ in queue {queue}: {set(log.live()) ^ set(live)}")
        truth = self.truths[queue]
        there = {entry.message for entry in live.values()}
        lost = [message for message in truth.confirmed if message not in there and message not in truth.consumed]
        if lost and not truth.lossy:
            self.fail(f"(1) queue {queue} has lost the confirmed messages {lost}")


def messages(log: Log) -> set[int]:
    found = {entry.message for entry in log.below.values()}
    for batch in log.batches:
        found.update(entry.message for entry in entries_of(batch) if isinstance(entry, Publish))
    return found
