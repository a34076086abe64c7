"""Frames: how what the lanes carry is cut up for the wire.

    size of the payload (4 octets), lane (1), kind (1), flags (1), zero (1), payload

A payload longer than PIECE goes in pieces, each a frame of its own with MORE set in all but the last. Pieces of one lane follow
each other in order; frames of other lanes may come between them.
"""

from __future__ import annotations

import struct
from typing import Final

CONTROL: Final = 0
"""Small things that must not wait; without credit."""
WORK: Final = 1
"""Forwarded operations, their answers, deliveries."""
RING: Final = 2
"""Replication."""
BULK: Final = 3
"""Full sync: what is left of the line."""
OWN: Final = 4
"""The link's own frames: heartbeats, credit, goodbye."""

LANES: Final = ("control", "work", "ring", "bulk")

HEARTBEAT_KIND: Final = 0
CREDIT_KIND: Final = 1
GOODBYE_KIND: Final = 2

HEADER_SIZE: Final = 8
MORE: Final = 1
PIECE: Final = 256 * 1024
"""The longest payload of one frame on the wire: 2 ms of a gigabit line."""
SMALLEST_PIECE: Final = 16 * 1024
"""A payload is not cut smaller than this for want of room."""
OWN_LIMIT: Final = 1024

_HEADER: Final = struct.Struct(">IBBBB")
_CREDIT: Final = struct.Struct(">BQ")


class Frame:
    """What the other side sent: whole again, however many pieces it came in."""

    def __init__(self, lane: int, kind: int, payload: bytes) -> None:
        self.lane = lane
        self.kind = kind
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Frame)
            and self.lane == other.lane
            and self.kind == other.kind
            and self.payload == other.payload
        )

    def __hash__(self) -> int:
        return hash((self.lane, self.kind, self.payload))

    def __repr__(self) -> str:
        return f"Frame({self.lane}, {self.kind}, {self.payload[:40]!r}, {len(self.payload)} bytes)"


def header(size: int, lane: int, kind: int, flags: int) -> bytes:
    return _HEADER.pack(size, lane, kind, flags, 0)


def read_header(data: bytes, at: int) -> tuple[int, int, int, int, int]:
    """Size, lane, kind, flags and the octet that must be zero."""
    return _HEADER.unpack_from(data, at)


def own_frame(kind: int, payload: bytes) -> bytes:
    return header(len(payload), OWN, kind, 0) + payload


def credit_frame(lane: int, allowed: int) -> bytes:
    return own_frame(CREDIT_KIND, _CREDIT.pack(lane, allowed))


def read_credit(payload: bytes) -> tuple[int, int]:
    """Lane, and how many bytes in all it may have carried; (-1, 0) if these are not the right bytes."""
    return _CREDIT.unpack(payload) if len(payload) == _CREDIT.size else (-1, 0)
