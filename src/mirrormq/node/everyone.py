"""Waiting for the other nodes' copies of the store: a client that is answered here may go on at another node.

Rules
 1. An answer waits until every linked node has what it is about. A node that is frozen loses its link first.
 2. One that is linked and gets no further for EVERYONE seconds, as where it cannot reach the store, is waited for no more until
    its copy has changed: it costs that long once, and not every answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

EVERYONE: Final = 2.5           # seconds that an answer waits for the other nodes' copies: longer than the silence of a link
NOBODY: Final = 1 << 62
NOTHING: Final = -1             # less than any copy has


class Everyone:
    """`applied` tells the revisions that the linked nodes have."""

    def __init__(self, applied: Callable[[], Iterable[int]], patience: float = EVERYONE) -> None:
        self._applied = applied
        self._patience = patience
        self._given_up = NOTHING        # who has this or less is not waited for
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def until(self, revision: int) -> asyncio.Future[None] | None:
        """Nothing to wait for, or what is done when all of them have this revision, or have had time for it."""
        if self._reached() >= revision:
            return None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((revision, future))
        loop.call_later(self._patience, self._give_up, revision, future)
        return future

    def check(self) -> None:
        """A node has more than before, or is not linked any more."""
        if self._waiting:
            reached = self._reached()
            for revision, future in self._waiting:
                if revision <= reached:
                    _done(future)
            self._waiting = [waiting for waiting in self._waiting if not waiting[1].done()]

    def _reached(self) -> int:
        return min((revision for revision in self._applied() if revision > self._given_up), default=NOBODY)

    def _give_up(self, revision: int, future: asyncio.Future[None]) -> None:
        if not future.done():
            self._given_up = max((applied for applied in self._applied() if applied < revision), default=self._given_up)
            _done(future)
            self.check()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
