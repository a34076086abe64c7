"""Whose turn it is to write, among processes that share a file.

SQLite's own waiting is unfair: a process that commits all the time takes the lock again before another wakes. So whoever wants
to write stands first in a queue of one place, a file lock, and leaves it when it has the write lock: the one that has just
written finds the place taken, and waits. Locks of a killed process are gone with it. A frozen one keeps them: at the queue the
others lose patience and go past it; the write lock itself they can only give up on.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from mirrormq.cluster.coordination import deadlines

from .faults import is_busy


class Turn:
    def __init__(self, path: Path) -> None:
        self._file = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def begin(self, database: sqlite3.Connection) -> None:
        """Begin a write transaction; raises SQLite's own error when the lock is not to be had."""
        until = time.monotonic() + deadlines.LOCK
        queued = _until(self._stand, time.monotonic() + deadlines.TURN)
        try:
            if not _until(lambda: _begin(database), until):
                database.execute("begin immediate")
        finally:
            if queued:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _stand(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        os.close(self._file)


def _begin(database: sqlite3.Connection) -> bool:
    try:
        database.execute("begin immediate")
    except sqlite3.OperationalError as fault:
        if is_busy(fault):
            return False
        raise
    return True


def _until(attempt: Callable[[], bool], until: float) -> bool:
    """Try, with growing pauses, until it succeeds or the time is over."""
    pause = deadlines.PAUSE_SHORTEST
    while not attempt():
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(pause * 1.2, deadlines.PAUSE_LONGEST)
    return True
