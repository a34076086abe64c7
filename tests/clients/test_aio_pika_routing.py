"""aio-pika: exchanges and bindings of every type, expiry and dead letters."""

from __future__ import annotations

import pytest
from aio_pika import ExchangeType, Message
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import (
    ChannelNotFoundEntity,
)

from compat.support import Broker, unique

from .aio import body_of_next, connected, depth, opened
from .support import eventually_async

pytestmark = pytest.mark.live


async def test_a_publish_to_a_missing_exchange_closes_the_channel_with_404(broker: Broker) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        name = unique("missing")
        with pytest.raises(ChannelNotFoundEntity, match=f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
            await channel.get_exchange(name)


@pytest.mark.parametrize(
    ("kind", "key", "hits", "misses"),
    [
        (ExchangeType.DIRECT, "a.b", ["a.b"], ["a", "a.b.c", ""]),
        (ExchangeType.FANOUT, "", ["a.b", "", "anything"], []),
        (ExchangeType.TOPIC, "*.b.#", ["a.b", "x.b.c", "x.b.c.d"], ["b", "a.c", "a.a.b"]),
    ],
)
async def test_each_exchange_type_routes_by_its_rule(
    broker: Broker, kind: ExchangeType, key: str, hits: list[str], misses: list[str]
) -> None:
    async with connected(broker) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(unique(kind.value), kind, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, key)
        for routing_key in hits:
            await exchange.publish(Message(routing_key.encode()), routing_key)
        for routing_key in misses:
            await exchange.publish(Message(b"miss"), routing_key, mandatory=False)
        assert [await body_of_next(queue) for _ in hits] == [hit.encode() for hit in hits]
        assert await queue.get(fail=False) is None


async def test_headers_exchange_routes_by_all_or_any(broker: Broker) -> None:
    async with opened(broker) as channel:
        exchange = await channel.declare_exchange(unique("headers"), ExchangeType.HEADERS, auto_delete=True)
        every = await channel.declare_queue(exclusive=True)
        some = await channel.declare_queue(exclusive=True)
        await every.bind(exchange, arguments={"x-match": "all", "colour": "red", "size": 2})
        await some.bind(exchange, arguments={"x-match": "any", "colour": "red", "size": 2})
        await exchange.publish(Message(b"both", headers={"colour": "red", "size": 2}), "")
        await exchange.publish(Message(b"one", headers={"colour": "blue", "size": 2}), "")
        assert [await body_of_next(some), await body_of_next(some)] == [b"both", b"one"]
        assert await body_of_next(every) == b"both"
        assert await every.get(fail=False) is None


async def test_exchanges_bind_to_exchanges_and_unbind_again(broker: Broker) -> None:
    async with opened(broker) as channel:
        source = await channel.declare_exchange(unique("source"), ExchangeType.TOPIC)
        target = await channel.declare_exchange(unique("target"), ExchangeType.FANOUT)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(target)
        await target.bind(source, "news.*")
        await source.publish(Message(b"through"), "news.today")
        assert await body_of_next(queue) == b"through"
        await target.unbind(source, "news.*")
        await source.publish(Message(b"not"), "news.today", mandatory=False)
        assert await queue.get(fail=False) is None
        await source.delete()
        await target.delete()


async def test_an_alternate_exchange_takes_what_has_no_route(broker: Broker) -> None:
    async with opened(broker) as channel:
        spare = await channel.declare_exchange(unique("spare"), ExchangeType.FANOUT, auto_delete=True)
        caught = await channel.declare_queue(exclusive=True)
        await caught.bind(spare)
        arguments = {"alternate-exchange": spare.name}
        main = await channel.declare_exchange(unique("main"), ExchangeType.DIRECT, arguments=arguments)
        await main.publish(Message(b"stray"), "nobody")
        assert await body_of_next(caught) == b"stray"
        await main.delete()


async def test_an_expired_message_is_dead_lettered_with_its_history(broker: Broker) -> None:
    async with opened(broker) as channel:
        dead = await channel.declare_exchange(unique("dead"), ExchangeType.FANOUT, auto_delete=True)
        graves = await channel.declare_queue(exclusive=True)
        await graves.bind(dead)
        arguments = {"x-message-ttl": 50, "x-dead-letter-exchange": dead.name, "x-dead-letter-routing-key": "rip"}
        queue = await channel.declare_queue(unique("short"), exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(Message(b"mayfly"), queue.name)

        async def look() -> AbstractIncomingMessage | None:
            return await graves.get(no_ack=True, fail=False)

        message = await eventually_async(look)
        assert message is not None
        assert message.routing_key == "rip"
        death = message.headers["x-death"][0]  # type: ignore[index]
        assert (death["reason"], death["queue"], death["count"]) == ("expired", queue.name, 1)  # type: ignore[index, call-overload]
        assert message.headers["x-first-death-queue"] == queue.name


async def test_a_message_with_its_own_expiration_leaves_the_queue(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(unique("own"), exclusive=True)
        await channel.default_exchange.publish(Message(b"brief", expiration=0.05), queue.name)

        async def empty() -> bool:
            return await depth(channel, queue.name) == 0

        await eventually_async(empty)


async def test_a_rejected_message_goes_to_the_dead_letter_exchange(broker: Broker) -> None:
    async with opened(broker) as channel:
        graves = await channel.declare_queue(unique("graves"), exclusive=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graves.name}
        queue = await channel.declare_queue(unique("picky"), exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(Message(b"bad"), queue.name)
        await (await queue.get()).reject(requeue=False)
        assert await body_of_next(graves) == b"bad"
