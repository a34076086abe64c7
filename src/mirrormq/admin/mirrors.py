"""What the API needs to know of mirrors, and what it asks of them.

`Mirrors` is the port. A queue that a policy mirrors is a ring, if only of one; all others have no ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from mirrormq.broker.queue import Queue

MIRRORED: Final = "ha-mode"
OK: Final = "ok"
NOT_MIRRORED: Final = "not_mirrored"
NOT_SYNCING: Final = "not_syncing"


class Learner(NamedTuple):
    """A mirror on its way to be in sync: how far it is behind, None where it has not said yet, and of a full sync how many
    messages it has got."""

    node: str
    lag_entries: int | None = None
    lag_bytes: int = 0
    synced: int | None = None


class Ring(NamedTuple):
    """A mirrored queue. `mirrors` are all members but the leader, in the order of the ring, learners last."""

    leader: str
    epoch: int = 1
    mirrors: tuple[str, ...] = ()
    in_sync: tuple[str, ...] = ()
    learners: tuple[Learner, ...] = ()
    recoverable: tuple[str, ...] = ()       # members that are down and were in sync

    @property
    def is_bare(self) -> bool:
        """Mirrored, and nothing but the leader is in sync."""
        return not self.in_sync


class Share(NamedTuple):
    """How many mirrored queues a node leads."""

    node: str
    leaders: int


class Mirrors(Protocol):
    def ring(self, queue: Queue) -> Ring | None:
        """What this node knows of it; None if the queue is not mirrored."""

    async def sync(self, queue: Queue) -> str:
        """Bring its mirrors in sync. One of the words above, or a sentence that says why not."""

    async def cancel_sync(self, queue: Queue) -> str: ...

    async def move(self, queue: Queue, to: str) -> None:
        """Give the lead to that node. Raises ApiError with a sentence where it cannot take it."""

    async def rebalance(self, vhost_pattern: str, queue_pattern: str, strategy: str) -> Sequence[Share]:
        """Spread the leaders of the mirrored queues that match over the nodes, and tell how they are spread then."""

    async def carry_out(self, moves: Sequence[tuple[str, str, str]]) -> Sequence[str]:
        """Move leads: vhost, queue, to which node. A sentence for each that was not moved."""

    def critical(self) -> Sequence[Queue]:
        """Mirrored queues that would lose their only copy in sync if this node stopped now."""
