"""Another node that this one is linked to."""

from __future__ import annotations

from collections import deque
from typing import Final

from mirrormq.broker.forward.port import PeerPort
from mirrormq.cluster.link import WORK
from mirrormq.cluster.replica import Replica
from mirrormq.node.links import Peer

REVISION: Final = 255           # kind of a WORK frame: what follows stands on this revision


class Port(PeerPort):
    """A link as forwarding sees it."""

    def __init__(self, replica: Replica, peer: Peer) -> None:
        super().__init__(peer.name)
        self._replica = replica
        self._peer = peer
        self._told = -1

    def send(self, kind: int, payload: bytes) -> None:
        revision = self._replica.revision
        if revision != self._told:
            self._told = revision
            self._peer.send(WORK, REVISION, revision.to_bytes(8, "big"))
        self._peer.send(WORK, kind, payload)

    def waiting(self) -> int:
        return self._peer.waiting(WORK)


class Neighbour:
    """What this node knows of one that it is linked to."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.applied = 0
        self.alarms: dict[str, str] = {}
        self.held: deque[tuple[int, bytes]] = deque()       # WORK frames that wait for this node's copy
        self.needs = 0                                      # the revision that they wait for
