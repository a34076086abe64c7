"""Large bodies are sent in pieces."""

from __future__ import annotations

import asyncio

from mirrormq.admin.pieces import LARGEST, Pieces


def test_nothing_is_lost_and_nothing_is_too_large() -> None:
    parts = [b"a", b"", b"b" * (3 * LARGEST + 1)]

    async def sent() -> list[bytes]:
        return [bytes(piece) async for piece in Pieces(parts)]

    found = asyncio.run(sent())
    assert b"".join(found) == b"".join(parts)
    assert Pieces(parts).size == sum(map(len, found))
    assert max(map(len, found)) == LARGEST


def test_others_have_their_turn_between_two_pieces() -> None:
    turns: list[str] = []

    async def send() -> None:
        async for _ in Pieces([b"x" * LARGEST] * 3):
            turns.append("piece")  # noqa: PERF401 - when it is appended is what counts

    async def other() -> None:
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(send(), other())

    asyncio.run(both())
    assert turns[:6] == ["piece", "other"] * 3
