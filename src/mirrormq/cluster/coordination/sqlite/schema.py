"""The file: its tables, its format, how it is opened. Several processes may open or create it at the same moment.

`items` is what is there, `log` the latest changes (a value of null is a deletion), `state` one row: the revision of the last
change, the last one that the log has forgotten, the last lease given out, and the boot in which leases were written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mirrormq.cluster.coordination import deadlines
from mirrormq.cluster.coordination.errors import CoordinationError, StoreDamaged

from . import clock
from .faults import is_busy, translate

FORMAT: Final = 1
APPLICATION: Final = 0x4D4D5143
"""SQLite's mark for the kind of a file: "MMQC"."""

TABLES: Final = """
create table state (revision integer not null, forgotten integer not null, lease integer not null, boot text not null);
create table items (key text primary key, value text not null, revision integer not null, lease integer not null) without rowid;
create index items_by_lease on items (lease) where lease != 0;
create table log (revision integer not null, position integer not null, key text not null, value text, lease integer not null,
                  primary key (revision, position)) without rowid;
create table leases (id integer primary key, ttl integer not null, expires real not null);
"""


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the file, which is created where it is missing."""
    try:
        return _connect(path)
    except (sqlite3.Error, OSError) as fault:
        raise translate(fault, path) from fault


def _connect(path: Path) -> sqlite3.Connection:
    _make_file(path)
    database = sqlite3.connect(path, timeout=deadlines.OPEN, check_same_thread=False, isolation_level=None)
    try:
        _prepare(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _make_file(path: Path) -> None:
    """It will hold hashes of passwords. A file that is there is not touched: closing it here would drop the locks that this
    process's other connections have on it, and the next process to leave would take the log away from under them."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    _check(database, path)
    _patiently(database, "pragma journal_mode = wal")
    database.execute("pragma synchronous = normal")          # see synced.py
    _patiently(database, "begin immediate")
    try:
        if database.execute("pragma application_id").fetchone()[0] == 0:
            _create(database)
        database.execute("commit")
    except BaseException:
        if database.in_transaction:
            database.execute("rollback")
        raise


def _patiently(database: sqlite3.Connection, statement: str) -> None:
    """SQLite does not wait by itself while another process turns the journal's mode or recovers the file."""
    until = time.monotonic() + deadlines.OPEN
    while True:
        try:
            database.execute(statement)
        except sqlite3.OperationalError as fault:
            if not is_busy(fault) or time.monotonic() > until:
                raise
            time.sleep(deadlines.PAUSE_LONGEST)
        else:
            return


def _check(database: sqlite3.Connection, path: Path) -> None:
    """Refuse what is not ours before anything is written to it. One look: another process may be making the tables just now."""
    database.execute("begin")
    try:
        [application] = database.execute("pragma application_id").fetchone()
        [version] = database.execute("pragma user_version").fetchone()
        [tables] = database.execute("select count(*) from sqlite_master").fetchone()
    finally:
        if database.in_transaction:
            database.execute("rollback")
    if application == 0 and version == 0 and tables == 0:
        return
    if application != APPLICATION:
        raise _not_ours(path)
    if version > FORMAT:
        raise StoreDamaged(f"{path} has format {version}, this release reads up to {FORMAT}: start the release that wrote it, "
                           "or a newer one")


def _not_ours(path: Path) -> CoordinationError:
    return StoreDamaged(f"{path} is a database of another kind: name another file, or move it away")


def _create(database: sqlite3.Connection) -> None:
    for statement in TABLES.split(";"):
        database.execute(statement)
    database.execute("insert into state values (0, 0, 0, ?)", (clock.boot(),))
    database.execute(f"pragma application_id = {APPLICATION}")
    database.execute(f"pragma user_version = {FORMAT}")
