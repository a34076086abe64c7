"""Links between nodes, without sockets: the handshake, and the session of lanes that follows it.

Rules:

- One connection per pair of nodes carries everything. What must not wait for each other goes in different lanes.
- Bytes and the time come in as arguments, bytes and frames come out. `mirrormq.node.links` has the sockets.
- Nobody learns anything, not even a name, before it has proved that it knows the secret (`handshake`).
- A lane never carries more than the receiver has allowed (`inbound`, `outbound`), and no frame holds the line for longer than
  one piece of it takes.

The formats are in docs/internals/links.md.
"""

from __future__ import annotations

from mirrormq.cluster.link.errors import (
    FrameTooLarge,
    HandshakeFailed,
    LinkError,
    LinkFault,
    LinkSilent,
    Refused,
    Unreachable,
    VisitFailed,
    WrongSecret,
)
from mirrormq.cluster.link.frames import BULK, CONTROL, LANES, RING, WORK, Frame
from mirrormq.cluster.link.handshake import Acceptor, Dialler
from mirrormq.cluster.link.identity import PEER, VISITOR, Identity, Introduction
from mirrormq.cluster.link.session import LinkSession
from mirrormq.cluster.link.terms import LaneTerms, Terms

__all__ = [
    "BULK",
    "CONTROL",
    "LANES",
    "PEER",
    "RING",
    "VISITOR",
    "WORK",
    "Acceptor",
    "Dialler",
    "Frame",
    "FrameTooLarge",
    "HandshakeFailed",
    "Identity",
    "Introduction",
    "LaneTerms",
    "LinkError",
    "LinkFault",
    "LinkSession",
    "LinkSilent",
    "Refused",
    "Terms",
    "Unreachable",
    "VisitFailed",
    "WrongSecret",
]
