"""Waiting for the other nodes' copies of the store: a client that is answered here may go on at another node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

EVERYONE: Final = 0.5           # seconds that an answer waits for the other nodes' copies
NOBODY: Final = 1 << 62


class Everyone:
    """`applied` tells the revisions that the linked nodes have."""

    def __init__(self, applied: Callable[[], Iterable[int]]) -> None:
        self._applied = applied
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def until(self, revision: int) -> asyncio.Future[None] | None:
        """Nothing to wait for, or what is done when all of them have this revision, or have had time for it."""
        if min(self._applied(), default=NOBODY) >= revision:
            return None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((revision, future))
        loop.call_later(EVERYONE, _done, future)
        return future

    def check(self) -> None:
        """A node has more than before, or is not linked any more."""
        if self._waiting:
            reached = min(self._applied(), default=NOBODY)
            for revision, future in self._waiting:
                if revision <= reached:
                    _done(future)
            self._waiting = [waiting for waiting in self._waiting if not waiting[1].done()]


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
