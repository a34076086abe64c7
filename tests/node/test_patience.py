"""Who waits for proposals without a channel hears of its own, and of nothing else."""

from __future__ import annotations

import asyncio

import pytest

from mirrormq.broker.journal import HELD, LOST, UNHEARD, Proposal
from mirrormq.node.patience import Patience, StoreUnheard


def proposal(number: int, state: int, *, is_stubborn: bool = False) -> Proposal:
    made = Proposal(is_stubborn=is_stubborn)
    made.number, made.state, made.text = number, state, "the store is away"
    return made


async def decided(first: int, last: int, *proposals: Proposal) -> bool:
    patience = Patience()
    waiting = asyncio.create_task(patience.wait(first, last))
    await asyncio.sleep(0)
    for each in proposals:
        patience.settled([each], each.number)
    return await asyncio.wait_for(waiting, 60)


async def test_all_have_held() -> None:
    assert await decided(2, 3, proposal(2, HELD), proposal(3, HELD))


async def test_one_that_was_lost_is_no_success() -> None:
    assert not await decided(2, 3, proposal(2, LOST), proposal(3, HELD))


async def test_one_that_was_not_heard_is_told() -> None:
    with pytest.raises(StoreUnheard, match="the store is away"):
        await decided(2, 3, proposal(2, UNHEARD))


async def test_what_becomes_of_others_does_not_matter() -> None:
    assert await decided(2, 2, proposal(1, UNHEARD), proposal(2, HELD))
    assert await decided(2, 3, proposal(1, LOST), proposal(2, HELD), proposal(3, HELD))
    assert await decided(2, 4, proposal(2, HELD), proposal(3, UNHEARD, is_stubborn=True), proposal(4, HELD))
