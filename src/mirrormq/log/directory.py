"""The store's directory: who has it, and which format it has. Compiled."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from mirrormq.log.disk import Disk, write_all
from mirrormq.log.errors import FormatRefused, LogError

FORMAT: Final = 2
LOCK_SECONDS: Final = 30.0
DYING_SECONDS: Final = 1.0  # a killed process may take so long to be gone
LOCK_POLL_SECONDS: Final = 0.02


def lock(directory: Path) -> int:
    """Take the directory for this process; returns the descriptor that holds it, raises LogError where another has it.

    The worker's helper process holds the same lock. When a node was killed, its helper may still be at a job; nothing may be
    touched before it has ended, which it does by itself.
    """
    path = directory / "LOCK"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    started = time.monotonic()
    while not _try_lock(fd):
        waited = time.monotonic() - started
        if waited > LOCK_SECONDS or (waited > DYING_SECONDS and _is_alive(path)):
            os.close(fd)
            raise LogError(f"{directory} is in use by another process; stop it first")
        time.sleep(LOCK_POLL_SECONDS)
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_alive(path: Path) -> bool:
    """Is the process that took the lock still there?"""
    text = path.read_text().strip()
    if not text.isdigit():
        return False
    try:
        os.kill(int(text), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(text)


def _is_zombie(pid: str) -> bool:
    """Killed, but its parent has not asked after it yet."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return False


def is_blank(directory: Path) -> bool:
    """Was it never made ready, or emptied since?"""
    return not (directory / "FORMAT").exists()


def prepare(directory: Path, disk: Disk) -> None:
    """Make what a new directory needs, durably, and refuse one of a newer format."""
    path = directory / "FORMAT"
    if path.exists():
        _check_format(directory, path.read_text().strip())
    (directory / "wal").mkdir(exist_ok=True)
    (directory / "queues").mkdir(exist_ok=True)
    if not path.exists() or path.read_text().strip() != str(FORMAT):
        # What is written from now on an older program would misread; what it wrote is read as it is.
        _write_format(path, disk)
        disk.sync_directory(directory)
        disk.sync_directory(directory.parent)


def _write_format(path: Path, disk: Disk) -> None:
    """Whole or not at all: half a file would be refused."""
    unfinished = path.with_suffix(".new")
    fd = disk.create(unfinished)
    try:
        write_all(disk, fd, b"%d\n" % FORMAT, 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.rename(unfinished, path)


def _check_format(directory: Path, text: str) -> None:
    if not text.isdigit():
        raise FormatRefused(f"{directory / 'FORMAT'} says {text!r}, which is no format version; is it a data directory?")
    if int(text) > FORMAT:
        raise FormatRefused(
            f"{directory} has format version {text}, this program reads up to version {FORMAT}; use a newer program"
        )
