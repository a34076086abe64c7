"""What the API and the page show of a queue's ring, and what may be done about it: a port of the mirroring.

Rules
 1. `placement` is known on every node, from its own copy of what is agreed, and costs nothing.
 2. Everything else is asked of the node that leads the queue, and of no other.
 3. A queue that is not mirrored has a ring of one. Nothing is invented for it.
 4. Items of quarantine are known by an `id`, which stays the same while they are there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from mirrormq.broker.queue import Queue


@dataclass(frozen=True)
class Member:
    """One copy. `durable` and `received` are its marks; `lag` is how far its durable mark is behind the leader's end. They are
    None where nobody has told: of a node that does not answer, and `lag` also where the leader's end is not known."""

    node: str
    received: int | None
    durable: int | None
    is_linked: bool = True
    lag_entries: int | None = 0
    lag_bytes: int = 0
    sync_done: int | None = None        # messages of a full sync that are there, while there is one
    sync_total: int | None = None


@dataclass(frozen=True)
class LakeMirror:
    name: str
    acknowledged: int
    lag_entries: int
    state: str                          # running, or how its lease stands


@dataclass(frozen=True)
class Ring:
    """`members` are in sync, leader first; `sentence` says how this view came about, or why there are no mirrors. Where nobody
    leads it says for whom the queue waits, and numbers that nobody has told are None."""

    epoch: int | None
    end: int | None
    stable: int | None
    is_mirrored: bool
    wanted: int
    sentence: str
    members: tuple[Member, ...]
    learners: tuple[Member, ...] = ()
    lakes: tuple[LakeMirror, ...] = ()

    @property
    def leader(self) -> str:
        return self.members[0].node


@dataclass(frozen=True)
class Failover:
    """`sentence` is the audit: what was compared, and what it came to. `lost` is None where nobody can know it yet. Of a failover
    that has not ended, because nobody can take over, `sentence` says for whom the queue waits; what is not decided is None."""

    epoch: int | None
    time_ms: int | None
    old_leader: str
    new_leader: str | None
    sentence: str
    lost: int | None
    requeued: int | None
    elect_ms: int | None
    serve_ms: int | None
    end: int | None
    known_stable: dict[str, int]
    members: tuple[str, ...]
    learners: tuple[str, ...]


@dataclass(frozen=True)
class QuarantineItem:
    """Entries that were cut off one node's log, because the new epoch never had them."""

    id: str
    node: str
    epoch: int
    first: int
    last: int
    time_ms: int
    messages: int
    reason: str


@dataclass(frozen=True)
class Placement:
    """Who leads a queue, who is in sync behind the leader, who is not yet."""

    leader: str
    mirrors: tuple[str, ...] = ()
    learners: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Heir:
    """A mirror that is not in sync and would lead if the leader stopped now. `lacks` counts messages, None where nobody knows."""

    node: str
    lacks: int | None


class NoSuchItem(Exception):
    """Nothing is known by that id, or not any more."""


class RingView(Protocol):
    def placement(self, queue: Queue) -> Placement: ...

    def reachable(self, queue: Queue) -> Placement:
        """Without the nodes that this one does not see."""
        ...

    def heir(self, queue: Queue) -> Heir | None:
        """Of a queue that is led here and of which no other copy is in sync."""
        ...

    async def show_ring(self, queue: Queue) -> Ring: ...

    async def show_waiting(self, queue: Queue) -> Ring | None:
        """Of a mirrored queue that nobody leads, as its holders tell; None if it is none. Known on every node."""
        ...

    async def failovers(self, queue: Queue) -> list[Failover]:
        """Newest first."""
        ...

    async def quarantine(self, queue: Queue) -> list[QuarantineItem]: ...

    async def settle_quarantine(self, queue: Queue, item: str, *, requeue: bool) -> int:
        """Append its live messages to the queue, or throw it away. How many messages; NoSuchItem."""
        ...


def why_alone(queue: Queue) -> str:
    if queue.exclusive:
        return "it has one copy, because it is exclusive: it ends with its connection"
    if "ha-mode" in queue.effective_policy:
        return f"policy '{queue.policy}' asks for mirrors, and they are about to come"
    return "it has one copy, because no policy with ha-mode applies to it"


def as_json(record: Any) -> dict[str, Any]:
    return asdict(record)
