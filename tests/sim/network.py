"""Simulated links: one connection for each pair of nodes, in order within it, gone with all that was under way when it ends."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from sim.clock import Clock

if TYPE_CHECKING:
    from sim.node import Node

SILENCE = 2.0
DELAY = 0.004
LONG_DELAY = 0.04


class Link:
    """Between two nodes. `up` holds who still takes the connection for alive."""

    def __init__(self, one: Node, other: Node) -> None:
        self.ends = (one, other)
        self.number = 0
        self.up: set[str] = set()
        self.opening = False
        self.blocked: set[str] = set()      # names of senders whose bytes do not arrive
        self.doomed = False
        self.arrival: dict[str, float] = {one.name: 0.0, other.name: 0.0}


class Network:
    def __init__(self, clock: Clock, random: Random) -> None:
        self.clock = clock
        self.random = random
        self.links: dict[tuple[str, str], Link] = {}
        self.lag: dict[str, float] = {}     # of slow nodes

    def add(self, one: Node, other: Node) -> None:
        link = Link(one, other)
        self.links[one.name, other.name] = self.links[other.name, one.name] = link

    def open_all(self) -> None:
        """The cluster is up before its queues are declared."""
        for link in dict.fromkeys(self.links.values()):
            link.number = 1
            link.up = {end.name for end in link.ends}

    def peers_of(self, node: Node) -> list[str]:
        return [peer for (name, peer), link in self.links.items() if name == node.name and name in link.up]

    def connect(self, link: Link) -> None:
        """Whenever something has changed that was in the way."""
        one, other = link.ends
        if link.up or link.opening or link.blocked or not (one.running and other.running):
            return
        link.opening = True
        self.clock.after(self.random.uniform(0.001, 0.05), self._open, link)

    def _open(self, link: Link) -> None:
        link.opening = False
        one, other = link.ends
        if link.blocked or link.up or not (one.running and other.running):
            return
        link.number += 1
        link.doomed = False
        for end, peer in ((one, other), (other, one)):
            link.up.add(end.name)
            link.arrival[end.name] = self.clock.now
            self._arrive(link, peer, end, ("up",))

    def send(self, sender: Node, to: str, what: tuple[Any, ...]) -> None:
        link = self.links.get((sender.name, to))
        if link is not None and sender.name in link.up:
            self._arrive(link, sender, link.ends[0] if link.ends[0].name == to else link.ends[1], what)

    def _arrive(self, link: Link, sender: Node, receiver: Node, what: tuple[Any, ...]) -> None:
        chance = self.random.random()
        delay = chance * (DELAY if chance < 0.97 else LONG_DELAY)
        if self.lag:
            delay += self.lag.get(sender.name, 0.0)
        time = max(link.arrival[receiver.name], self.clock.now + delay)
        link.arrival[receiver.name] = time
        self.clock.at(time, self._deliver, link, link.number, sender, receiver, what)

    def _deliver(self, link: Link, number: int, sender: Node, receiver: Node, what: tuple[Any, ...]) -> None:
        if number != link.number or not receiver.up or receiver.name not in link.up:
            return
        if sender.name in link.blocked or link.doomed:
            link.doomed = True              # bytes were lost: this connection never goes on
            return
        receiver.hear(sender.name, number, what)

    def is_current(self, one: str, other: str, number: int) -> bool:
        link = self.links[one, other]
        return link.number == number and one in link.up

    def block(self, sender: str, receiver: str) -> None:
        """Nothing from sender reaches receiver; both notice at some time, the receiver by silence."""
        link = self.links[sender, receiver]
        link.blocked.add(sender)
        link.doomed = True
        for end in link.ends:
            self.clock.after(self.random.uniform(0.02, SILENCE), self._lose, link, link.number, end)

    def unblock_all(self) -> None:
        for link in dict.fromkeys(self.links.values()):
            link.blocked.clear()
            self.connect(link)

    def break_link(self, link: Link) -> None:
        """The connection is reset; nothing stands in the way of the next."""
        link.doomed = True
        for end in link.ends:
            self.clock.after(self.random.uniform(0.001, 0.02), self._lose, link, link.number, end)

    def _lose(self, link: Link, number: int, end: Node) -> None:
        if number == link.number and end.name in link.up:
            if end.up:
                link.up.discard(end.name)
                end.hear(other_end(link, end).name, number, ("down",))
            if not link.up:
                self.connect(link)

    def node_died(self, node: Node, *, silently: bool) -> None:
        for link in self._links_of(node):
            link.up.discard(node.name)
            peer = other_end(link, node)
            delay = self.random.uniform(1.0, SILENCE) if silently else self.random.uniform(0.001, 0.02)
            time = max(self.clock.now + delay, link.arrival[peer.name])
            self.clock.at(time, self._lose, link, link.number, peer)

    def node_froze(self, node: Node) -> None:
        self.clock.after(SILENCE, self._still_frozen, node, node.freezes)

    def _still_frozen(self, node: Node, freezes: int) -> None:
        if node.frozen and node.freezes == freezes:
            for link in self._links_of(node):
                link.doomed = True
                self._lose(link, link.number, other_end(link, node))
                self._lose(link, link.number, node)     # it hears of it when it thaws

    def node_returned(self, node: Node) -> None:
        for link in self._links_of(node):
            self.connect(link)

    def _links_of(self, node: Node) -> list[Link]:
        return [link for link in dict.fromkeys(self.links.values()) if node in link.ends]


def other_end(link: Link, node: Node) -> Node:
    return link.ends[1] if link.ends[0] is node else link.ends[0]
