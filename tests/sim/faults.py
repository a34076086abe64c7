"""Faults: what goes wrong, when, and for how long; all of it is put right in the end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from mirrormq.mirror.machine import inputs as i
from sim.node import Node

if TYPE_CHECKING:
    from sim.world import World


class Faults:
    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.kinds: list[Callable[[], None]] = [
            self.crash, self.crash, self.crash, self.crash_leader, self.crash_leader, self.crash_all, self.freeze, self.cut,
            self.cut, self.isolate, self.cut_one_way, self.blip, self.slow_disk, self.slow_node, self.store_outage,
            self.store_cut, self.policy, self.rebalance, self.stop_cleanly, self.trim, self.sync,
        ]

    def spread(self) -> float:
        """Plan them; says when the last one comes."""
        count = self.random.randint(3, 9)
        span = self.random.uniform(0.3, 2.5)
        chosen = self.random.sample(self.kinds, self.random.randint(2, 7))
        for _ in range(count):
            self.world.clock.after(self.random.uniform(0.05, span), self.random.choice(chosen))
        return span

    def say(self, what: str) -> None:
        self.world.say("fault", -1, what)

    def lasts(self) -> float:
        return self.random.choice((0.01, 0.05, 0.2, 0.6, 1.5)) * self.random.uniform(0.5, 1.5)

    def a_node(self) -> Node:
        return self.random.choice(list(self.world.nodes.values()))

    def leader(self) -> Node:
        queue = self.random.choice(list(self.world.desired))
        return self.world.nodes[self.world.store.views[queue].ring[0]]

    def crash(self) -> None:
        self._crash(self.a_node())

    def crash_leader(self) -> None:
        self._crash(self.leader())

    def _crash(self, node: Node) -> None:
        if node.up:
            node.crash(silently=self.random.random() < 0.2)
            self.world.clock.after(self.lasts(), node.start)

    def crash_all(self) -> None:
        for node in self.world.nodes.values():
            if self.random.random() < 0.8:
                self._crash(node)

    def freeze(self) -> None:
        node = self.a_node() if self.random.random() < 0.5 else self.leader()
        node.freeze()
        self.world.clock.after(self.lasts() * 2, node.thaw)

    def _pair(self) -> tuple[str, str]:
        one, other = self.random.sample(list(self.world.nodes), 2)
        return one, other

    def cut(self) -> None:
        one, other = self._pair()
        self.say(f"cut between {one} and {other}")
        self.world.network.block(one, other)
        self.world.network.block(other, one)
        self.world.clock.after(self.lasts(), self._uncut, one, other)

    def _uncut(self, one: str, other: str) -> None:
        link = self.world.network.links[one, other]
        link.blocked.clear()
        self.say(f"{one} and {other} are no longer cut")
        self.world.network.connect(link)

    def isolate(self) -> None:
        node = self.leader() if self.random.random() < 0.6 else self.a_node()
        self.say(f"{node.name} is cut off")
        from_store = self.random.random() < 0.7
        lasts = self.lasts() * 2
        for other in self.world.nodes:
            if other != node.name:
                self.world.network.block(node.name, other)
                self.world.network.block(other, node.name)
                self.world.clock.after(lasts, self._uncut, node.name, other)
        if from_store:
            self._cut_store(node, lasts)

    def cut_one_way(self) -> None:
        one, other = self._pair()
        self.say(f"nothing from {one} reaches {other}")
        self.world.network.block(one, other)
        self.world.clock.after(self.lasts(), self._uncut, one, other)

    def blip(self) -> None:
        one, other = self._pair()
        self.say(f"the connection of {one} and {other} is reset")
        self.world.network.break_link(self.world.network.links[one, other])

    def slow_disk(self) -> None:
        node = self.a_node()
        node.disk_delay = self.random.choice((0.02, 0.1, 0.5, 4.0))
        self.say(f"the disk of {node.name} takes {node.disk_delay} s")
        self.world.clock.after(self.lasts() * 2, self._heal_disk, node)

    def _heal_disk(self, node: Node) -> None:
        node.disk_delay = 0.002

    def slow_node(self) -> None:
        name = self.a_node().name
        self.world.network.lag[name] = self.random.uniform(0.01, 0.7)
        self.say(f"{name} sends late")
        self.world.clock.after(self.lasts() * 2, self._heal_node, name)

    def _heal_node(self, name: str) -> None:
        self.world.network.lag.pop(name, None)

    def store_outage(self) -> None:
        self.say("the store is down")
        self.world.store.set_down(down=True)
        self.world.clock.after(self.lasts(), self._store_returns)

    def _store_returns(self) -> None:
        self.say("the store is back")
        self.world.store.set_down(down=False)

    def store_cut(self) -> None:
        self._cut_store(self.a_node(), self.lasts())

    def _cut_store(self, node: Node, lasts: float) -> None:
        self.say(f"{node.name} cannot reach the store")
        self.world.store.set_cut_off(node, cut=True)
        self.world.clock.after(lasts, self._uncut_store, node)

    def _uncut_store(self, node: Node) -> None:
        self.world.store.set_cut_off(node, cut=False)

    def policy(self) -> None:
        """Mirrors are added, moved, taken away."""
        queue = self.random.choice(list(self.world.desired))
        names = list(self.world.nodes)
        members = tuple(self.random.sample(names, self.random.randint(1, min(4, len(names)))))
        self.world.set_desired(queue, self.world.make_desired(members))

    def rebalance(self) -> None:
        queue = self.random.choice(list(self.world.desired))
        ring = self.world.store.views[queue].ring
        node = self.world.nodes[ring[0]]
        to = self.random.choice((*ring, ""))
        if node.running and to != node.name:
            node.give(queue, i.HandOver(to, leave=False))

    def stop_cleanly(self) -> None:
        node = self.leader() if self.random.random() < 0.6 else self.a_node()
        if node.running:
            self.say(f"{node.name} is told to stop")
            node.released.clear()
            for queue in node.states:
                node.give(queue, i.HandOver("", leave=True))
            self.world.clock.after(self.random.uniform(0.05, 1.0), self._stopped, node, node.incarnation)

    def _stopped(self, node: Node, incarnation: int) -> None:
        if node.up and node.incarnation == incarnation:
            self._crash(node)

    def trim(self) -> None:
        """The oldest part of a log goes, as far as it is stable: who needs it must have a full sync."""
        node = self.a_node()
        if node.running:
            for queue, log in node.logs.items():
                log.first_kept = max(log.first_kept, min(node.states[queue].stable, log.end) + 1)
                node.give(queue, i.Trimmed(log.first_kept))

    def sync(self) -> None:
        queue = self.random.choice(list(self.world.desired))
        node = self.world.nodes[self.world.store.views[queue].ring[0]]
        if node.running:
            node.give(queue, i.Sync(on=self.random.random() < 0.6))

    def heal(self) -> None:
        """Everything is put right; an operator starts what policies leave to him."""
        world = self.world
        self.say("all is put right")
        world.store.cut_off.clear()
        world.store.set_down(down=False)
        world.network.lag.clear()
        for node in world.nodes.values():
            node.disk_delay = 0.002
            node.thaw()
            node.start()
        world.network.unblock_all()
        self._keep_syncing()

    def _keep_syncing(self) -> None:
        for queue, view in self.world.store.views.items():
            node = self.world.nodes[view.ring[0]]
            if view.learners and node.running:
                node.give(queue, i.Sync(on=True))
        self.world.clock.after(1.0, self._keep_syncing)
