"""Whoever is answered may go on at another node: answers wait for the linked nodes' copies of the store, and for nobody else."""

from __future__ import annotations

import asyncio

from mirrormq.cluster.link import deadlines
from mirrormq.node.everyone import EVERYONE, Everyone


async def test_nothing_is_waited_for_that_all_have() -> None:
    assert Everyone(lambda: [7, 8]).until(7) is None
    assert Everyone(list).until(7) is None


async def test_an_answer_waits_for_the_last_of_the_linked_nodes() -> None:
    applied = {"a": 7, "b": 6}
    everyone = Everyone(applied.values)
    waiting = everyone.until(7)
    assert waiting is not None
    everyone.check()
    assert not waiting.done()
    applied["b"] = 7
    everyone.check()
    assert waiting.done()


async def test_a_node_that_is_linked_no_more_is_not_waited_for() -> None:
    applied = {"a": 7, "b": 6}
    everyone = Everyone(applied.values)
    waiting = everyone.until(7)
    assert waiting is not None
    del applied["b"]
    everyone.check()
    assert waiting.done()


async def test_a_node_that_lags_is_waited_for_as_long_as_a_link_may_be_silent() -> None:
    waiting = Everyone(lambda: [6]).until(7)
    assert waiting is not None
    await asyncio.wait_for(waiting, 60)
    assert EVERYONE >= deadlines.SILENCE
