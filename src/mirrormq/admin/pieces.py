"""A large body that is sent piece by piece, and between two of them the loop does what else there is to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator


class Pieces:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.size = sum(map(len, pieces))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
            await asyncio.sleep(0)
