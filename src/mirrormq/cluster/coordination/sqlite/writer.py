"""The writer's thread: one SQLite transaction for all that has gathered while the last one was synced.

After the commit and its sync it rings the other processes' bells, and hands what it has written to the event loop before any
caller hears of its success: so a node's own watches have a change when its author is answered.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from mirrormq.cluster.coordination.errors import CoordinationError, OutcomeUnknown
from mirrormq.cluster.coordination.port import Changes

from .bells import Bells
from .faults import translate
from .schema import connect
from .synced import Synced
from .turn import Turn
from .worker import Job, Worker
from .writing import Writing

BATCH: Final = 1000
"""Transactions of the port in one of SQLite: the others wait for their turn meanwhile."""

Committed: TypeAlias = Callable[[int, int, Sequence[Changes]], None]


class Writer:
    def __init__(self, path: Path, bells: Bells, keep: int, committed: Committed) -> None:
        """`committed` is called in the event loop with the revisions before and after, and the changes between."""
        self._path = path
        self._bells = bells
        self._keep = keep
        self._committed = committed
        self._database: sqlite3.Connection | None = None
        self._turn: Turn | None = None
        self._synced: Synced | None = None
        self.worker: Worker[Writing] = Worker("coordination-writer", self._handle, BATCH)

    def _handle(self, jobs: list[Job[Writing, Any]]) -> None:
        writing: Writing | None = None
        try:
            writing, begun = self._transact(jobs)
        except CoordinationError as fault:
            begun = [job for job in jobs if job.is_begun or job.claim()]
            for job in begun:
                job.fail(fault)
        if writing and writing.changes:
            with suppress(OSError):
                self._bells.ring()
        self.worker.tell(lambda: self._publish(writing, begun))

    def _publish(self, writing: Writing | None, jobs: Sequence[Job[Writing, Any]]) -> None:
        if writing and writing.changes:
            self._committed(writing.base, writing.revision, writing.changes)
        for job in jobs:
            job.publish()

    def _transact(self, jobs: Sequence[Job[Writing, Any]]) -> tuple[Writing, list[Job[Writing, Any]]]:
        try:
            database = self._begin()
        except (sqlite3.Error, OSError) as fault:
            raise translate(fault, self._path) from fault
        try:
            writing = Writing(database, self._keep)
            writing.expire()
            begun = [job for job in jobs if job.claim()]
            for job in begun:
                job.run(writing, CoordinationError)
            writing.finish()
        except BaseException as fault:
            _roll_back(database)
            if isinstance(fault, sqlite3.Error):
                raise translate(fault, self._path) from fault
            raise
        self._commit(database, writing)
        return writing, begun

    def _begin(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = connect(self._path)
            self._database.execute("pragma busy_timeout = 0")
        if self._turn is None:
            self._turn = Turn(self._path)
        if self._synced is None:
            self._synced = Synced(self._path)
        self._turn.begin(self._database)
        return self._database

    def _commit(self, database: sqlite3.Connection, writing: Writing) -> None:
        """What a failing disk has of a commit shows only when the file is read anew after a crash. What a transaction has found
        that did not hold is told as well, so it has to be synced, too."""
        assert self._synced is not None
        try:
            database.execute("commit")
            self._synced.reach(writing.revision, anyway=writing.is_probe)
        except (sqlite3.Error, OSError) as fault:
            _roll_back(database)
            with suppress(OSError):
                self._synced.doubt()
            raise OutcomeUnknown(f"{translate(fault, self._path)}; whether this change is stored is not known") from fault

    async def close(self, deadline: float) -> None:
        await self.worker.close(deadline)
        if self.worker.has_ended:
            if self._database is not None:
                self._database.close()
            if self._turn is not None:
                self._turn.close()
            if self._synced is not None:
                self._synced.close()


def _roll_back(database: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        if database.in_transaction:
            database.execute("rollback")
