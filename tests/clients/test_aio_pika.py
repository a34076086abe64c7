"""aio-pika against a real server: publish with confirms, consume with prefetch, transactions, sizes, concurrency."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os

import aio_pika
import aiormq
import pytest
from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import (
    AMQPConnectionError,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)
from aiormq.abc import DeliveredMessage

from compat.support import Broker, unique

from .aio import body_of_next, connected, depth, opened
from .support import DEADLINE, eventually_async

pytestmark = pytest.mark.live


async def test_a_confirmed_publish_is_acknowledged_and_arrives_with_its_properties(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(unique("confirmed"), exclusive=True)
        sent = Message(
            b"hello",
            headers={"text": "ü", "number": 7, "big": 2**40, "yes": True, "none": None, "list": [1, "two"], "d": 1.5},
            content_type="text/plain",
            content_encoding="utf-8",
            delivery_mode=DeliveryMode.PERSISTENT,
            priority=3,
            correlation_id="c-1",
            reply_to="there",
            message_id="m-1",
            timestamp=1_700_000_000,
            type="greeting",
            app_id="tests",
        )
        outcome = await channel.default_exchange.publish(sent, queue.name)
        assert isinstance(outcome, aiormq.spec.Basic.Ack)
        got = await queue.get()
        assert got.body == b"hello"
        assert got.headers == sent.headers
        assert (got.content_type, got.content_encoding, got.priority) == ("text/plain", "utf-8", 3)
        assert (got.correlation_id, got.reply_to, got.message_id) == ("c-1", "there", "m-1")
        assert (got.timestamp, got.type, got.app_id) == (sent.timestamp, "greeting", "tests")
        assert got.delivery_mode == DeliveryMode.PERSISTENT
        assert got.redelivered is False
        await got.ack()


async def test_a_thousand_concurrent_publishes_are_all_confirmed_and_keep_their_order(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(unique("many"), exclusive=True)
        publishes = [channel.default_exchange.publish(Message(b"%d" % n), queue.name) for n in range(1000)]
        outcomes = await asyncio.gather(*publishes)
        assert all(isinstance(outcome, aiormq.spec.Basic.Ack) for outcome in outcomes)
        got: list[bytes] = []
        async with queue.iterator(no_ack=True) as messages:
            async for message in messages:
                got.append(message.body)
                if len(got) == 1000:
                    break
        assert got == [b"%d" % n for n in range(1000)]


async def test_an_unroutable_mandatory_message_is_returned_and_raises_where_asked(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel(on_return_raises=True)
        with pytest.raises(PublishError):
            await channel.default_exchange.publish(Message(b"lost"), unique("nowhere"))
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(b"found"), queue.name)
        assert await body_of_next(queue) == b"found"


async def test_a_returned_message_comes_back_whole_as_the_publishers_answer(broker: Broker) -> None:
    async with opened(broker) as channel:
        returned = await channel.default_exchange.publish(Message(b"lost", message_id="m"), unique("nowhere"))
        assert isinstance(returned, DeliveredMessage)
        assert returned.body == b"lost"
        assert isinstance(returned.delivery, aiormq.spec.Basic.Return)
        assert (returned.delivery.reply_code, returned.delivery.reply_text) == (312, "NO_ROUTE")


async def test_a_publish_to_a_full_queue_that_rejects_is_nacked(broker: Broker) -> None:
    async with opened(broker) as channel:
        limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await channel.declare_queue(unique("full"), exclusive=True, arguments=limits)
        await channel.default_exchange.publish(Message(b"first"), queue.name)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(Message(b"second"), queue.name)
        assert await body_of_next(queue) == b"first"


async def test_an_unequal_redeclare_is_refused_with_406_and_the_channel_recovers(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(unique("same"), durable=True, robust=False)
        with pytest.raises(ChannelPreconditionFailed, match="inequivalent arg 'durable'"):
            await channel.declare_queue(queue.name, durable=False)
        other = await connection.channel()
        await other.queue_delete(queue.name)


async def test_prefetch_bounds_what_a_consumer_holds_unacknowledged(broker: Broker) -> None:
    async with opened(broker) as channel:
        await channel.set_qos(prefetch_count=3)
        queue = await channel.declare_queue(unique("prefetch"), exclusive=True)
        for n in range(10):
            await channel.default_exchange.publish(Message(b"%d" % n), queue.name)
        held: list[AbstractIncomingMessage] = []

        async def hold(message: AbstractIncomingMessage) -> None:
            held.append(message)

        await queue.consume(hold)

        async def three_held_and_seven_ready() -> bool:
            return len(held) == 3 and await depth(channel, queue.name) == 7

        await eventually_async(three_held_and_seven_ready)
        await held[1].ack(multiple=True)

        async def two_more() -> bool:
            return len(held) == 5

        await eventually_async(two_more)
        assert [message.body for message in held] == [b"0", b"1", b"2", b"3", b"4"]


async def test_work_is_shared_between_two_consumers_with_prefetch_one(broker: Broker) -> None:
    async with connected(broker) as connection:
        first, second = await connection.channel(), await connection.channel()
        queue = await first.declare_queue(unique("fair"), auto_delete=True)
        seen: dict[str, list[bytes]] = {"first": [], "second": []}

        async def consume(channel: aio_pika.abc.AbstractChannel, who: str) -> None:
            await channel.set_qos(prefetch_count=1)

            async def work(message: AbstractIncomingMessage) -> None:
                async with message.process():
                    seen[who].append(message.body)

            await (await channel.declare_queue(queue.name, auto_delete=True)).consume(work)

        await consume(first, "first")
        await consume(second, "second")
        for n in range(20):
            await first.default_exchange.publish(Message(b"%d" % n), queue.name)

        async def all_done() -> bool:
            return len(seen["first"]) + len(seen["second"]) == 20

        await eventually_async(all_done)
        assert all(seen.values())


async def test_a_failing_handler_requeues_and_the_second_delivery_is_marked_redelivered(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(unique("redelivered"), exclusive=True)
        await channel.default_exchange.publish(Message(b"x"), queue.name)
        marks: list[bool] = []

        async def fail_once(message: AbstractIncomingMessage) -> None:
            with contextlib.suppress(ValueError):
                async with message.process(requeue=True):
                    marks.append(bool(message.redelivered))
                    if len(marks) == 1:
                        raise ValueError

        await queue.consume(fail_once)

        async def twice() -> bool:
            return len(marks) == 2

        await eventually_async(twice)
        assert marks == [False, True]


async def test_a_transaction_shows_its_messages_only_after_commit(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(unique("tx"), exclusive=True)
        async with channel.transaction():
            await channel.default_exchange.publish(Message(b"a"), queue.name)
            await channel.default_exchange.publish(Message(b"b"), queue.name)
            assert await depth(channel, queue.name) == 0
        assert [await body_of_next(queue), await body_of_next(queue)] == [b"a", b"b"]


async def test_a_transaction_that_fails_rolls_its_messages_back(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(unique("rollback"), exclusive=True)
        with contextlib.suppress(KeyError):
            async with channel.transaction():
                await channel.default_exchange.publish(Message(b"gone"), queue.name)
                raise KeyError
        assert await depth(channel, queue.name) == 0
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(Message(b"kept"), queue.name)
        await transaction.commit()
        assert await body_of_next(queue) == b"kept"


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_072, 131_073, 5_000_000, 40_000_000])
async def test_a_message_of_any_size_arrives_unchanged(broker: Broker, size: int) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(unique("large"), exclusive=True)
        body = os.urandom(size)
        await channel.default_exchange.publish(Message(body, delivery_mode=DeliveryMode.PERSISTENT), queue.name)
        got = await queue.get(no_ack=True)
        assert len(got.body) == size
        assert hashlib.sha256(got.body).digest() == hashlib.sha256(body).digest()


async def test_a_hundred_channels_work_side_by_side_on_one_connection(broker: Broker) -> None:
    async with connected(broker) as connection:
        channels = await asyncio.gather(*(connection.channel() for _ in range(100)))

        async def use(channel: aio_pika.abc.AbstractChannel, n: int) -> list[bytes]:
            queue = await channel.declare_queue(exclusive=True)
            bodies = [b"%d-%d" % (n, m) for m in range(20)]
            await asyncio.gather(*(channel.default_exchange.publish(Message(b), queue.name) for b in bodies))
            got = [(await queue.get(no_ack=True)).body for _ in bodies]
            assert got == bodies
            return got

        await asyncio.gather(*(use(channel, n) for n, channel in enumerate(channels)))


async def test_twenty_connections_at_once_each_with_its_own_exclusive_queue(broker: Broker) -> None:
    async def one(n: int) -> bytes:
        async with opened(broker) as channel:
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(Message(b"%d" % n), queue.name)
            return await body_of_next(queue)

    assert await asyncio.gather(*(one(n) for n in range(20))) == [b"%d" % n for n in range(20)]


async def test_a_deleted_queue_cancels_its_consumer(broker: Broker) -> None:
    async with connected(broker) as connection, await aio_pika.connect(broker.url()) as plain:
        channel = await plain.channel()
        queue = await channel.declare_queue(unique("doomed"))
        cancelled: asyncio.Queue[str] = asyncio.Queue()
        underlay = await channel.get_underlay_channel()

        async def note(frame: aiormq.spec.Basic.Cancel) -> None:
            cancelled.put_nowait(frame.consumer_tag or "")

        underlay.on_consumer_cancel_callbacks.add(note)
        tag = await queue.consume(AbstractIncomingMessage.ack)
        await (await connection.channel()).queue_delete(queue.name)
        assert await asyncio.wait_for(cancelled.get(), DEADLINE) == tag


async def test_a_wrong_password_is_refused_with_the_brokers_words(broker: Broker) -> None:
    url = broker.url().replace("guest:guest", "guest:wrong")
    with pytest.raises(AMQPConnectionError, match="ACCESS_REFUSED"):
        await aio_pika.connect(url)
