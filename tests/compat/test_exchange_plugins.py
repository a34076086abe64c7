"""The exchange types that come with RabbitMQ's plugins.

x-consistent-hash spreads by weight and keeps a key on its queue; x-modulus-hash spreads evenly, and with a sharding
policy makes its queues itself; x-delayed-message holds messages back (a community plugin: only on our own server).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika import spec

from .rawclient import RawClient
from .support import Broker, eventually, own_queue, own_server_only, taken, unique

Declare = Callable[..., str]
Exchange, Queue, Basic = spec.Exchange, spec.Queue, spec.Basic
HASH, MODULUS, DELAYED = "x-consistent-hash", "x-modulus-hash", "x-delayed-message"


def spread(channel: Any, exchange: str, queues: list[str], keys: list[str]) -> dict[str, str]:
    """Publish every key once (as its own body) and tell which queue got it."""
    channel.confirm_delivery()
    for key in keys:
        channel.basic_publish(exchange, key, key.encode())
    where = {body.decode(): queue for queue in queues for body in taken(channel, queue)}
    assert sorted(where) == sorted(keys)
    return where


def numbered(count: int) -> list[str]:
    return [f"key-{number}" for number in range(count)]


# x-consistent-hash


def test_a_hash_exchange_spreads_by_weight(channel: Any, exchange: Declare) -> None:
    name = exchange(HASH)
    weights = [1, 2, 5]
    queues = [own_queue(channel, name, str(weight)) for weight in weights]
    where = list(spread(channel, name, queues, numbered(1600)).values())
    shares = [where.count(queue) for queue in queues]
    for weight, share in zip(weights, shares, strict=True):
        assert 0.7 * weight * 200 < share < 1.3 * weight * 200, shares


def test_a_key_stays_on_its_queue(channel: Any, exchange: Declare) -> None:
    name = exchange(HASH)
    queues = [own_queue(channel, name, "1") for _ in range(3)]
    first = spread(channel, name, queues, numbered(50))
    assert spread(channel, name, queues, numbered(50)) == first
    assert len(set(first.values())) == 3


def test_a_new_queue_takes_keys_only_for_itself(channel: Any, exchange: Declare) -> None:
    name = exchange(HASH)
    queues = [own_queue(channel, name, "1") for _ in range(3)]
    before = spread(channel, name, queues, numbered(200))
    queues.append(own_queue(channel, name, "1"))
    after = spread(channel, name, queues, numbered(200))
    moved = {after[key] for key in before if after[key] != before[key]}
    assert moved == {queues[-1]}


def test_when_a_queue_goes_its_keys_go_to_others(channel: Any, exchange: Declare) -> None:
    name = exchange(HASH)
    queues = [own_queue(channel, name, "1") for _ in range(3)]
    spread(channel, name, queues, numbered(50))
    channel.queue_delete(queues.pop(0))
    assert len(set(spread(channel, name, queues, numbered(50)).values())) == 2


def test_a_header_may_be_hashed_instead(channel: Any, exchange: Declare) -> None:
    name = exchange(HASH, arguments={"hash-header": "shard"})
    queues = [own_queue(channel, name, "1") for _ in range(2)]
    homes: dict[str, set[str]] = {}
    for number in range(80):
        shard = f"s{number % 40}"
        channel.basic_publish(name, str(number), shard.encode(), pika.BasicProperties(headers={"shard": shard}))
    for queue in queues:
        for body in taken(channel, queue):
            homes.setdefault(body.decode(), set()).add(queue)
    assert set(homes) == {f"s{number}" for number in range(40)}
    assert all(len(home) == 1 for home in homes.values())
    assert len(set.union(*homes.values())) == 2


@pytest.mark.parametrize("key", ["message_id", "correlation_id", "timestamp"])
def test_a_property_may_be_hashed_instead(channel: Any, exchange: Declare, key: str) -> None:
    name = exchange(HASH, arguments={"hash-property": key})
    queues = [own_queue(channel, name, "1") for _ in range(2)]
    for number in range(20):
        value: Any = 1000 if key == "timestamp" else "same"
        channel.basic_publish(name, str(number), b"x", pika.BasicProperties(**{key: value}))
    assert sorted(len(taken(channel, queue)) for queue in queues) == [0, 20]


def test_a_missing_header_still_finds_a_queue(channel: Any, exchange: Declare) -> None:
    name = exchange(HASH, arguments={"hash-header": "shard"})
    queues = [own_queue(channel, name, "1") for _ in range(2)]
    for number in range(10):
        channel.basic_publish(name, str(number), b"x")
    assert sorted(len(taken(channel, queue)) for queue in queues) == [0, 10]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_a_weight_must_be_a_positive_number(raw: RawClient, exchange: Declare, key: str, text: str) -> None:
    name = exchange(HASH)
    queue = raw.call(1, Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue
    raw.send_method(1, Queue.Bind(queue=queue, exchange=name, routing_key=key))
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - {text}", Queue.Bind)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "bogus"}, "Unsupported property: bogus"),
    ],
    ids=["both", "unknown property"],
)
def test_wrong_hash_arguments_are_refused(raw: RawClient, arguments: dict[str, Any], text: str) -> None:
    raw.send_method(1, Exchange.Declare(exchange=unique("x"), type=HASH, arguments=arguments))
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - {text}", Exchange.Declare)


def test_an_unbound_hash_exchange_routes_nowhere(raw: RawClient, exchange: Declare) -> None:
    raw.publish(1, exchange(HASH), "k", b"x", mandatory=True)
    assert raw.expect_message(Basic.Return).method.reply_code == 312


def test_a_hash_exchange_may_feed_an_exchange(channel: Any, exchange: Declare) -> None:
    name, target = exchange(HASH), exchange("fanout")
    channel.exchange_bind(target, name, "1")
    queue = own_queue(channel, target, "")
    channel.basic_publish(name, "k", b"x")
    assert taken(channel, queue) == [b"x"]


# x-modulus-hash


def test_a_modulus_exchange_spreads_whatever_the_binding_key(channel: Any, exchange: Declare) -> None:
    name = exchange(MODULUS)
    queues = [own_queue(channel, name, key) for key in ("", "b", "100")]
    first = spread(channel, name, queues, numbered(300))
    assert all(60 < list(first.values()).count(queue) < 140 for queue in queues)
    assert spread(channel, name, queues, numbered(300)) == first


def test_an_unbound_modulus_exchange_routes_nowhere(raw: RawClient, exchange: Declare) -> None:
    raw.publish(1, exchange(MODULUS), "k", b"x", mandatory=True)
    assert raw.expect_message(Basic.Return).method.reply_code == 312


@pytest.fixture
def sharded(broker: Broker, vhost: str, exchange: Declare, cleanup: Any) -> tuple[str, list[str]]:
    """An exchange with a policy of two shards, and the names of its queues."""
    name = unique("shards")
    definition = {"shards-per-node": 2, "routing-key": "1234"}
    broker.set_policy(vhost, name, f"^{name}$", definition, apply_to="exchanges")
    exchange(MODULUS, name, durable=True)
    node = broker.api("GET", "/api/overview")["node"]
    queues = [f"sharding: {name} - {node} - {number}" for number in range(2)]
    for queue in queues:
        cleanup(queue=queue)
    return name, queues


def exist(connection: Any, queues: list[str]) -> bool:
    channel = connection.channel()
    try:
        for queue in queues:
            channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    channel.close()
    return True


def test_a_sharding_policy_makes_the_queues(connection: Any, channel: Any, sharded: tuple[str, list[str]]) -> None:
    name, queues = sharded
    eventually(lambda: exist(connection, queues))
    where = spread(channel, name, queues, numbered(60))
    assert set(where.values()) == set(queues)


def test_consumers_of_a_sharded_exchange_are_dealt_to_its_queues(
    connection: Any, channel: Any, sharded: tuple[str, list[str]]
) -> None:
    """Consuming "from the exchange" takes the shard with the fewest consumers."""
    name, queues = sharded
    eventually(lambda: exist(connection, queues))
    got: list[bytes] = []
    for _ in queues:
        channel.basic_consume(name, lambda c, m, p, body: got.append(body), auto_ack=True)

    def consumers() -> list[int]:
        return [channel.queue_declare(queue, passive=True).method.consumer_count for queue in queues]

    assert consumers() == [1, 1]
    for key in numbered(20):
        channel.basic_publish(name, key, key.encode())
    connection.process_data_events(0)
    eventually(lambda: connection.process_data_events(0) or len(got) == 20)


# x-delayed-message


@own_server_only
class TestDelayedMessages:
    def published(self, channel: Any, name: str, body: bytes, **headers: Any) -> None:
        channel.basic_publish(name, "k", body, pika.BasicProperties(headers=headers))

    def test_a_message_waits_for_its_delay(self, channel: Any, exchange: Declare) -> None:
        name = exchange(DELAYED, arguments={"x-delayed-type": "direct"})
        queue = own_queue(channel, name, "k")
        began = time.monotonic()
        self.published(channel, name, b"late", **{"x-delay": 700})
        self.published(channel, name, b"soon", **{"x-delay": 300})
        self.published(channel, name, b"now")
        came: dict[bytes, float] = {}

        def all_here() -> bool:
            came.update({body: time.monotonic() - began for body in taken(channel, queue)})
            return len(came) == 3

        eventually(all_here)
        assert list(came) == [b"now", b"soon", b"late"]
        assert (came[b"soon"] >= 0.29, came[b"late"] >= 0.69) == (True, True), "never before its time"

    def test_the_delay_is_shown_negated(self, channel: Any, exchange: Declare) -> None:
        name = exchange(DELAYED, arguments={"x-delayed-type": "direct"})
        queue = own_queue(channel, name, "k")
        self.published(channel, name, b"x", **{"x-delay": 50, "mine": 1})
        message = eventually(lambda: [m for m in [channel.basic_get(queue, auto_ack=True)] if m[0]])[0]
        assert message[1].headers == {"x-delay": -50, "mine": 1}
        assert (message[0].exchange, message[0].routing_key) == (name, "k")

    def test_it_routes_as_its_delayed_type(self, channel: Any, exchange: Declare) -> None:
        name = exchange(DELAYED, arguments={"x-delayed-type": "topic"})
        hit, miss = own_queue(channel, name, "k.#"), own_queue(channel, name, "z")
        self.published(channel, name, b"x", **{"x-delay": 10})
        assert eventually(lambda: taken(channel, hit)) == [b"x"]
        assert taken(channel, miss) == []

    @pytest.mark.parametrize("delay", [0, -5, "soon", None])
    def test_a_delay_that_is_none_is_no_delay(self, channel: Any, exchange: Declare, delay: Any) -> None:
        name = exchange(DELAYED, arguments={"x-delayed-type": "direct"})
        queue = own_queue(channel, name, "k")
        self.published(channel, name, b"x", **{"x-delay": delay})
        assert eventually(lambda: taken(channel, queue)) == [b"x"]

    def test_a_delayed_message_is_confirmed_at_once(self, channel: Any, exchange: Declare) -> None:
        name = exchange(DELAYED, arguments={"x-delayed-type": "direct"})
        queue = own_queue(channel, name, "k")
        channel.confirm_delivery()
        self.published(channel, name, b"x", **{"x-delay": 60_000})
        assert taken(channel, queue) == []

    def test_deleting_the_exchange_forgets_what_it_held(self, channel: Any, exchange: Declare) -> None:
        name = exchange(DELAYED, arguments={"x-delayed-type": "direct"})
        queue = own_queue(channel, name, "k")
        self.published(channel, name, b"held", **{"x-delay": 1500})
        channel.exchange_delete(name)
        exchange(DELAYED, name, arguments={"x-delayed-type": "direct"})
        channel.queue_bind(queue, name, "k")
        self.published(channel, name, b"later", **{"x-delay": 1500})
        assert eventually(lambda: taken(channel, queue)) == [b"later"]

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({}, "'x-delayed-type' must be an existing exchange type"),
            ({"x-delayed-type": 5}, "'x-delayed-type' must be an existing exchange type"),
            ({"x-delayed-type": DELAYED}, "'x-delayed-message' can't be used for 'x-delayed-type'"),
        ],
        ids=["none", "number", "itself"],
    )
    def test_the_delayed_type_must_be_a_type(self, raw: RawClient, arguments: dict[str, Any], text: str) -> None:
        raw.send_method(1, Exchange.Declare(exchange=unique("x"), type=DELAYED, arguments=arguments))
        raw.expect_channel_close(406, f"PRECONDITION_FAILED - Invalid argument, {text}", Exchange.Declare)

    def test_the_delayed_type_must_exist(self, raw: RawClient) -> None:
        raw.send_method(1, Exchange.Declare(exchange="x", type=DELAYED, arguments={"x-delayed-type": "bogus"}))
        text = "COMMAND_INVALID - unknown exchange type 'bogus'"
        raw.expect_connection_close(503, text, Exchange.Declare)

    def test_a_durable_delayed_message_outlives_a_restart(self, broker: Broker, connect: Callable[..., Any]) -> None:
        channel = connect().channel()
        name, queue = unique("x"), unique("q")
        channel.exchange_declare(name, DELAYED, durable=True, arguments={"x-delayed-type": "direct"})
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, name, "k")
        channel.confirm_delivery()
        properties = pika.BasicProperties(headers={"x-delay": 3000}, delivery_mode=2)
        channel.basic_publish(name, "k", b"kept", properties)
        broker.restart()
        channel = connect().channel()
        assert eventually(lambda: taken(channel, queue)) == [b"kept"]
        channel.queue_delete(queue)
        channel.exchange_delete(name)
