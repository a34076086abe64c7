"""What is done inside one write transaction of SQLite: any number of the port's transactions and lease calls, one after another.

Compares see what earlier ones of the same SQLite transaction wrote. Nothing is told to anyone before the commit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from mirrormq.cluster.coordination.errors import CoordinationError, LeaseGone
from mirrormq.cluster.coordination.keys import prefix_end
from mirrormq.cluster.coordination.port import (
    Absent,
    Change,
    Changes,
    Compare,
    Delete,
    DeletePrefix,
    Item,
    Outcome,
    Present,
    Put,
    Transaction,
    Unchanged,
    ValueIs,
    Write,
)

from . import clock

TRIM_EVERY: Final = 1024
"""Revisions between two cuts of the log."""


class Writing:
    def __init__(self, database: sqlite3.Connection, keep: int) -> None:
        """`keep` is how many changes the log keeps."""
        self._database = database
        self._keep = keep
        self._now = clock.now()
        self.base: int
        self._lease: int
        self._boot: str
        self.base, self._lease, self._boot = database.execute("select revision, lease, boot from state").fetchone()
        self.revision = self.base
        self.changes: list[Changes] = []
        self.is_probe = False

    def transact(self, transaction: Transaction) -> Outcome:
        items = {compare.key: self._item(compare.key) for compare in transaction.compares}
        if not all(holds(compare, items[compare.key]) for compare in transaction.compares):
            return Outcome(succeeded=False, revision=self.revision, found={key: item for key, item in items.items() if item})
        self._check_leases(transaction.writes)
        self._write(change for write in transaction.writes for change in self._effects(write))
        return Outcome(succeeded=True, revision=self.revision)

    def transact_many(self, transactions: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
        return [self._outcome(transaction) for transaction in transactions]

    def _outcome(self, transaction: Transaction) -> Outcome | CoordinationError:
        try:
            return self.transact(transaction)
        except LeaseGone as fault:
            return fault

    def grant(self, ttl: int) -> int:
        self._lease += 1
        self._database.execute("update state set lease = ?", (self._lease,))
        self._database.execute("insert into leases values (?, ?, ?)", (self._lease, ttl, self._now + ttl))
        return self._lease

    def keep_alive(self, lease: int) -> float:
        self._check_lease(lease)
        self._database.execute("update leases set expires = ? + ttl where id = ?", (self._now, lease))
        [ttl] = self._database.execute("select ttl from leases where id = ?", (lease,)).fetchone()
        return float(ttl)

    def revoke(self, lease: int) -> None:
        self._database.execute("delete from leases where id = ?", (lease,))
        keys = self._database.execute("select key from items where lease = ? and lease != 0 order by key", (lease,)).fetchall()
        self._write([Change(key, None) for [key] in keys])

    def expire(self) -> None:
        """Revoke what has expired: all leases of an earlier boot, whose times mean nothing now."""
        boot = clock.boot()
        if boot != self._boot:
            self._database.execute("update leases set expires = 0")
            self._database.execute("update state set boot = ?", (boot,))
        for [lease] in self._database.execute("select id from leases where expires <= ?", (self._now,)).fetchall():
            self.revoke(lease)

    def touch(self) -> None:
        """Write something, to see whether that is possible."""
        self.is_probe = True
        self._database.execute("update state set boot = boot")

    def finish(self) -> None:
        """Write the revision and cut the log; the commit is the caller's."""
        if self.revision == self.base:
            return
        self._database.execute("update state set revision = ?", (self.revision,))
        if self.revision // TRIM_EVERY != self.base // TRIM_EVERY:
            self._trim()

    def _trim(self) -> None:
        """Forget whole revisions only: a watcher that has seen a part of one would take it for all."""
        query = "select revision from log order by revision desc, position desc limit 1 offset ?"
        if row := self._database.execute(query, (self._keep,)).fetchone():
            self._database.execute("delete from log where revision <= ?", row)
            self._database.execute("update state set forgotten = ?", row)

    def _item(self, key: str) -> Item | None:
        row = self._database.execute("select value, revision, lease from items where key = ?", (key,)).fetchone()
        return Item(*row) if row else None

    def _check_leases(self, writes: Iterable[Write]) -> None:
        for lease in {write.lease for write in writes if isinstance(write, Put) and write.lease}:
            self._check_lease(lease)

    def _check_lease(self, lease: int) -> None:
        if not self._database.execute("select 1 from leases where id = ?", (lease,)).fetchone():
            raise LeaseGone(f"lease {lease} has expired or was revoked: grant a new one")

    def _effects(self, write: Write) -> list[Change]:
        match write:
            case Put(key, value, lease):
                return [Change(key, Item(value, self.revision + 1, lease))]
            case Delete(key):
                return [Change(key, None)] if self._item(key) else []
            case DeletePrefix(prefix):
                where, bounds = below(prefix)
                rows = self._database.execute(f"select key from items where {where} order by key", bounds)  # noqa: S608
                return [Change(key, None) for [key] in rows.fetchall()]

    def _write(self, effects: Iterable[Change]) -> None:
        """One revision for all of it; none where nothing changes. Deletions may overlap, so each key counts once."""
        changes = tuple({change.key: change for change in effects}.values())
        if not changes:
            return
        self.revision += 1
        self._database.executemany("delete from items where key = ?", [(change.key,) for change in changes if not change.item])
        self._database.executemany(
            "insert or replace into items values (?, ?, ?, ?)",
            [(key, item.value, item.revision, item.lease) for key, item in ((c.key, c.item) for c in changes) if item],
        )
        self._database.executemany(
            "insert into log values (?, ?, ?, ?, ?)",
            [
                (self.revision, position, change.key, item and item.value, item.lease if item else 0)
                for position, change in enumerate(changes)
                for item in [change.item]
            ],
        )
        self.changes.append(Changes(self.revision, changes))


def holds(compare: Compare, item: Item | None) -> bool:
    match compare:
        case Absent():
            return item is None
        case Present():
            return item is not None
        case Unchanged(_, revision):
            return (item.revision if item else 0) == revision
        case ValueIs(_, value):
            return item is not None and item.value == value


def below(prefix: str) -> tuple[str, tuple[str, ...]]:
    """The condition for keys below a prefix, and its parameters."""
    end = prefix_end(prefix)
    return ("key >= ? and key < ?", (prefix, end)) if end else ("key >= ?", (prefix,))
