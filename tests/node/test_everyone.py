"""Answers wait for the other nodes' copies, and for a node that gets no further once alone."""

from __future__ import annotations

import asyncio

from mirrormq.cluster.link.deadlines import SILENCE
from mirrormq.node.everyone import EVERYONE, Everyone

NEVER = 3600.0      # seconds of patience


async def test_an_answer_waits_until_all_have_what_it_is_about() -> None:
    applied = {"b": 4, "c": 5}
    everyone = Everyone(applied.values, NEVER)
    assert everyone.until(4) is None
    waiting = everyone.until(5)
    assert waiting is not None
    everyone.check()
    assert not waiting.done()
    applied["b"] = 5
    everyone.check()
    assert waiting.done()


async def test_a_node_that_is_gone_is_not_waited_for() -> None:
    applied = {"b": 4, "c": 5}
    everyone = Everyone(applied.values, NEVER)
    waiting = everyone.until(5)
    assert waiting is not None
    del applied["b"]
    everyone.check()
    assert waiting.done()


async def test_a_node_that_gets_no_further_is_waited_for_once_and_again_when_it_has_gone_on() -> None:
    applied = {"b": 4, "c": 9}
    everyone = Everyone(applied.values, 0.0)
    first = everyone.until(5)
    assert first is not None
    await asyncio.wait_for(first, 30)
    assert everyone.until(6) is None
    applied["b"] = 5
    assert everyone.until(6) is not None
    applied["c"] = 3
    assert everyone.until(4) is None, "it had less than that one: its link is new, or it cannot follow either"


async def test_who_waits_at_the_same_time_is_let_go_together() -> None:
    applied = {"b": 4}
    everyone = Everyone(applied.values, 0.0)
    waiting = [everyone.until(revision) for revision in (5, 6)]
    for future in waiting:
        assert future is not None
        await asyncio.wait_for(future, 30)


def test_a_frozen_node_loses_its_link_before_it_is_given_up() -> None:
    assert EVERYONE > SILENCE
