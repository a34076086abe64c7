"""The node's records (queues, exchanges, users, policies …) in an SQLite file.

Changes are committed by draining: while one transaction is written in a thread, what arrives is gathered for the next. The broker
is told how many of its changes are stable, in order.
"""
from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

FORMAT: Final = 1
RETRY: Final = 0.5          # seconds; a full or failing disk is asked again, nothing is dropped meanwhile

Change = tuple[str, str | None]


class MetaStoreError(Exception):
    """The records cannot be used; the sentence says what to do."""


class MetaStore:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "records")
        self._gathered: list[Change] = []
        self._counted = 0
        self._task: asyncio.Task[None] | None = None
        self._database: sqlite3.Connection | None = None

    def open(self) -> dict[str, str]:
        """Open or create the file and return all records."""
        try:
            database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            database.execute("pragma journal_mode = wal")
            database.execute("pragma synchronous = full")
            version = database.execute("pragma user_version").fetchone()[0]
            if version > FORMAT:
                raise MetaStoreError(f"{self._path} has format {version}, this release reads up to {FORMAT}: "
                                     "start the release that wrote it, or a newer one")
            database.execute("create table if not exists records (name text primary key, value text not null) without rowid")
            database.execute(f"pragma user_version = {FORMAT}")
            records = dict(database.execute("select name, value from records"))
        except sqlite3.DatabaseError as fault:
            raise MetaStoreError(f"{self._path} cannot be read ({fault}): restore it from a backup, or move the data "
                                 "directory away to start empty") from fault
        self._database = database
        return records

    def commit_later(self, changes: list[Change], stable: Callable[[int], None], fault: Callable[[str | None], None]) -> None:
        """Write these changes after all earlier ones; `stable` hears the number of changes written so far."""
        self._gathered += changes
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain(stable, fault))

    async def _drain(self, stable: Callable[[int], None], fault: Callable[[str | None], None]) -> None:
        loop = asyncio.get_running_loop()
        while self._gathered:
            batch, self._gathered = self._gathered, []
            while True:
                try:
                    await loop.run_in_executor(self._thread, self._write, batch)
                    fault(None)
                    break
                except sqlite3.OperationalError as problem:
                    fault(f"records cannot be written to {self._path}: {problem}")
                    await asyncio.sleep(RETRY)
            self._counted += len(batch)
            stable(self._counted)
        self._task = None

    def _write(self, batch: list[Change]) -> None:
        database = self._database
        assert database is not None
        database.execute("begin immediate")
        try:
            for name, value in batch:
                if value is None:
                    database.execute("delete from records where name = ?", (name,))
                else:
                    database.execute("insert or replace into records values (?, ?)", (name, value))
            database.execute("commit")
        except BaseException:
            if database.in_transaction:
                database.execute("rollback")
            raise

    async def close(self) -> None:
        if self._task is not None:
            await self._task
        if self._database is not None:
            self._database.close()
        self._thread.shutdown()
