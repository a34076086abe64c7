"""Whether the store answers, since when, and why not: what a node's failsafe hangs on.

The adapter reports from every call and from its own probe, so the state is right within a few seconds even if nobody asks for
anything. Used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypeAlias

log = logging.getLogger(__name__)

Listener: TypeAlias = "Callable[[Reachability], None]"


class Reachability:
    def __init__(self) -> None:
        self.is_reachable = True
        self.since = time.monotonic()
        self.reason = ""
        self._listeners: list[Listener] = []
        self._reached = asyncio.Event()
        self._reached.set()
        self._missed = asyncio.Event()

    def __str__(self) -> str:
        seconds = time.monotonic() - self.since
        if self.is_reachable:
            return f"reachable for {seconds:.1f} s"
        return f"unreachable for {seconds:.1f} s: {self.reason}"

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call back at each loss and each return; the function returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def wait_lost(self) -> None:
        await self._missed.wait()

    async def wait_reachable(self) -> None:
        await self._reached.wait()

    def lost(self, reason: str) -> None:
        """For the adapter: the store does not answer."""
        self.reason = reason
        if self.is_reachable:
            log.warning("The coordination store is unreachable: %s", reason)
            self._reached.clear()
            self._missed.set()
            self._turn(is_reachable=False)

    def found(self) -> None:
        """For the adapter: the store answered."""
        if not self.is_reachable:
            log.warning("The coordination store answers again after %.1f s", time.monotonic() - self.since)
            self.reason = ""
            self._missed.clear()
            self._reached.set()
            self._turn(is_reachable=True)

    def _turn(self, *, is_reachable: bool) -> None:
        self.is_reachable = is_reachable
        self.since = time.monotonic()
        for listener in list(self._listeners):
            listener(self)
