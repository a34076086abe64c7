"""A simulated leader at work: takes publishes once, lets a consumer acknowledge, answers what is stable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.records import Batch
from mirrormq.mirror.machine.state import LEADER
from sim.ledger import EARLY, NEW, Dump, Ledger
from sim.storage import Ack, Entry, Publish, fold, pack

if TYPE_CHECKING:
    from sim.node import Node

Waiter = tuple[int, Publish, str]


class Server:
    """One queue on one node; it does something only while that node leads."""

    def __init__(self, node: Node, queue: int) -> None:
        self.node = node
        self.queue = queue
        self.gathered: list[Entry] = []
        self.due = False
        self.waiters: list[Waiter] = []
        self.live: dict[int, Publish] = {}
        self.ledger = Ledger()
        self.durable = self.received = 0

    def begin(self) -> None:
        """Fold the log, then serve."""
        log = self.node.logs[self.queue]
        self.live = log.live()
        self.ledger = Ledger(log)
        self.gathered, self.waiters = [], []
        self.durable = self.received = 0

    def end(self) -> None:
        self.gathered, self.waiters = [], []

    def dump(self) -> Dump:
        return Ledger(self.node.logs[self.queue]).dump()

    @property
    def serves(self) -> bool:
        state = self.node.states[self.queue]
        return state.role == LEADER and state.accepts

    def publish(self, entry: Publish, floor: int, reply_to: str) -> None:
        if not self.serves:
            return
        index = self.ledger.judge(entry, floor)
        if not self.node.world.rules.publisher_dedup:
            index = NEW
        if index == EARLY:
            return
        if index == NEW:
            index = self._gather(entry)
            self.ledger.note(entry, index)
        self.waiters.append((index, entry, reply_to))
        self.answer()

    def consume(self, count: int) -> None:
        if self.serves:
            for index, entry in list(self.live.items())[:count]:
                if index <= self.durable or (entry.transient and index <= self.received):
                    self.node.world.checks.consumed(self.queue, entry)
                    self._gather(Ack(index, entry.message))

    def _gather(self, entry: Entry) -> int:
        index = self.node.logs[self.queue].end + 1 + len(self.gathered)
        self.gathered.append(entry)
        fold(self.live, index, entry)
        if not self.due:
            self.due = True
            self.node.world.clock.after(0.001, self._turn, self.node.incarnation)
        return index

    def _turn(self, incarnation: int) -> None:
        node = self.node
        if incarnation != node.incarnation:
            return
        if node.frozen:
            node.backlog.append((self._turn, incarnation))
            return
        self.due = False
        if self.gathered:
            self._seal()

    def _seal(self) -> None:
        """One batch for the turn. While the leader drains, what was gathered waits."""
        node, queue = self.node, self.queue
        state = node.states[queue]
        if state.handing:
            self.due = True
            node.world.clock.after(0.01, self._turn, node.incarnation)
            return
        waits = any(isinstance(entry, Publish) and entry.transient for entry in self.gathered)
        batch = Batch(state.epoch, node.logs[queue].end + 1, len(self.gathered), pack(*self.gathered), waits)
        self.gathered = []
        node.logs[queue].append(batch)
        node.world.checks.appended(node, queue, batch)
        node.touch(queue)
        node.give(queue, i.Appended(batch))
        if state.wants_head:
            node.give(queue, i.Head(min(self.live, default=state.end + 1)))

    def stable(self, durable: int, received: int) -> None:
        self.durable, self.received = durable, received
        self.node.world.checks.stable(self.node, self.queue, durable)
        self.answer()

    def answer(self) -> None:
        left = []
        for waiter in self.waiters:
            index, entry, reply_to = waiter
            if index <= (self.received if entry.transient else self.durable):
                self.node.world.checks.confirmed(self.node, self.queue, entry)
                self._reply(entry, reply_to)
            else:
                left.append(waiter)
        self.waiters = left

    def _reply(self, entry: Publish, reply_to: str) -> None:
        world = self.node.world
        if reply_to == self.node.name:
            world.clients.answered(self.node, self.queue, entry)
        else:
            world.network.send(self.node, reply_to, ("answer", self.queue, entry))
