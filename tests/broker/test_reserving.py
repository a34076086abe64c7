"""What a queue reserves in its log is enough for what it delivers, whatever the pace was before, and comes to an end."""

from __future__ import annotations

from random import Random

import pytest

from broker.forward.cluster import Cluster
from fuzz.client import Client
from fuzz.runner import Runner
from mirrormq.broker.pace import Pace
from mirrormq.wire.methods import BasicAck, BasicConsume, BasicQos, QueueDeclare

LIMIT = 50


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("global_", [False, True], ids=["consumer", "channel"])
def test_nothing_is_delivered_beyond_what_is_reserved_whatever_the_pace(seed: int, *, global_: bool) -> None:
    draw = Random(seed)
    client = Client(Runner())
    client.say(QueueDeclare("q", durable=True))
    for _ in range(2500):
        client.publish("q")
    client.say(BasicQos(0, LIMIT, global_=global_), BasicConsume("q", "t"))
    client.rest()
    world = client.runner.world
    queue = world.broker.vhosts["/"].queues["q"]
    (channel,) = [channel for connection in world.broker.connections for channel in connection.channels.values()]
    for step in range(60):
        world.wait(draw.choice([1, 5, 20, 1000, 20_000, 500_000]))
        client.say(BasicAck(draw.choice(sorted(channel.unacked)), multiple=True))
        reserved = queue.reserved  # in the log, and stable
        world.turn()
        assert queue.delivered_high <= reserved, f"after {step} steps"
        client.rest()  # a queue that reserves again and again does not come to rest
        client.judge.methods.clear()


@pytest.mark.parametrize("prefetch", [1, 3])
@pytest.mark.parametrize("global_", [False, True], ids=["consumer", "channel"])
def test_a_mirrored_queue_that_is_empty_reserves_nothing_while_its_consumers_are_full(prefetch: int, *, global_: bool) -> None:
    cluster = Cluster("a", "b")
    client = cluster.client("a")
    client.ask(QueueDeclare("q", durable=True), BasicQos(0, prefetch, global_=global_))
    cluster.mirror("q")
    client.ask(BasicConsume("q", "t"))
    for tag in range(1, 30):
        client.publish("q", b"x")
        cluster.wait(1)
        client.ask(BasicAck(tag))
    for _ in range(prefetch):
        client.publish("q", b"x")
        cluster.rest()
    (queue,) = cluster.nodes["a"].broker.queues_by_log.values()
    for _ in range(5):
        cluster.wait(500_000)
        client.ask(QueueDeclare("q", passive=True))
    reserved = queue.reserved
    for _ in range(5):
        queue.activate()
        cluster.rest()
    assert queue.reserved == reserved


def test_the_pace_of_busier_times_does_not_outlive_them() -> None:
    """What decides whether to reserve would go on asking for more than is then reserved, again and again."""
    pace = Pace()
    for second in range(1, 5):
        assert pace.look(1000 * second, 1000 * second, is_reserving=True) == pace.ahead > 0
    assert pace.look(4000, 1_000_000, is_reserving=False) == pace.ahead == 0


def test_consumers_of_one_channel_reserve_for_one_limit() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("q", durable=True), BasicQos(0, LIMIT, global_=True))
    client.say(*(BasicConsume("q", f"t{number}") for number in range(20)))
    client.publish("q")
    client.rest()
    assert client.runner.world.broker.vhosts["/"].queues["q"].reserved < 4 * LIMIT
