"""After a failover, what was delivered is marked as redelivered, and what nobody could have got is not."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from mirrormq.mirror.deadlines import STOOD_STILL

from .trio import QUEUE, nodes_in, until

MANY = 20


def hold(channel: BlockingChannel, count: int) -> None:
    """Take that many and no more, and go without a word about them."""
    channel.basic_qos(prefetch_count=count)
    for got, _ in enumerate(channel.consume(QUEUE), 1):
        if got == count:
            break


def settle(channel: BlockingChannel, count: int) -> None:
    """Be given that many at once, acknowledge them, and be there no more."""
    for got, (method, _, _) in enumerate(channel.consume(QUEUE), 1):
        channel.basic_ack(method.delivery_tag)
        if got == count:
            break
    channel.cancel()


def marks(channel: BlockingChannel) -> list[bool]:
    taken = []
    while (method := channel.basic_get(QUEUE, auto_ack=True)[0]) is not None:
        taken.append(method.redelivered)
    return taken


@pytest.mark.parametrize("held", [1, 5])
async def test_of_a_backlog_only_what_a_consumer_could_hold_is_marked(tmp_path: Path, held: int) -> None:
    async with nodes_in(tmp_path, "a", "b") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])
        await nodes.publish("a", *[b"%d" % number for number in range(MANY)])
        await nodes.at("a", lambda channel: hold(channel, held))
        await nodes.stop("a")
        await until(lambda: nodes.ring() == ["b"])
        assert await nodes.at("b", marks) == [True] * held + [False] * (MANY - held)


async def test_a_consumer_that_stays_finds_only_what_it_had_marked(tmp_path: Path) -> None:
    holds, has_moved = threading.Event(), threading.Event()

    def stay(channel: BlockingChannel) -> list[bool]:
        """Hold five while the lead moves, settle them, and take what comes then."""
        channel.basic_qos(prefetch_count=5)
        deliveries = channel.consume(QUEUE)
        old = [next(deliveries)[0].delivery_tag for _ in range(5)]
        holds.set()
        has_moved.wait()
        channel.basic_ack(old[-1], multiple=True)
        flags = []
        for method, _, _ in deliveries:
            flags.append(method.redelivered)
            channel.basic_ack(method.delivery_tag)
            if len(flags) == MANY:
                break
        return flags

    async with nodes_in(tmp_path, "a", "b") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])
        await nodes.publish("a", *[b"%d" % number for number in range(MANY)])
        client = asyncio.create_task(nodes.at("b", stay))
        await asyncio.to_thread(holds.wait)
        await nodes.stop("a")
        await until(lambda: nodes.ring() == ["b"])
        has_moved.set()
        assert await client == [True] * 5 + [False] * (MANY - 5)


async def test_what_comes_when_the_consumers_are_gone_is_not_marked(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, "a", "b") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])
        await nodes.publish("a", *[b"%d" % number for number in range(MANY)])
        await nodes.at("a", lambda channel: settle(channel, MANY))
        await nodes.publish("a", *[b"%d" % number for number in range(MANY)])
        await nodes.stop("a")
        await until(lambda: nodes.ring() == ["b"])
        assert await nodes.at("b", marks) == [False] * MANY


async def test_who_stood_still_delivers_again_when_the_store_has_said_that_it_leads(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, "a", "b") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])
        await nodes.publish("a", *[b"%d" % number for number in range(MANY)])
        time.sleep(STOOD_STILL * 1.1)  # noqa: ASYNC251 - the loop stands still
        assert await nodes.at("b", marks) == [False] * MANY
        holding = nodes.holding("a")
        assert holding is not None
        assert holding.doubts
