"""Messages that expire at once, and consumers that were waiting for them: the clock moves between a publish and the turn."""

from __future__ import annotations

import pytest

from fuzz.client import Client
from fuzz.runner import Runner
from mirrormq.wire.methods import BasicConsume, BasicDeliver, BasicQos, QueueDeclare
from mirrormq.wire.properties import Properties
from mirrormq.wire.table import Table

LATE = 5


def waiting(runner: Runner, *, prefetch: int = 0) -> Client:
    """Who consumes the queue `q`, whose messages expire at once, into `dead`."""
    client = Client(runner)
    arguments: Table = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.say(QueueDeclare("dead", durable=True), QueueDeclare("q", durable=True, arguments=arguments))
    client.say(BasicQos(0, prefetch), BasicConsume("q"))
    client.heard()
    return client


def publish_late(runner: Runner, client: Client, mode: int, count: int) -> int:
    """Each is read a while after the one before, and the turn comes later still; how many are delivered."""
    for number in range(count):
        client.publish("q", bytes([number]), Properties(delivery_mode=mode))
        runner.world.broker.now += LATE
    return sum(isinstance(method, BasicDeliver) for method in client.heard())


@pytest.mark.parametrize("mode", [1, 2])
def test_a_consumer_that_was_waiting_gets_them_although_the_turn_is_late(mode: int) -> None:
    runner = Runner()
    assert publish_late(runner, waiting(runner), mode, 3) == 3


@pytest.mark.parametrize("mode", [1, 2])
def test_what_it_cannot_take_expires(mode: int) -> None:
    runner = Runner()
    client = waiting(runner, prefetch=1)
    assert publish_late(runner, client, mode, 3) == 1
    dead = runner.world.broker.vhosts["/"].queues["dead"]
    assert int(dead.backlog.count) == 2
    assert int(runner.world.broker.vhosts["/"].queues["q"].held) == 1


def test_a_consumer_that_comes_later_gets_nothing() -> None:
    runner = Runner()
    client = Client(runner)
    client.say(QueueDeclare("q", durable=True, arguments={"x-message-ttl": LATE}))
    client.publish("q")
    client.rest()
    runner.world.broker.now += LATE + 1
    client.say(BasicConsume("q"))
    assert not any(isinstance(method, BasicDeliver) for method in client.heard())
