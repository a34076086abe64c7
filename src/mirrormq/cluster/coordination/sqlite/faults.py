"""SQLite's errors and the system's, as the port's own, with a sentence each."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from mirrormq.cluster.coordination.errors import CoordinationError, StoreDamaged, Unreachable

DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT", "SQLITE_SCHEMA")


def is_busy(fault: sqlite3.Error) -> bool:
    return name_of(fault).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def name_of(fault: sqlite3.Error) -> str:
    return str(getattr(fault, "sqlite_errorname", ""))


def translate(fault: sqlite3.Error | OSError, path: Path) -> CoordinationError:
    """What happened and what to do; for calls that changed nothing."""
    if isinstance(fault, OSError):
        return Unreachable(f"{path} cannot be used ({fault.strerror}): {_advice(fault)}")
    name = name_of(fault)
    if name.startswith(DAMAGED) or (not name and "no such" in str(fault)):
        return StoreDamaged(f"{path} is damaged or no store of this kind ({fault}): stop all nodes that use it and restore it "
                            "from a backup, or move it away to start empty")
    if is_busy(fault):
        return Unreachable(f"another process holds {path} locked: continue or end the process that is frozen")
    if name.startswith("SQLITE_FULL"):
        return Unreachable(f"{path} cannot be written, the disk is full: free some space")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return Unreachable(f"{path} cannot be opened or written ({fault}): look at the directory and its permissions")
    return Unreachable(f"{path} cannot be used ({fault}): look at the disk and the system's log")


def _advice(fault: OSError) -> str:
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space"
    if fault.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files"
    return "look at the directory and its permissions"
