"""A disk and a syncer that fail on demand."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence

from mirrormq.log.disk import Disk
from mirrormq.log.helper import sync_all
from mirrormq.log.syncer import Callback, Syncer


class FailingDisk(Disk):
    """Writes fail while `error` is set; with `partly`, after some of the bytes."""

    def __init__(self) -> None:
        self.error = 0
        self.partly = 0
        self.refused = 0

    def write(self, fd: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
        if self.error:
            if self.partly:
                room, self.partly = self.partly, 0
                return os.pwrite(fd, b"".join(buffers)[:room], offset)
            self.refused += 1
            raise OSError(self.error, os.strerror(self.error))
        return super().write(fd, buffers, offset)


class FailingSyncer(Syncer):
    """Syncs fail, and lose what they were for, as often as `failures` says."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.failures = 0
        self.requests = 0

    def sync(self, fds: list[int], kinds: bytes, callback: Callback) -> None:
        self.requests += 1
        if self.failures:
            self.failures -= 1
            self.loop.call_soon(callback, (0, errno.EIO, "Input/output error"))
        else:
            self.loop.call_soon(callback, sync_all(fds, kinds))

    def close(self) -> None:
        pass
