"""How far the file is on the disk, as all processes know that share it.

Where SQLite is told to sync each commit, it keeps its write lock meanwhile, and a process that is frozen then keeps all others
from writing. So it is told not to (`synchronous = normal`): the lock is held for a fraction of a millisecond, and the sync comes
after it.

Rules
 1. Whoever commits syncs SQLite's log before anybody hears of the commit.
 2. Whoever reads what may not be synced yet, because its author was frozen or is not that far, syncs it before it is handed out.
    So nobody acts on what a power failure could take back.
 3. The newest revision that is known to be synced stands in the file `-turn`, so that each is synced once. Every process that
    opens the store forgets it first: it may be of another life of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

SIZE: Final = 8


class Synced:
    def __init__(self, path: Path, sync: Callable[[int], None] = os.fdatasync) -> None:
        self._log = Path(f"{path}-wal")
        self._inode = 0             # of the log that has its name on the disk
        self._sync = sync
        self._file = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._note(0)

    def reach(self, revision: int, *, anyway: bool = False) -> None:
        """Have everything up to this revision on the disk. Raises OSError."""
        if not anyway and self._noted() >= revision:
            return
        log = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._sync(log)
            self._name(os.fstat(log).st_ino)
        finally:
            os.close(log)
        self._note(revision)

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
        return int.from_bytes(os.pread(self._file, SIZE, 0), "little")

    def _note(self, revision: int) -> None:
        os.pwrite(self._file, revision.to_bytes(SIZE, "little"), 0)
