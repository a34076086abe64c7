"""A queue whose only copy in sync is out of reach: it waits, says for whom, and can be deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import rmtree

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from .trio import QUEUE, Nodes, nodes_in, until


@asynccontextmanager
async def waiting(directory: Path) -> AsyncIterator[Nodes]:
    """a led and is down; b is a mirror that was never synchronised; c holds nothing."""
    async with nodes_in(directory, "a", "b", "c") as nodes:
        await nodes.publish("a", b"1", b"2")
        await nodes.want(ha_mode="nodes", ha_params=["a@localhost", "b@localhost"], ha_sync_mode="manual")
        await until(lambda: nodes.ring() == ["a"] and nodes.holding("b") is not None)
        await nodes.stop("a")
        await until(lambda: all(nodes.is_hopeless(name) for name in ("b", "c")))
        yield nodes


def refusal(channel: BlockingChannel) -> int:
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_delete(QUEUE, if_empty=True)
    return int(refused.value.reply_code)


def refusal_to_count(channel: BlockingChannel) -> str:
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_declare(QUEUE, passive=True)
    return str(refused.value.reply_text)


@pytest.mark.parametrize("node", ["b", "c"])
async def test_it_is_deleted_by_a_client(tmp_path: Path, node: str) -> None:
    async with waiting(tmp_path) as nodes:
        assert await nodes.at(node, refusal) == 406
        await nodes.at(node, lambda channel: channel.queue_delete(QUEUE, if_unused=True))
        await until(lambda: nodes.front("b") is None and nodes.front("c") is None)
        await nodes.start("a")
        assert nodes.front("a") is None


async def test_it_is_deleted_by_the_api(tmp_path: Path) -> None:
    async with waiting(tmp_path) as nodes:
        status, refused = await nodes.api("c", "DELETE", "?if-empty=true")
        assert (status, refused["reason"]) == (400, "queue 'q' in vhost '/' not empty")
        assert await nodes.api("c", "DELETE", "") == (204, None)
        assert (await nodes.api("c", "GET", ""))[0] == 404


@pytest.mark.parametrize("node", ["b", "c"])
async def test_every_node_says_for_whom_it_waits(tmp_path: Path, node: str) -> None:
    sentence = "waiting for a@localhost: only it holds everything that was confirmed, b@localhost not in sync"
    async with waiting(tmp_path) as nodes:
        _, row = await nodes.api(node, "GET", "")
        assert (row["state"], row["waits_for"], row["reason"]) == ("down", ["a@localhost"], sentence)
        assert (row["policy"], row["slave_nodes"], row["synchronised_slave_nodes"]) == ("mirrored", ["b@localhost"], [])
        status, ring = await nodes.api(node, "GET", "/ring")
        assert (status, ring["sentence"], ring["policy"]) == (200, sentence, "mirrored")
        assert [(member["node"], member["is_linked"]) for member in ring["members"] + ring["learners"]] == [
            ("a@localhost", False), ("b@localhost", True)]
        assert await nodes.api(node, "GET", "/quarantine") == (200, [])
        reply = await nodes.at(node, refusal_to_count)
        assert reply == f"NOT_FOUND - queue 'q' in vhost '/' is {sentence}"


@asynccontextmanager
async def bereft(directory: Path) -> AsyncIterator[Nodes]:
    """As above, but a has come back without its data directory."""
    async with waiting(directory) as nodes:
        rmtree(directory / "a")
        await nodes.start("a")
        await until(lambda: not any(nodes.is_hopeless(name) for name in ("b", "c")))
        yield nodes


@pytest.mark.parametrize("node", ["a", "c"])
async def test_a_queue_whose_only_copy_is_lost_says_so_and_is_deleted(tmp_path: Path, node: str) -> None:
    """Its leader's node is up, so clients do not count it as out of reach."""
    async with bereft(tmp_path) as nodes:
        reply = await nodes.at(node, refusal_to_count)
        assert reply == ("NOT_FOUND - queue 'q' in vhost '/' is not served: a@localhost has lost its copy, and no other node "
                         "was in sync: restore its files, or delete the queue")
        with pytest.raises(NackError):
            await nodes.publish(node, b"3")
        assert await nodes.at(node, refusal) == 406
        await nodes.at(node, lambda channel: channel.queue_delete(QUEUE))
        await nodes.at(node, lambda channel: channel.queue_declare(QUEUE, durable=True))
        await nodes.publish("b", b"4")
        assert await nodes.count("c") == 1


async def test_a_client_that_waits_for_a_queue_is_told_when_its_only_copy_is_lost(tmp_path: Path) -> None:
    """The client asks while the node is starting: nobody knows yet that the copy is gone."""
    async with waiting(tmp_path) as nodes:
        rmtree(tmp_path / "a")
        start = asyncio.create_task(nodes.start("a"))
        await until(lambda: not nodes.is_hopeless("b"))
        assert "has lost its copy" in await nodes.at("b", refusal_to_count)
        await start
