"""A node that is not part of a cluster yet asks another one which cluster that is."""

from __future__ import annotations

from typing import Any, Final

from mirrormq.cluster.keepsake import Keepsake
from mirrormq.cluster.link import Identity, LinkError, WrongSecret
from mirrormq.node.config import NodeConfig
from mirrormq.node.link_sockets import Address
from mirrormq.node.links import Frame, Links, Peer
from mirrormq.node.secret import shared_secret

PATIENCE: Final = 10.0


class CookieDiffers(Exception):
    """The other node has another secret, or is no node."""


class NotThere(Exception):
    """The other node cannot be asked; the sentence says why."""


class _Visitor:
    """Nobody links to a visitor."""

    def link_up(self, peer: Peer) -> None: ...

    def link_down(self, peer: Peer, reason: str) -> None: ...

    def link_frames(self, peer: Peer, frames: list[Frame]) -> None: ...

    def link_drained(self, peer: Peer, lane: int) -> None: ...

    async def visit(self, request: dict[str, Any]) -> dict[str, Any]:
        return {}


async def ask_which_cluster(config: NodeConfig, keepsake: Keepsake, name: str, address: Address) -> dict[str, Any]:
    """Its store, its members and its id, as `Cluster.visit` tells them."""
    links = Links(Identity(keepsake.node, keepsake.id, keepsake.starts), shared_secret(config.secret_file), _Visitor())
    try:
        return await links.call(address, {"what": "cluster"}, PATIENCE, name=name)
    except WrongSecret as fault:
        raise CookieDiffers(f"node {name} at {address[0]}:{address[1]} did not accept this node ({fault}): the cookies of the "
                            "two nodes must be the same") from None
    except LinkError as fault:
        raise NotThere(f"node {name} cannot be asked at {address[0]}:{address[1]}: {fault}") from None
