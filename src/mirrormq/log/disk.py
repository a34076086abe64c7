"""The few calls by which the log changes files, in one place so that tests can put a failing disk there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mypy_extensions import mypyc_attr

MAX_BUFFERS: Final = 512


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk:
    def create(self, path: Path) -> int:
        """Open for reading and writing; made if missing, never emptied."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def write(self, fd: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
        """One call's worth, perhaps less than all; returns the bytes written."""
        return os.pwritev(fd, buffers[:MAX_BUFFERS], offset)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def close(self, fd: int) -> None:
        os.close(fd)


def write_all(disk: Disk, fd: int, data: bytes, offset: int) -> None:
    """Every byte of data at offset, however many calls it takes. Safe to repeat."""
    at = 0
    while at < len(data):
        at += disk.write(fd, [memoryview(data)[at:]], offset + at)
