"""What is read: a snapshot, the log after a revision, and the small look of each tick. Readers never wait for writers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mirrormq.cluster.coordination.errors import StoreDamaged
from mirrormq.cluster.coordination.port import Change, Changes, Item, Snapshot

from . import clock
from .synced import Synced
from .writing import below


@dataclass(frozen=True, slots=True)
class LogPart:
    """All changes below a prefix up to a revision."""

    revision: int
    changes: list[Changes]


class Reading:
    """Owned by the reader's thread."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database = database
        self._path = path
        self._synced = Synced(path)
        self._identity = _identity(path)
        self._version = -1
        self._earliest: float | None = None

    def snapshot(self, prefix: str) -> Snapshot:
        with self._one_state():
            found = self._snapshot(prefix)
        self._synced.reach(found.revision)
        return found

    def after(self, prefix: str, revision: int) -> LogPart | Snapshot:
        """What happened below a prefix since; the whole of it where the log has forgotten."""
        found = self._after(prefix, revision)
        self._synced.reach(found.revision)
        return found

    def close(self) -> None:
        self._synced.close()

    def _after(self, prefix: str, revision: int) -> LogPart | Snapshot:
        with self._one_state():
            current, forgotten = self._database.execute("select revision, forgotten from state").fetchone()
            if revision > current:
                raise StoreDamaged(f"{self._path} is at revision {current} and was at {revision}: it was set back to an earlier "
                                   "state; restart all nodes that use it")
            if revision < forgotten:
                return self._snapshot(prefix)
            return LogPart(current, list(self._changes(prefix, revision)))

    def tick(self) -> tuple[bool, bool]:
        """Whether another connection has written since the last tick, and whether a lease has expired."""
        if _identity(self._path) != self._identity:
            raise StoreDamaged(f"{self._path} was removed or replaced while it was in use: put it back and restart all nodes "
                               "that use it")
        [version] = self._database.execute("pragma data_version").fetchone()
        changed, self._version = version != self._version, version
        if changed:
            [self._earliest] = self._database.execute("select min(expires) from leases").fetchone()
        return changed, self._earliest is not None and self._earliest <= clock.now()

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        self._database.execute("begin")
        try:
            yield
        finally:
            self._database.execute("commit")

    def _snapshot(self, prefix: str) -> Snapshot:
        where, bounds = below(prefix)
        [revision] = self._database.execute("select revision from state").fetchone()
        rows = self._database.execute(f"select key, value, revision, lease from items where {where}", bounds)  # noqa: S608
        return Snapshot(revision, {key: Item(*item) for key, *item in rows})

    def _changes(self, prefix: str, revision: int) -> Iterator[Changes]:
        where, bounds = below(prefix)
        query = f"select revision, key, value, lease from log where revision > ? and {where} order by revision, position"  # noqa: S608
        for number, rows in groupby(self._database.execute(query, (revision, *bounds)), lambda row: int(row[0])):
            yield Changes(number, tuple(_change(*row) for row in rows))


def _change(revision: int, key: str, value: str | None, lease: int) -> Change:
    return Change(key, None if value is None else Item(value, revision, lease))


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116 - by name, as SQLite opened it
    except FileNotFoundError:
        return (0, 0)
    return (status.st_dev, status.st_ino)
