"""Real nodes whose wall clocks are wrong, or are set: what has a time to live, or waits for one, keeps to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.copies import until
from inprocess import config
from mirrormq.broker import rules
from mirrormq.broker.policy import Policy
from mirrormq.broker.queue import Queue
from mirrormq.cli.ctl.cluster import clocks
from mirrormq.node.runtime import Runtime
from mirrormq.node.surroundings import Surroundings

HOUR = 3600.0
TTL = 120_000
DELAY = 600_000
COUNT = 10
LEEWAY = 500.0      # milliseconds for what a test does between two looks at a clock
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Wall(Surroundings):
    """A machine whose wall clock can be set."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def wall(self) -> float:
        return time.time() + self.ahead


class Node:
    def __init__(self, directory: Path, name: str, wall: Wall) -> None:
        self.wall = wall
        self.directory = directory
        self.name = f"{name}@localhost"
        self.data = directory / name

    async def start(self) -> None:
        self.config = config(self.directory, node_name=self.name, data_dir=self.data)
        self.runtime = Runtime(self.config, self.wall)
        await self.runtime.start()
        await self.runtime.listen()

    async def restart(self) -> None:
        await self.runtime.stop()
        await self.start()

    def queue(self, name: str) -> Queue | None:
        """As far as it is served here."""
        found = [queue for queue in self.runtime.broker.queues_by_log.values() if queue.name == name and not queue.is_away]
        return found[0] if found and not found[0].is_held else None

    def left(self, name: str) -> float:
        """Milliseconds until the first message of the queue expires, or is due."""
        queue = self.queue(name)
        assert queue is not None
        assert queue.backlog.count == COUNT
        return queue.backlog.next_expiry() - self.runtime.clock.now()

    def beat(self) -> None:
        """As each half second."""
        assert self.runtime._beat is not None
        self.runtime._beat.cancel()
        self.runtime._beat_now()

    async def do(self, work: Callable[[BlockingChannel], None]) -> None:
        def act() -> None:
            with channel_at(self.config.tcp_listeners[0].port) as channel:
                work(channel)
        await asyncio.to_thread(act)


@contextmanager
def channel_at(port: int) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


def fill(name: str, exchange: str = "", **arguments: Any) -> Callable[[BlockingChannel], None]:
    def work(channel: BlockingChannel) -> None:
        channel.queue_declare(name, durable=True, arguments={key.replace("_", "-"): value for key, value in arguments.items()})
        for number in range(COUNT):
            channel.basic_publish(exchange, name, b"%d" % number, PERSISTENT)
    return work


def fill_delayed(channel: BlockingChannel) -> None:
    channel.exchange_declare("late", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
    for _ in range(COUNT):
        channel.basic_publish("late", "", b"", pika.BasicProperties(delivery_mode=2, headers={"x-delay": DELAY}))


@asynccontextmanager
async def nodes_in(directory: Path, *walls: Wall) -> AsyncIterator[list[Node]]:
    nodes = [Node(directory, "abc"[at], wall) for at, wall in enumerate(walls)]
    async with AsyncExitStack() as stack:
        for node in nodes:
            await node.start()
            stack.push_async_callback(lambda node=node: node.runtime.stop())
        for node in nodes:
            await until(lambda node=node: len(node.runtime.cluster.neighbours) == len(nodes) - 1)
        yield nodes


async def mirror(node: Node) -> None:
    rules.put_policy(node.runtime.broker, Policy("/", "mirrored", "^m", "queues", {"ha-mode": "all"}), operator=False)
    await node.runtime.agreed(0)


def is_in_sync(node: Node, name: str) -> bool:
    queue = node.queue(name)
    holding = None if queue is None else node.runtime.mirroring.rings.by_id.get(queue.log_id)
    return holding is not None and len(holding.state.view.ring) == 2


@pytest.mark.parametrize(("ahead", "step"), [(-HOUR, 0.0), (HOUR, 0.0), (0.0, HOUR), (-HOUR, HOUR)])
async def test_a_failover_between_nodes_whose_clocks_differ_moves_no_expiry(tmp_path: Path, ahead: float, step: float) -> None:
    """Or when the leader's clock was set just before."""
    async with nodes_in(tmp_path, Wall(ahead), Wall()) as (leader, other):
        await mirror(leader)
        await leader.do(fill("m", x_message_ttl=TTL))
        await until(lambda: is_in_sync(leader, "m"))
        left, at = leader.left("m"), time.monotonic()
        leader.wall.ahead += step
        leader.beat()
        await leader.runtime.abandon()
        await until(lambda: other.queue("m") is not None)
        gone = (time.monotonic() - at) * 1000
        assert left - gone - LEEWAY <= other.left("m") <= left + LEEWAY
        await leader.start()
        await until(lambda: is_in_sync(other, "m"))
        await other.runtime.abandon()
        await until(lambda: leader.queue("m") is not None)
        gone = (time.monotonic() - at) * 1000
        assert left - gone - LEEWAY <= leader.left("m") <= left + LEEWAY


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_clock_that_is_set_moves_no_expiry_and_no_delay_and_ends_no_client(tmp_path: Path, step: float) -> None:
    wall = Wall()
    async with nodes_in(tmp_path, wall) as (node,):
        await node.do(fill("q", x_message_ttl=TTL))
        await node.do(fill("kept"))
        await node.do(fill("idle", x_expires=TTL))
        await node.do(fill_delayed)
        port = node.config.tcp_listeners[0].port
        parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=30)
        connection = await asyncio.to_thread(pika.BlockingConnection, parameters)
        channel = await asyncio.to_thread(connection.channel)
        await asyncio.to_thread(lambda: [channel.basic_get("kept") for _ in range(COUNT)])
        left, due, at = node.left("q"), node.left("amq.delayed.late"), time.monotonic()
        wall.ahead = step
        node.beat()
        node.runtime.broker.check_overdue(60_000)
        assert len(node.runtime.broker.connections) == 1
        assert len(node.runtime.broker.connections.copy().popitem()[0].channels[1].unacked) == COUNT
        assert abs(node.runtime.broker.wall() - wall.wall() * 1000) < LEEWAY
        assert node.queue("idle") is not None
        gone = (time.monotonic() - at) * 1000
        assert left - gone - LEEWAY <= node.left("q") <= left + LEEWAY
        assert due - gone - LEEWAY <= node.left("amq.delayed.late") <= due + LEEWAY
        await asyncio.to_thread(connection.close)
        await until(lambda: not node.runtime.clock.is_to_save(), "a crash would forget that the clock was set")
        await node.restart()
        gone = (time.monotonic() - at) * 1000
        assert left - gone - LEEWAY <= node.left("q") <= left + LEEWAY
        assert due - gone - LEEWAY <= node.left("amq.delayed.late") <= due + LEEWAY


async def test_a_node_that_takes_over_the_time_of_the_others_ends_no_idle_queue(tmp_path: Path) -> None:
    """It comes back from a stop in which its clock was set back, and then its time makes a step."""
    wall = Wall()
    async with nodes_in(tmp_path, Wall(), wall) as (there, node):
        await node.do(fill("idle", x_expires=TTL))
        wall.ahead = -HOUR
        await node.runtime.stop()
        node.runtime.clock._path.unlink(missing_ok=True)       # it was set after the stop
        await node.start()
        await until(lambda: abs(there.runtime.clock.now() - node.runtime.clock.now()) < LEEWAY)
        queue = node.queue("idle")
        assert queue is not None
        assert node.runtime.clock.now() - queue.last_used < HOUR * 1000 / 2


async def test_both_nodes_tell_operators_that_their_clocks_differ(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, Wall(-HOUR), Wall()) as (one, other):
        await until(lambda: set(one.runtime.cluster.clocks.apart()) == {other.name})
        await until(lambda: set(other.runtime.cluster.clocks.apart()) == {one.name})
        assert one.runtime.cluster.clocks.apart()[other.name] == pytest.approx(HOUR, abs=5)
        assert other.runtime.cluster.clocks.apart()[one.name] == pytest.approx(-HOUR, abs=5)
        shown = {"node": one.name, "clocks_apart": one.runtime.cluster.clocks.apart()}
        line = "The clock of node b@localhost is 3600.0 seconds ahead of that of node a@localhost"
        assert clocks(shown) == [("Clocks", [line])]
