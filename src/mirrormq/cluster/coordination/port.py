"""The coordination port: what a store must offer so that nodes can agree. Two adapters, SQLite and etcd, one conformance suite.

The rules, which both adapters keep:

- The store has one revision, which grows with what is changed. An item's revision is that of the transaction that wrote it last.
  All changes of one transaction have one revision and are seen together or not at all; transactions of one batch may share one.
- A transaction's compares are judged together against one state; if all hold, all its writes happen, otherwise none.
- Nothing is written twice in one transaction: a put's key is named by no other write of it, nor covered by a prefix.
- `read` sees every transaction that was answered before it was called, by whichever client.
- `watch` hands out every change after a revision, in order, without a hole. Where the store no longer has them (compaction),
  it hands out the whole prefix as a `Reset` and goes on from there. It survives outages of the store and of its members.
- A lease that is not kept alive for its time to live goes, and all keys that hang on it go with it, in one transaction.
- Whoever is told `Unreachable` has changed nothing. Whoever is told `OutcomeUnknown` must read before deciding again.
- Every call but `watch` is answered within `deadlines.CALL` seconds, or READ for a long read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from .errors import BadTransaction, CoordinationError
from .keys import check_key, check_lease, check_text
from .reachability import Reachability

MAX_WRITES: Final = 120
"""Writes, and compares, in one transaction: etcd takes 128 unless told otherwise."""

MAX_BYTES: Final = 1_000_000
"""Keys and values of one transaction, encoded: etcd takes a request of 1.5 MiB unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Item:
    value: str
    revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All items below a prefix, as of a revision."""

    revision: int
    items: dict[str, Item]


@dataclass(frozen=True, slots=True)
class Change:
    """A key's new item, or None where the key is gone."""

    key: str
    item: Item | None


@dataclass(frozen=True, slots=True)
class Changes:
    """Whole transactions in order, the last of which has this revision."""

    revision: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Reset:
    """The changes since the last ones are not known any more; this is what is there now."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Absent:
    key: str


@dataclass(frozen=True, slots=True)
class Present:
    key: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The key's item has exactly this revision; revision 0 means that there is none."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class ValueIs:
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Put:
    """Write a value; without a lease, an earlier one no longer holds the key."""

    key: str
    value: str
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    prefix: str


Compare: TypeAlias = Absent | Present | Unchanged | ValueIs
Write: TypeAlias = Put | Delete | DeletePrefix


@dataclass(frozen=True, slots=True)
class Transaction:
    compares: Sequence[Compare]
    writes: Sequence[Write]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether all compares held, and so all writes happened.

    The revision is that of the change, or where nothing was changed one at which the compares were judged. `found` has, where
    they did not hold, the items of the compared keys that exist: enough to decide again without a read.
    """

    succeeded: bool
    revision: int
    found: dict[str, Item] = field(default_factory=dict)


class Watch(AsyncIterator[Changes | Reset]):
    """The changes below a prefix. One task at a time waits in `anext`; cancelling it loses nothing.

    It ends when it, or the store, is closed, and raises only `Refused` and `StoreDamaged`.
    """

    @abstractmethod
    async def aclose(self) -> None: ...


class Coordination(ABC):
    reachability: Reachability

    @abstractmethod
    async def read(self, prefix: str) -> Snapshot:
        """All items below a prefix; the empty prefix is everything."""

    @abstractmethod
    def watch(self, prefix: str, after: int) -> Watch:
        """Changes below a prefix with revisions above `after`, for example that of a snapshot."""

    async def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> Outcome:
        """Write all or nothing. Raises LeaseGone where a put names a lease that is gone."""
        [outcome] = await self.transact_many([Transaction(compares, writes)])
        if isinstance(outcome, CoordinationError):
            raise outcome
        return outcome

    @abstractmethod
    async def transact_many(self, transactions: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
        """Independent transactions in few round trips, each with its own outcome.

        Those that touch the same keys happen in the order given; where one's outcome is not known, later ones do not happen.
        """

    @abstractmethod
    async def grant(self, ttl: int) -> int:
        """A new lease of so many seconds, at least one; a store may give it more."""

    @abstractmethod
    async def keep_alive(self, lease: int) -> float:
        """Renew a lease and return the seconds until it goes; raises LeaseGone."""

    @abstractmethod
    async def revoke(self, lease: int) -> None:
        """End a lease, and delete its keys; one that is gone already is no error."""

    @abstractmethod
    async def close(self) -> None:
        """End watches, finish what was asked, let go. Leases are left to expire."""


def check(transaction: Transaction) -> None:
    """Raise BadTransaction for what some store would refuse, so that all refuse the same."""
    if len(transaction.writes) > MAX_WRITES or len(transaction.compares) > MAX_WRITES:
        raise BadTransaction(f"a transaction has at most {MAX_WRITES} compares and {MAX_WRITES} writes")
    for compare in transaction.compares:
        check_key(compare.key)
    size = sum(_size(write) for write in transaction.writes)
    if size > MAX_BYTES:
        raise BadTransaction(f"a transaction has at most {MAX_BYTES} bytes of keys and values, this one {size}")
    _check_overlaps(transaction.writes)


def _size(write: Write) -> int:
    match write:
        case DeletePrefix(prefix):
            check_text(prefix)
            return len(prefix)
        case Delete(key):
            check_key(key)
            return len(key)
        case Put(key, value, lease):
            check_key(key)
            check_text(value)
            check_lease(lease)
            return len(key.encode()) + len(value.encode())


def _check_overlaps(writes: Sequence[Write]) -> None:
    puts: set[str] = set()
    for write in writes:
        if isinstance(write, Put):
            if write.key in puts:
                raise BadTransaction(f"{write.key!r} is written twice in one transaction")
            puts.add(write.key)
    for write in writes:
        match write:
            case Delete(key) if key in puts:
                raise BadTransaction(f"{key!r} is written and deleted in one transaction")
            case DeletePrefix(prefix) if any(key.startswith(prefix) for key in puts):
                raise BadTransaction(f"a key below {prefix!r} is written in the transaction that deletes all of them")
