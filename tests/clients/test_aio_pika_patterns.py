"""aio-pika's patterns: remote procedure calls, and a master with its workers."""

from __future__ import annotations

import asyncio

import pytest
from aio_pika.exceptions import (
    MessageProcessError,
)
from aio_pika.patterns import RPC, JsonRPC, Master, NackMessage, RejectMessage

from compat.support import Broker, unique

from .aio import connected
from .support import eventually_async

pytestmark = pytest.mark.live


async def test_rpc_answers_raises_and_reports_an_unknown_method(broker: Broker) -> None:
    async with connected(broker) as connection:
        server, client = await connection.channel(), await connection.channel()
        name = unique("multiply")

        async def multiply(*, x: int, y: int) -> int:
            if y == 0:
                raise ValueError("no zero")
            return x * y

        serving = await RPC.create(server)
        await serving.register(name, multiply, auto_delete=True)
        calling = await RPC.create(client)
        assert await calling.call(name, {"x": 6, "y": 7}) == 42
        answers = await asyncio.gather(*(calling.call(name, {"x": n, "y": 2}) for n in range(1, 50)))
        assert answers == [2 * n for n in range(1, 50)]
        with pytest.raises(ValueError, match="no zero"):
            await calling.call(name, {"x": 1, "y": 0})
        with pytest.raises(MessageProcessError):
            await calling.call(unique("nobody"), {})
        await serving.unregister(multiply)
        await calling.close()
        await serving.close()


async def test_an_rpc_call_that_expires_in_the_queue_is_dead_lettered_back_to_its_caller(broker: Broker) -> None:
    """RPC puts a headers exchange as dead letter exchange behind each method's queue; expiry is its timeout."""
    async with connected(broker) as connection:
        server, client = await connection.channel(), await connection.channel()
        await server.set_qos(prefetch_count=1)
        name = unique("slow")
        started, release = asyncio.Event(), asyncio.Event()

        async def slow() -> str:
            started.set()
            await release.wait()
            return "done"

        serving = await JsonRPC.create(server)
        await serving.register(name, slow, auto_delete=True)
        calling = await JsonRPC.create(client)
        first = asyncio.create_task(calling.call(name))
        await started.wait()
        with pytest.raises(asyncio.TimeoutError):
            await calling.call(name, expiration=1)
        release.set()
        assert await first == "done"
        await calling.close()
        await serving.close()


async def test_master_and_workers_share_tasks_and_reject_or_requeue_on_request(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        master = Master(channel)
        name = unique("task")
        done: list[int] = []
        tried: list[int] = []

        async def work(*, task_id: int) -> None:
            tried.append(task_id)
            if task_id == 13:
                raise RejectMessage(requeue=False)
            if task_id == 7 and tried.count(7) == 1:
                raise NackMessage(requeue=True)
            done.append(task_id)

        workers = [await master.create_worker(name, work, auto_delete=True) for _ in range(3)]
        for n in range(20):
            await master.create_task(name, {"task_id": n})

        async def all_done() -> bool:
            return len(done) == 19

        await eventually_async(all_done)
        assert sorted(done) == [n for n in range(20) if n != 13]
        assert (tried.count(7), tried.count(13)) == (2, 1)
        for worker in workers:
            await worker.close()
