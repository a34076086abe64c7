"""aio-pika's robust connection: it comes back after a forced close, a kill and a restart, and redeclares."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustConnection

from compat.support import Broker, quote, unique

from .aio import connected
from .support import DEADLINE, eventually_async

pytestmark = pytest.mark.live


async def echo_into(queue: aio_pika.abc.AbstractQueue) -> asyncio.Queue[bytes]:
    """Consumes the queue for as long as its connection lives, in whatever incarnation."""
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(message: AbstractIncomingMessage) -> None:
        async with message.process():
            got.put_nowait(message.body)

    await queue.consume(take)
    return got


async def reconnected(connection: AbstractRobustConnection, times: asyncio.Queue[int]) -> None:
    await asyncio.wait_for(times.get(), DEADLINE)
    await connection.ready()


def count_reconnects(connection: AbstractRobustConnection) -> asyncio.Queue[int]:
    times: asyncio.Queue[int] = asyncio.Queue()

    async def note(_connection: object, *_: object) -> None:
        times.put_nowait(1)

    connection.reconnect_callbacks.add(note)
    return times


def connection_named(broker: Broker, label: str) -> str:
    """The server's name of the connection that calls itself `label`, or nothing yet."""
    for row in broker.api("GET", "/api/connections"):
        if row.get("client_properties", {}).get("connection_name") == label:
            return str(row["name"])
    return ""


async def test_a_robust_consumer_finds_its_queue_again_after_it_was_deleted_and_redeclared(broker: Broker) -> None:
    async with connected(broker) as connection, connected(broker) as operator:
        channel, other = await connection.channel(), await operator.channel()
        queue = await channel.declare_queue(unique("phoenix"), durable=True)
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(message: AbstractIncomingMessage) -> None:
            async with message.process():
                got.put_nowait(message.body)

        await queue.consume(take)
        await other.queue_delete(queue.name)
        await other.declare_queue(queue.name, durable=True)
        await other.default_exchange.publish(Message(b"again"), queue.name)
        assert await asyncio.wait_for(got.get(), DEADLINE) == b"again"
        await channel.queue_delete(queue.name)


async def test_a_robust_connection_closed_by_an_operator_reconnects_and_redeclares(broker: Broker) -> None:
    """The operator's weapon is DELETE /api/connections/NAME: 320 CONNECTION_FORCED, then the client comes back."""
    label = unique("robust")
    async with connected(broker, client_properties={"connection_name": label}) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(unique("x"), ExchangeType.FANOUT, auto_delete=True)
        queue = await channel.declare_queue(unique("q"), exclusive=True)
        await queue.bind(exchange)
        got, times = await echo_into(queue), count_reconnects(connection)
        name = await eventually_async(lambda: asyncio.to_thread(connection_named, broker, label))
        await asyncio.to_thread(broker.api, "DELETE", f"/api/connections/{quote(name)}")
        await reconnected(connection, times)
        await exchange.publish(Message(b"after"), "")
        assert await asyncio.wait_for(got.get(), DEADLINE) == b"after"


async def test_a_robust_connection_survives_kill_and_restart_with_its_durable_messages(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=5)
        exchange = await channel.declare_exchange(unique("x"), ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue(unique("q"), durable=True)
        await queue.bind(exchange, "#")
        kept = Message(b"kept", delivery_mode=DeliveryMode.PERSISTENT)
        await exchange.publish(kept, "before")
        await exchange.publish(Message(b"transient", delivery_mode=DeliveryMode.NOT_PERSISTENT), "before")
        times = count_reconnects(connection)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await reconnected(connection, times)
        got = await echo_into(queue)
        await exchange.publish(Message(b"after"), "after")
        assert [await asyncio.wait_for(got.get(), DEADLINE) for _ in range(2)] == [b"kept", b"after"]
        await queue.delete(if_unused=False, if_empty=False)
        await exchange.delete()


async def test_a_robust_consumer_goes_on_after_a_restart_with_transient_things_redeclared(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(unique("x"), ExchangeType.DIRECT, auto_delete=True)
        queue = await channel.declare_queue(unique("q"), exclusive=True)
        await queue.bind(exchange, "k")
        got, times = await echo_into(queue), count_reconnects(connection)
        await asyncio.to_thread(broker.restart)
        await reconnected(connection, times)
        await exchange.publish(Message(b"again"), "k")
        assert await asyncio.wait_for(got.get(), DEADLINE) == b"again"
