"""The simulated coordination store: one view for each queue, compare-and-swap, watches, outages, lost answers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from mirrormq.mirror.machine.inputs import ProposalFailed, StoreReachable, ViewSeen
from mirrormq.mirror.machine.records import View
from sim.clock import Clock

if TYPE_CHECKING:
    from sim.checks import Checks
    from sim.node import Node


class Store:
    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.views: dict[int, View] = {}
        self.nodes: list[Node] = []
        self.down = False
        self.cut_off: set[str] = set()
        self.checks: Checks | None = None

    def answers(self, node: Node) -> bool:
        return not self.down and node.name not in self.cut_off

    def propose(self, node: Node, queue: int, view: View) -> None:
        delay = self._delay() if self.random.random() < 0.95 else self.random.uniform(0.1, 1.5)
        self.clock.after(delay, self._swap, node, node.incarnation, queue, view)

    def _delay(self) -> float:
        return self.random.uniform(0.001, 0.02)

    def _swap(self, node: Node, incarnation: int, queue: int, view: View) -> None:
        if not self.answers(node):
            self.clock.after(self.random.uniform(0.1, 0.4), node.later, incarnation, queue, ProposalFailed(view.epoch))
            return
        if self.views[queue].epoch == view.epoch - 1:
            self._commit(queue, view)
        if self.random.random() < 0.05:
            self.clock.after(self.random.uniform(0.1, 0.4), node.later, incarnation, queue, ProposalFailed(view.epoch))
        else:
            self.clock.after(self._delay(), node.later, incarnation, queue, ViewSeen(self.views[queue]))

    def _commit(self, queue: int, view: View) -> None:
        self.views[queue] = view
        if self.checks is not None:
            self.checks.committed(queue, view)
        for node in self.nodes:
            self.clock.after(self._delay() * (5 if self.random.random() < 0.1 else 1), self._watch, node, queue, view)

    def _watch(self, node: Node, queue: int, view: View) -> None:
        if self.answers(node):
            node.later(node.incarnation, queue, ViewSeen(view))

    def set_down(self, *, down: bool) -> None:
        self.down = down
        self._tell(self.nodes)

    def set_cut_off(self, node: Node, *, cut: bool) -> None:
        (self.cut_off.add if cut else self.cut_off.discard)(node.name)
        self._tell([node])

    def _tell(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.clock.after(self.random.uniform(0.01, 0.3), self._notice, node)

    def _notice(self, node: Node) -> None:
        """A node notices late, and by then it may be otherwise."""
        reachable = self.answers(node)
        if not node.up:
            return
        node.store_noticed(reachable=reachable)
        for queue, view in self.views.items():
            node.later(node.incarnation, queue, StoreReachable(reachable))
            if reachable:
                node.later(node.incarnation, queue, ViewSeen(view))
