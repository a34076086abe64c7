"""The data directory as a whole: one process has it, and a reset empties it.

Rules
 1. Whoever holds the lock has the directory, for as long as the process lives: also while the node's application is stopped.
 2. A reset removes only what a node has made. A directory that somebody chose by mistake keeps everything else.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import IO, Final

from mirrormq.cluster import keepsake, membership
from mirrormq.node import clock, undo_list

LOCK: Final = "lock"
STORE: Final = "cluster.sqlite"
OURS: Final = ("log", membership.PULSE, undo_list.FILE, Path(undo_list.FILE).with_suffix(".new").name,
               keepsake.FILE, Path(keepsake.FILE).with_suffix(".new").name, clock.FILE, Path(clock.FILE).with_suffix(".new").name)


class DirectoryTaken(Exception):
    """Another process has the directory, or it cannot be used; the sentence says what to do."""


def take(directory: Path) -> IO[str]:
    """The lock of the directory, which is made where it is missing. It ends with the process, or when it is closed."""
    try:
        _make(directory)
        lock = (directory / LOCK).open("w")
    except OSError as fault:
        raise DirectoryTaken(f"the data directory {directory} cannot be used ({fault.strerror}): choose another with "
                             "--data-dir, or make it writable") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise DirectoryTaken(f"another process uses {directory}: stop it, or give this node another directory "
                             "with --data-dir") from None
    return lock


def _make(directory: Path) -> None:
    """A name is on the disk when the directory that has it is. Before, a loss of power takes all confirmed messages along."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for each in missing:
        keepsake.sync_directory(each.parent)


def empty(directory: Path) -> None:
    """Remove everything that a node keeps, but not the store: other nodes may use it."""
    for name in OURS:
        _remove(directory / name)


def remove_store(path: Path) -> None:
    """A store in a file, with the files that belong to it."""
    for suffix in ("", "-wal", "-shm", "-turn", "-bells"):
        _remove(Path(f"{path}{suffix}"))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
