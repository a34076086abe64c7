"""What the aio-pika tests share: connections, channels, and looking into a queue."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustChannel, AbstractRobustConnection

from compat.support import Broker

from .support import DEADLINE, eventually_async


@contextlib.asynccontextmanager
async def connected(broker: Broker, **options: Any) -> AsyncIterator[AbstractRobustConnection]:
    connection = await aio_pika.connect_robust(broker.url(), reconnect_interval=0.2, **options)
    async with connection:
        yield connection


@contextlib.asynccontextmanager
async def opened(broker: Broker) -> AsyncIterator[AbstractRobustChannel]:
    async with connected(broker) as connection:
        channel = await connection.channel()
        assert isinstance(channel, aio_pika.RobustChannel)
        yield channel


async def body_of_next(queue: aio_pika.abc.AbstractQueue, *, within: float = DEADLINE) -> bytes:
    """Gets and acknowledges the next message, waiting for it to arrive."""

    async def look() -> AbstractIncomingMessage | None:
        return await queue.get(fail=False)

    message = await eventually_async(look, within=within)
    assert message is not None
    await message.ack()
    return message.body


async def depth(channel: aio_pika.abc.AbstractChannel, name: str) -> int:
    answer = await (await channel.get_underlay_channel()).queue_declare(name, passive=True)
    return answer.message_count or 0
