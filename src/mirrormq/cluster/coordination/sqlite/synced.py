"""How far the file is on the disk, as all processes know that share it.

Where SQLite is told to sync each commit, it keeps its write lock meanwhile, and a process that is frozen then keeps all others
from writing. So it is told not to (`synchronous = normal`): the lock is held for a fraction of a millisecond, and the sync comes
after it.

Rules
 1. Whoever commits syncs SQLite's log before anybody hears of the commit.
 2. Whoever reads what may not be synced yet, because its author was frozen or is not that far, syncs it before it is handed out.
    So nobody acts on what a power failure could take back.
 3. The newest revision that is known to be synced stands in the file `-turn`, so that each is synced once. Every process that
    opens the store forgets it first: it may be of another life of the file. The note names the file it is about, because a
    process that was frozen may write it after the file was replaced.
 4. After a sync that failed, the system takes the pages for clean, and the next sync would succeed without them. So the failure
    is marked beside the note, and whoever syncs next writes the log's bytes anew before, while nobody else writes.

    -turn    revision u64, inode of the store u64, whether a sync has failed u8
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final

from mirrormq.cluster.coordination import deadlines

NOTE: Final = Struct("<QQ")
PIECE: Final = 1 << 20


class Synced:
    def __init__(self, path: Path, sync: Callable[[int], None] = os.fdatasync) -> None:
        self._path = path
        self._log = Path(f"{path}-wal")
        self._inode = 0             # of the log that has its name on the disk
        self._sync = sync
        self._life = os.stat(path).st_ino  # noqa: PTH116 - by name, as SQLite opened it
        self._file = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._note(0)
            if os.fstat(self._file).st_size == NOTE.size:
                self._mark(has_failed=False)       # now, since a full disk would refuse it later
        except BaseException:
            self.close()
            raise

    def reach(self, revision: int, *, anyway: bool = False) -> None:
        """Have everything up to this revision on the disk. Raises OSError, and SQLite's errors."""
        if not anyway and self._noted() >= revision:
            return
        if self._has_failed():
            self._write_anew()
        else:
            self._sync_log()
        self._note(revision)

    def doubt(self) -> None:
        """The disk has refused something of the log."""
        self._mark(has_failed=True)

    def _sync_log(self) -> None:
        log = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._sync_file(log)
        finally:
            os.close(log)

    def _sync_file(self, log: int) -> None:
        try:
            self._sync(log)
        except OSError:
            self.doubt()
            raise
        self._name(os.fstat(log).st_ino)

    def _write_anew(self) -> None:
        """SQLite's write lock keeps the log as it is meanwhile; who reads finds the same bytes."""
        database = sqlite3.connect(self._path, timeout=deadlines.LOCK, isolation_level=None)
        try:
            database.execute("begin immediate")
            log = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
            try:
                _rewrite(log)
                self._sync_file(log)
            finally:
                os.close(log)
            self._mark(has_failed=False)
        finally:
            database.close()

    def _name(self, inode: int) -> None:
        """SQLite makes its log when the file is first opened, and the name has to be on the disk, too."""
        if inode != self._inode:
            directory = os.open(self._log.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
            self._inode = inode

    def close(self) -> None:
        os.close(self._file)

    def _noted(self) -> int:
        note = os.pread(self._file, NOTE.size, 0)
        revision, life = NOTE.unpack(note) if len(note) == NOTE.size else (0, 0)
        return int(revision) if life == self._life else 0

    def _note(self, revision: int) -> None:
        os.pwrite(self._file, NOTE.pack(revision, self._life), 0)

    def _has_failed(self) -> bool:
        return os.pread(self._file, 1, NOTE.size) == b"\1"

    def _mark(self, *, has_failed: bool) -> None:
        os.pwrite(self._file, b"\1" if has_failed else b"\0", NOTE.size)


def _rewrite(file: int) -> None:
    offset = 0
    while piece := os.pread(file, PIECE, offset):
        rest = memoryview(piece)
        while rest:
            written = os.pwrite(file, rest, offset)
            offset += written
            rest = rest[written:]
