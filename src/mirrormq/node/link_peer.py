"""A peer as the user of the links sees it, and what the links expect of their user."""

from __future__ import annotations

from typing import Any, Protocol

from mirrormq.cluster.link import Frame, Introduction
from mirrormq.node.link_connection import LinkConnection, now_ms


class Peer:
    """A node that is linked: one object for each connection. Once it is down it stays down; the next link has another."""

    __slots__ = ("_session", "connection", "incarnation", "introduction", "is_up", "name", "node_id")

    def __init__(self, connection: LinkConnection, introduction: Introduction) -> None:
        assert connection.session is not None
        self.name = introduction.who.name
        self.node_id = introduction.who.node_id
        self.incarnation = introduction.who.incarnation
        self.is_up = True
        self.introduction = introduction
        self.connection = connection
        self._session = connection.session

    def send(self, lane: int, kind: int, payload: bytes) -> None:
        """Puts a frame into its lane; it leaves with the next flush. To a peer that is down, nothing is sent."""
        if self.is_up:
            self._session.send(lane, kind, payload)
            self.connection.touch()

    def waiting(self, lane: int) -> int:
        """How many bytes of the lane have not left; when they are many, stop what makes more until `link_drained`."""
        return self._session.waiting(lane) if self.is_up else 0

    def is_quiet(self) -> bool:
        """Nothing has come for half the time after which it counts as gone."""
        return self.is_up and self._session.is_quiet(now_ms())

    def consumed(self, lane: int, nbytes: int) -> None:
        """So many bytes of received payloads are digested: the peer may send more."""
        if self.is_up:
            self._session.consumed(lane, nbytes)
            if self._session.has_output():
                self.connection.touch()

    def __repr__(self) -> str:
        return f"<Peer {self.name} {self.node_id} incarnation {self.incarnation}{'' if self.is_up else ', down'}>"


class LinkUser(Protocol):
    """Whom the links serve. None of these is called from inside a call to `Links` or `Peer`."""

    def link_up(self, peer: Peer) -> None:
        """Before any frame of this peer."""

    def link_down(self, peer: Peer, reason: str) -> None:
        """Once for each `link_up`; what was sent and not yet answered may or may not have arrived."""

    def link_frames(self, peer: Peer, frames: list[Frame]) -> None:
        """All frames of one read together, in the order of their lanes."""

    def link_drained(self, peer: Peer, lane: int) -> None:
        """`waiting(lane)` was above the lane's low mark and has fallen to it."""

    async def visit(self, request: dict[str, Any]) -> dict[str, Any]:
        """A request of a node that knows the secret, member or not. Raise VisitFailed with a sentence to refuse it."""
        raise NotImplementedError
