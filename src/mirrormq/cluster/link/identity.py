"""Who is at the other end: what a node says of itself once the other side has proved that it knows the secret.

An introduction is a small JSON object, so that a later version can say more; what it does not know it ignores. What it reads is
checked field by field: the secret says that a node may speak, not that it speaks well.
"""

from __future__ import annotations

import json
from typing import Final

from mirrormq.cluster.link.errors import LinkFault

PEER: Final = "peer"
VISITOR: Final = "visitor"

OLDEST_VERSION: Final = 1
NEWEST_VERSION: Final = 1
"""The versions of the session that this code speaks."""

LONGEST_NAME: Final = 255
LARGEST_NUMBER: Final = 1 << 62


class Identity:
    """A node: its name, the id that its data directory got when it was made, and how often it has started since."""

    def __init__(self, name: str, node_id: str, incarnation: int) -> None:
        self.name = name
        self.node_id = node_id
        self.incarnation = incarnation

    def __repr__(self) -> str:
        return f"Identity({self.name!r}, {self.node_id!r}, {self.incarnation})"


class Introduction:
    """What one side says of itself and of what it wants."""

    def __init__(
        self,
        who: Identity,
        *,
        role: str = PEER,
        to: str = "",
        cluster_id: str = "",
        attempt: int = 0,
        oldest: int = OLDEST_VERSION,
        newest: int = NEWEST_VERSION,
    ) -> None:
        self.who = who
        self.role = role
        self.to = to
        self.cluster_id = cluster_id
        self.attempt = attempt
        self.oldest = oldest
        self.newest = newest

    def encode(self) -> bytes:
        fields: dict[str, object] = {
            "name": self.who.name,
            "node_id": self.who.node_id,
            "incarnation": self.who.incarnation,
            "role": self.role,
            "to": self.to,
            "cluster_id": self.cluster_id,
            "attempt": self.attempt,
            "oldest": self.oldest,
            "newest": self.newest,
        }
        return json.dumps(fields).encode()


def decode_introduction(raw: bytes) -> Introduction:
    fields = decode_object(raw)
    who = Identity(_text(fields, "name"), _text(fields, "node_id"), _number(fields, "incarnation"))
    if not who.name:
        raise LinkFault("an introduction has no name")
    role = _text(fields, "role")
    if role != PEER and role != VISITOR:
        raise LinkFault(f"{who.name} introduced itself as {role!r}, which this version does not know")
    return Introduction(
        who,
        role=role,
        to=_text(fields, "to"),
        cluster_id=_text(fields, "cluster_id"),
        attempt=_number(fields, "attempt"),
        oldest=_number(fields, "oldest"),
        newest=_number(fields, "newest"),
    )


def decode_object(raw: bytes) -> dict[str, object]:
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        raise LinkFault("a message of the handshake is not JSON") from None
    if not isinstance(fields, dict):
        raise LinkFault("a message of the handshake is not a JSON object")
    return fields


def common_version(mine: Introduction, theirs: Introduction) -> int:
    """The newest version that both speak, or 0."""
    version = min(mine.newest, theirs.newest)
    return version if version >= max(mine.oldest, theirs.oldest, 1) else 0


def _text(fields: dict[str, object], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise LinkFault(f"{key!r} of an introduction is not a short text")
    return value


def _number(fields: dict[str, object], key: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_NUMBER:
        raise LinkFault(f"{key!r} of an introduction is not a number from 0 on")
    return value
