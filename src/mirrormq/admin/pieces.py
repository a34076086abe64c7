"""A large body that is sent piece by piece, and between two of them the loop does what else there is to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

LARGEST: Final = 64 << 10


class Pieces:
    """Bytes in parts of any size; what is too large is cut."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.size = sum(map(len, pieces))

    async def __aiter__(self) -> AsyncIterator[memoryview]:
        for piece in self._pieces:
            view = memoryview(piece)
            for at in range(0, len(view), LARGEST):
                yield view[at : at + LARGEST]
                await asyncio.sleep(0)
