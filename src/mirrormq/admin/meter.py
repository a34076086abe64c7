"""How much a node gives out to those who follow its logs: so many at a time, so many bytes a second."""

from __future__ import annotations

import asyncio
import time
from typing import Final

MAX_READERS: Final = 4


class Meter:
    """At most `rate` bytes a second on average; who comes too early waits."""

    def __init__(self) -> None:
        self.readers = asyncio.Semaphore(MAX_READERS)
        self._free_at = 0.0

    async def take(self, size: int, rate: object) -> None:
        if not isinstance(rate, int) or isinstance(rate, bool) or rate <= 0:
            return
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + size / rate
        await asyncio.sleep(self._free_at - now)
