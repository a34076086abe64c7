"""The members of an etcd as a list of addresses: one is used as long as it is good, then the next.

The guard (after Patroni's): an answer from an older raft term than one already seen comes from a member that was left behind, and
one from another cluster from a wrong address; neither counts. A revision that goes back in an answer of the majority means that
the whole store was set back to an earlier state.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mirrormq.cluster.coordination.errors import StoreDamaged

from .codec import Json, number


class StaleMember(Exception):
    """This member's answers do not count; the text says why."""


class Guard:
    def __init__(self) -> None:
        self._cluster = 0
        self._term = 0
        self.revision = 0
        """The highest that was answered."""

    def check(self, answer: Json) -> None:
        """Judge any answer with a header."""
        header = answer.get("header", {})
        cluster, term = number(header, "cluster_id"), number(header, "raft_term")
        if self._cluster not in (0, cluster):
            raise StaleMember(f"it belongs to etcd cluster {cluster:x} and not to {self._cluster:x}: correct the list of "
                              "addresses, or restart this node if the store was built anew")
        if term < self._term:
            raise StaleMember(f"it is left behind in term {term}, others are in {self._term}")
        self._cluster, self._term = cluster, term

    def check_revision(self, answer: Json, before: int) -> None:
        """Judge an answer of the majority by the highest revision that was known before it was asked."""
        revision = number(answer.get("header", {}), "revision")
        if revision < before:
            raise StoreDamaged(f"etcd is at revision {revision} and was at {before}: it was set back to an earlier state; "
                               "restart all nodes that use it")
        self.revision = max(self.revision, revision)


class Endpoints:
    def __init__(self, addresses: Sequence[str]) -> None:
        """Each node begins at another member, so that their load is spread."""
        self._addresses = random.sample(addresses, len(addresses))
        self._at = 0
        self._verified: set[str] = set()

    def __len__(self) -> int:
        return len(self._addresses)

    def __str__(self) -> str:
        return ", ".join(sorted(self._addresses))

    @property
    def current(self) -> str:
        return self._addresses[self._at]

    def other_than(self, address: str) -> str:
        """The current one, or the one after it."""
        return self.current if self.current != address else self._addresses[(self._at + 1) % len(self._addresses)]

    def is_verified(self, address: str) -> bool:
        return address in self._verified

    def verify(self, address: str) -> None:
        self._verified.add(address)

    def fail(self, address: str) -> None:
        """Go on to the next one, if that is not done already."""
        self._verified.discard(address)
        if address == self.current:
            self._at = (self._at + 1) % len(self._addresses)
