"""The links of a node: one connection to each other member, kept up for as long as it is one.

Rules:

- The node with the smaller name dials, so there is exactly one connection per pair. It dials at once when a link that lasted is
  lost, and otherwise again and again with growing pauses.
- `set_peers` says who is a member now. Whoever is missing from it is dropped and let in no more; who is
  new is dialled or expected.
- Of two connections of one node the newer stands: the higher incarnation, then the later attempt. A node with the name of a
  linked one and another id is refused.
- The user is called only from the loop, never from inside one of its own calls; `link_up` and `link_down` alternate per name.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, Final

from mirrormq.cluster.link import (
    PEER,
    VISITOR,
    Acceptor,
    Dialler,
    Frame,
    FrameTooLarge,
    Identity,
    Introduction,
    LinkError,
    Refused,
    Terms,
    Unreachable,
    VisitFailed,
    deadlines,
)
from mirrormq.cluster.link.handshake import NONCE_SIZE
from mirrormq.node.link_connection import Flusher, LinkConnection, now_ms
from mirrormq.node.link_dial import PeerDialler
from mirrormq.node.link_door import Door, Report
from mirrormq.node.link_judge import Standing, refusal
from mirrormq.node.link_peer import LinkUser, Peer
from mirrormq.node.link_sockets import Address, LinkTls, connect
from mirrormq.node.link_visit import Caller, Reception

__all__ = [
    "Address",
    "Frame",
    "FrameTooLarge",
    "Identity",
    "LinkError",
    "LinkTls",
    "LinkUser",
    "Links",
    "Peer",
    "Refused",
    "Terms",
    "Unreachable",
    "VisitFailed",
]

STOPPING: Final = "the node is stopping"
NOT_A_MEMBER: Final = "it is no longer a member of the cluster"


def _silent(level: str, sentence: str) -> None: ...


class Links:
    def __init__(
        self,
        me: Identity,
        secret: bytes,
        user: LinkUser,
        *,
        cluster_id: str = "",
        tls: LinkTls | None = None,
        report: Report = _silent,
        terms: Terms | None = None,
        handshake: float = deadlines.HANDSHAKE,
    ) -> None:
        assert secret
        self.me = me
        self.cluster_id = cluster_id
        """May be set later, when the node has become a member of a cluster; links that are up stay."""
        self._secret = secret
        self._user = user
        self._tls = tls
        self._report = report
        self._terms = terms or Terms()
        self._flusher = Flusher()
        self._door = Door(self._expect_guest, tls.server if tls else None, report, handshake)
        self._reception = Reception(user.visit, report)
        self._addresses: dict[str, Address] = {}
        self._node_ids: dict[str, str] = {}
        self._peers: dict[str, Peer] = {}
        self._by_connection: dict[LinkConnection, Peer] = {}
        self._calls: set[LinkConnection] = set()
        self._diallers: dict[str, PeerDialler] = {}
        self._attempts = 0
        self._ticker: asyncio.TimerHandle | None = None
        self._is_running = False

    # For the node

    async def start(self, host: str, port: int) -> None:
        """Listens, and dials those whom `set_peers` named or will name."""
        await self._door.open(host, port)
        self._is_running = True
        self._tick()
        self._reconcile()

    @property
    def port(self) -> int:
        return self._door.port

    @property
    def peers(self) -> Mapping[str, Peer]:
        """Those that are up, by name."""
        return self._peers

    def set_peers(self, addresses: Mapping[str, Address], node_ids: Mapping[str, str] | None = None) -> None:
        """Who is a member now, and where. With `node_ids`, a name is let in only with its id."""
        self._addresses = {name: address for name, address in addresses.items() if name != self.me.name}
        self._node_ids = dict(node_ids or {})
        if self._is_running:
            self._reconcile()

    def flush(self) -> None:
        """Writes what was sent to all peers; without it that happens at the end of the loop's turn."""
        self._flusher.flush()

    async def call(self, address: Address, request: dict[str, Any], timeout: float, *, name: str = "") -> dict[str, Any]:
        """One request to a node that knows the secret, and its answer. `name`: only this node may answer.
        Raises Unreachable, HandshakeFailed, Refused or VisitFailed; after Unreachable it is unknown whether it was done."""
        caller = Caller(request)
        connection = self._dialling(caller, VISITOR, name)
        self._calls.add(connection)
        try:
            async with asyncio.timeout(timeout):
                await connect(connection, address, self._tls)
                result = await caller.answer
        except TimeoutError:
            raise Unreachable(f"{address[0]}:{address[1]} gave no answer within {timeout:g} s") from None
        finally:
            self._calls.discard(connection)
            connection.close("the visit is over")
        if isinstance(result, LinkError):
            raise result
        return result

    async def stop(self) -> None:
        """Says goodbye to all, closes everything. The user hears `link_down` for each peer that was up."""
        self._is_running = False
        if self._ticker is not None:
            self._ticker.cancel()
        self._door.close()
        diallers, self._diallers = list(self._diallers.values()), {}
        for peer in list(self._peers.values()):
            self._drop(peer, STOPPING)
        for connection in list(self._calls):
            connection.close(STOPPING)
        await self._reception.stop(STOPPING)
        await asyncio.gather(*(dialler.stop() for dialler in diallers))
        await asyncio.sleep(0)

    # Who should be linked

    def _reconcile(self) -> None:
        for name, peer in list(self._peers.items()):
            if name not in self._addresses:
                self._drop(peer, NOT_A_MEMBER)
            elif self._node_ids.get(name, peer.node_id) != peer.node_id:
                self._drop(peer, f"the member {name} is another node now")
        for name in set(self._diallers) - set(self._addresses):
            self._diallers.pop(name).cancel()
        for name, address in self._addresses.items():
            if self.me.name < name:
                self._dial(name, address)

    def _dial(self, name: str, address: Address) -> None:
        dialler = self._diallers.get(name)
        if dialler is None:
            self._diallers[name] = PeerDialler(name, address, self._tls, lambda: self._dialling(self, PEER, name), self._report)
        else:
            dialler.redirect(address)

    def _dialling(self, handler: Links | Caller, role: str, name: str) -> LinkConnection:
        self._attempts += 1
        shake = Dialler(self._secret, self._introduction(role, name), secrets.token_bytes(NONCE_SIZE))
        return LinkConnection(shake, handler, self._flusher, self._terms)

    def _introduction(self, role: str = PEER, to: str = "") -> Introduction:
        return Introduction(self.me, role=role, to=to, cluster_id=self.cluster_id, attempt=self._attempts)

    def _expect_guest(self) -> LinkConnection:
        shake = Acceptor(self._secret, secrets.token_bytes(NONCE_SIZE))
        connection = LinkConnection(shake, self, self._flusher, self._terms)
        connection.me = self._introduction
        return connection

    # For the connections

    def introduced(self, connection: LinkConnection, peer: Introduction) -> str:
        self._door.leave(connection)
        sentence = refusal(self._introduction(), peer, self._standing(peer.who.name))
        if not sentence and peer.role == VISITOR:
            connection.handler = self._reception
        return sentence

    def _standing(self, name: str) -> Standing:
        linked = self._peers.get(name)
        current = linked.introduction if linked is not None else None
        return Standing(is_member=name in self._addresses, node_id=self._node_ids.get(name, ""), linked=current)

    def established(self, connection: LinkConnection) -> None:
        assert connection.peer is not None
        name = connection.peer.who.name
        expected = self._node_ids.get(name, connection.peer.who.node_id)
        if expected != connection.peer.who.node_id:
            raise LinkError(f"{name} answered with the id {connection.peer.who.node_id}; the member's is {expected}")
        old = self._peers.get(name)
        if old is not None:
            self._replace(old)
        peer = Peer(connection, connection.peer)
        self._peers[name] = self._by_connection[connection] = peer
        dialler = self._diallers.get(name)
        if dialler is not None:
            dialler.succeeded(connection)
        self._user.link_up(peer)

    def frames(self, connection: LinkConnection, frames: list[Frame]) -> None:
        peer = self._by_connection.get(connection)
        if peer is not None:
            self._user.link_frames(peer, frames)

    def drained(self, connection: LinkConnection, lane: int) -> None:
        peer = self._by_connection.get(connection)
        if peer is not None:
            self._user.link_drained(peer, lane)

    def ended(self, connection: LinkConnection, error: LinkError) -> None:
        self._door.leave(connection)
        peer = self._by_connection.pop(connection, None)
        if peer is not None:
            self._lower(peer)
            self._user.link_down(peer, str(error))
        elif connection.peer is None and connection.me is not None:
            self._door.complain(connection, error)
        for dialler in self._diallers.values():
            dialler.failed(connection, error)

    # Up and down

    def _replace(self, old: Peer) -> None:
        """The old one's end is told before the new one's beginning, so not by way of the loop."""
        connection = old.connection
        connection.close("a newer connection of the same node took its place")
        self._lower(old)
        if self._by_connection.pop(connection, None) is not None:
            self._user.link_down(old, "a newer connection of the same node took its place")

    def _drop(self, peer: Peer, sentence: str) -> None:
        self._lower(peer)
        peer.connection.close(sentence)

    def _lower(self, peer: Peer) -> None:
        peer.is_up = False
        if self._peers.get(peer.name) is peer:
            del self._peers[peer.name]

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(deadlines.TICK, self._tick)
        now = now_ms()
        for connection in [*self._by_connection, *self._reception.visitors, *self._calls]:
            connection.tick(now)
