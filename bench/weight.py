"""`make bench ARGS=--weight`: what a node weighs, in memory and in processor time.

- With a backlog: ten million persistent messages of 100 bytes in one queue. The memory above that of the empty node, how soon the
  first message is had when the node was killed and started again, and whether all come out, once and in order.
- With a crowd: durable queues and connections with a channel and heartbeats, with which nothing happens. What one of each takes,
  and which part of a core the node uses meanwhile.

Memory is what the node and its helper processes have in memory, added up.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika

from mirrormq.cli.perf.address import parse_address
from mirrormq.cli.perf.client import Client
from mirrormq.wire.methods import QueueDeclare
from node import Node
from processes import Failed, resident_of, seconds_of

QUEUES, CONNECTIONS = 10_000, 2_000
SMALL = 20          # times fewer of both, where the backlog is small
HEARTBEAT = 60
IDLE_SECONDS = 60.0
SETTLE_SECONDS = 5.0
AT_ONCE = 50        # connections that are opened side by side
FRAME_MAX = 131_072


def measure(command: str, folder: Path, messages: int, *, pure: bool) -> Iterator[dict[str, float]]:
    """The figures, part by part."""
    with running(Node([command], folder / "backlog", pure=pure)) as node:
        yield from weigh_backlog(command, node, messages)
    share = 1 if messages >= 1_000_000 else SMALL
    with running(Node([command], folder / "crowd", pure=pure)) as node:
        yield asyncio.run(weigh_crowd(node, QUEUES // share, CONNECTIONS // share, IDLE_SECONDS / share))


@contextmanager
def running(node: Node) -> Iterator[Node]:
    try:
        node.start()
        yield node
    finally:
        node.stop()


def weigh_backlog(command: str, node: Node, messages: int) -> Iterator[dict[str, float]]:
    empty = settled(node)
    perf(command, node, "-x", "1", "-y", "0", "-C", str(messages), "-c", "1000", "-f", "persistent")
    yield {"MiB, an empty node": empty, "MiB, with the backlog": settled(node), "MiB, the most while it came": highest(node)}
    node.kill()
    began = time.monotonic()
    node.start()
    get_one(node)
    yield {"seconds from the start after a kill to the first message": time.monotonic() - began}
    found = perf(command, node, "-x", "0", "-y", "1", "-D", str(messages), "-q", "1000", "-A", "250")
    verdict = found["verify"]
    if not isinstance(verdict, dict) or not verdict["good"]:
        raise Failed(f"the backlog did not come out as it went in: {verdict}")
    yield {"messages that came out, once and in order": verdict["checked"], "MiB, the most while they went": highest(node)}


async def weigh_crowd(node: Node, queues: int, connections: int, idle_seconds: float) -> dict[str, float]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, connections + 200)), hard))
    first = await opened(node)
    empty = settled(node)
    for number in range(queues):
        await first.call(QueueDeclare(f"crowd-{number}", durable=True))
    declared = settled(node)
    crowd: list[Client] = []
    while len(crowd) < connections:
        crowd += await asyncio.gather(*(opened(node) for _ in range(min(AT_ONCE, connections - len(crowd)))))
    connected = settled(node)
    before, began = seconds_of(node.pids), time.monotonic()
    await stay([first, *crowd], idle_seconds)
    used = (seconds_of(node.pids) - before) / (time.monotonic() - began)
    await asyncio.gather(*(client.close() for client in [first, *crowd]))
    return {
        "KiB for a queue": (declared - empty) * 1024 / queues,
        "KiB for a connection": (connected - declared) * 1024 / connections,
        f"per cent of a core with {queues:,} queues and {connections:,} connections": 100 * used,
    }


async def opened(node: Node) -> Client:
    client = Client("crowd", HEARTBEAT, FRAME_MAX)
    await client.open([parse_address(f"amqp://127.0.0.1:{node.port}")])
    return client


async def stay(crowd: list[Client], seconds: float) -> None:
    """Nothing happens, but for the heartbeats: those of all clients are spread over the time between two of one."""
    pause = HEARTBEAT / 2 / len(crowd)
    for number in range(max(1, int(seconds / pause))):
        client = crowd[number % len(crowd)]
        if client.failure is not None:
            raise client.failure
        client.beat()
        await asyncio.sleep(pause)


def perf(command: str, node: Node, *options: str) -> dict[str, object]:
    words = [command, "perf", "--json", "-h", f"amqp://127.0.0.1:{node.port}", "-u", "backlog", "-s", "100"]
    words += ["--verify", "-d", "weight", *options]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"the load generator failed with code {done.returncode}: {done.stderr.strip()[-500:]}")
    document: dict[str, object] = json.loads(done.stdout)
    return document


def get_one(node: Node) -> None:
    """Look at the first message; it goes back when the connection ends."""
    login = pika.PlainCredentials("guest", "guest")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port, "/", login))
    method, _, _ = connection.channel().basic_get("backlog")
    connection.close()
    if method is None:
        raise Failed("the queue is empty after the start")


def settled(node: Node) -> float:
    """Its memory, a while after the last thing that happened."""
    time.sleep(SETTLE_SECONDS)
    return resident_of(node.pids)


def highest(node: Node) -> float:
    return resident_of(node.pids, "VmHWM")
