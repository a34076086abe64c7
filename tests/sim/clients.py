"""Simulated clients: publishers with confirms on any node, whose node forwards and sends again; and consumers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from sim.storage import Publish

if TYPE_CHECKING:
    from sim.node import Node
    from sim.world import World

RETRY = 0.4


class Publisher:
    """A client's channel on one node. Its unanswered messages are in `waiting`, oldest first."""

    def __init__(self, name: str, node: Node, queue: int) -> None:
        self.name = name
        self.node = node
        self.queue = queue
        self.sequence = 0
        self.waiting: dict[int, Publish] = {}


class Clients:
    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.publishers: list[Publisher] = []
        self.messages = 0
        self.names = 0
        self.ended = False

    def start(self, queues: list[int], publishers: int) -> None:
        for queue in queues:
            for _ in range(publishers):
                self._connect(queue)
            self.world.clock.after(self.random.uniform(0.0, 0.1), self._consume, queue)

    def _connect(self, queue: int) -> None:
        up = [node for node in self.world.nodes.values() if node.running]
        if not up:
            self.world.clock.after(0.1, self._connect, queue)
            return
        self.names += 1
        publisher = Publisher(f"p{self.names}", self.random.choice(up), queue)
        self.publishers.append(publisher)
        self.world.clock.after(self.random.uniform(0.0, 0.05), self._publish, publisher)
        self.world.clock.after(RETRY, self._retry, publisher)

    def _publish(self, publisher: Publisher) -> None:
        if self.ended or publisher not in self.publishers:
            return
        if publisher.node.running and len(publisher.waiting) < 8:
            for _ in range(self.random.randint(1, 3)):
                self._publish_one(publisher)
        self.world.clock.after(self.random.expovariate(1 / self.world.interval), self._publish, publisher)

    def _publish_one(self, publisher: Publisher) -> None:
        publisher.sequence += 1
        self.messages += 1
        transient = self.random.random() < self.world.transient
        entry = Publish(publisher.name, publisher.sequence, self.messages, transient)
        publisher.waiting[entry.sequence] = entry
        self._forward(publisher, entry)

    def _forward(self, publisher: Publisher, entry: Publish) -> None:
        node = publisher.node
        view = node.states[publisher.queue].view
        floor = min(publisher.waiting)
        if view.ring[0] == node.name:
            node.servers[publisher.queue].publish(entry, floor, node.name)
        else:
            self.world.network.send(node, view.ring[0], ("publish", publisher.queue, entry, floor, node.name))

    def _send_again(self, publisher: Publisher) -> None:
        for entry in list(publisher.waiting.values()):
            if entry.sequence in publisher.waiting:
                self._forward(publisher, entry)

    def _retry(self, publisher: Publisher) -> None:
        if publisher in self.publishers:
            if publisher.node.running:
                self._send_again(publisher)
            if publisher.waiting or not self.ended:
                self.world.clock.after(RETRY, self._retry, publisher)

    def view_changed(self, node: Node, queue: int) -> None:
        for publisher in self.publishers:
            if publisher.node is node and publisher.queue == queue:
                self._send_again(publisher)

    def link_changed(self, node: Node, peer: str, *, up: bool) -> None:
        if up:
            for publisher in self.publishers:
                if publisher.node is node and node.states[publisher.queue].view.ring[0] == peer:
                    self._send_again(publisher)

    def answered(self, node: Node, queue: int, entry: Publish) -> None:
        for publisher in self.publishers:
            if publisher.name == entry.publisher and publisher.node is node:
                publisher.waiting.pop(entry.sequence, None)

    def node_died(self, node: Node) -> None:
        """Its clients see their connections end; what was not answered is theirs to judge."""
        gone = [publisher for publisher in self.publishers if publisher.node is node]
        for publisher in gone:
            self.publishers.remove(publisher)
            if not self.ended:
                self.world.clock.after(self.random.uniform(0.01, 0.1), self._connect, publisher.queue)

    def _consume(self, queue: int) -> None:
        if self.ended:
            return
        leader = self.world.store.views[queue].ring[0]
        node = self.world.nodes[leader]
        if node.running:
            node.servers[queue].consume(self.random.randint(1, 4))
        self.world.clock.after(self.random.expovariate(1 / (self.world.interval * 2)), self._consume, queue)

    @property
    def waiting(self) -> int:
        return sum(len(publisher.waiting) for publisher in self.publishers)
