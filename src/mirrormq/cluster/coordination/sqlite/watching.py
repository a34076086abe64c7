"""A watch of the file: fed directly with what this process commits, and from the log with what others do.

`seen` is the revision up to which nothing is missing in what was handed out or is pending. A commit whose predecessor is `seen`
is appended; anything else means that there are changes which are only in the log, and the watch reads them when it is next asked.
What arrives twice is recognised by its revision. A watch that nobody asks keeps little: beyond LARGEST it forgets and reads the
log later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from mirrormq.cluster.coordination import deadlines
from mirrormq.cluster.coordination.errors import Closed, CoordinationError, StoreDamaged, Unreachable
from mirrormq.cluster.coordination.port import Change, Changes, Reset, Snapshot, Watch

from .reading import LogPart

LARGEST: Final = 20_000
"""Changes that may be pending."""

ReadLog: TypeAlias = Callable[[str, int], Awaitable[LogPart | Snapshot]]


class FileWatch(Watch):
    def __init__(self, prefix: str, after: int, read: ReadLog, forget: Callable[[FileWatch], None]) -> None:
        self._prefix = prefix
        self._read = read
        self._forget = forget
        self._seen = self._handed = after
        self._pending: list[Change] = []
        self._is_behind = True
        self._is_closed = False
        self._fault: CoordinationError | None = None
        self._wake = asyncio.Event()

    async def __anext__(self) -> Changes | Reset:
        while not self._is_closed:
            if self._fault is not None:
                raise self._fault
            if self._pending:
                return self._hand_out()
            if not self._is_behind:
                await self._sleep()
            elif reset := await self._catch_up():
                return reset
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.end()
        self._forget(self)

    def end(self) -> None:
        self._is_closed = True
        self._wake.set()

    def fail(self, fault: CoordinationError) -> None:
        self._fault = fault
        self._wake.set()

    def stir(self) -> None:
        """Someone else may have written."""
        self._is_behind = True
        self._wake.set()

    def feed(self, base: int, revision: int, committed: Sequence[Changes]) -> None:
        """This process has committed these, right after `base`."""
        if base > self._seen:
            self.stir()
            return
        self._append(revision, committed)
        if len(self._pending) > LARGEST:
            self._drop()
        if self._pending:
            self._wake.set()

    def _append(self, revision: int, committed: Sequence[Changes]) -> None:
        for part in committed:
            if part.revision > self._seen:
                self._pending += [change for change in part.changes if change.key.startswith(self._prefix)]
        self._seen = max(self._seen, revision)
        if not self._pending:
            self._handed = self._seen

    def _drop(self) -> None:
        """The log has it all: go back to what was handed out."""
        self._pending.clear()
        self._seen = self._handed
        self._is_behind = True

    def _hand_out(self) -> Changes:
        pending, self._pending = self._pending, []
        self._handed = self._seen
        return Changes(self._seen, tuple(pending))

    async def _sleep(self) -> None:
        self._wake.clear()
        await self._wake.wait()

    async def _catch_up(self) -> Reset | None:
        """The mark is taken away before the read, so that one set during it stays; without a result it is put back."""
        self._is_behind = False
        try:
            part = await self._read(self._prefix, self._seen)
        except asyncio.CancelledError:
            self._is_behind = True
            raise
        except Unreachable:
            self._is_behind = True
            await asyncio.sleep(deadlines.RETRY)
            return None
        except Closed:
            self.end()
            return None
        except StoreDamaged as fault:
            self._fault = fault
            return None
        return self._take(part)

    def _take(self, part: LogPart | Snapshot) -> Reset | None:
        # While the log was read, commits of our own may have been appended: they make an older part useless.
        if part.revision <= self._seen:
            return None
        if isinstance(part, Snapshot):
            self._pending.clear()
            self._seen = self._handed = part.revision
            return Reset(part)
        self._append(part.revision, part.changes)
        return None
