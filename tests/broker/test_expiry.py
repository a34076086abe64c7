"""A message whose time is short goes to a consumer that waits for it, however long the node takes to get there."""

from __future__ import annotations

import pytest

from fuzz.client import Client, published
from fuzz.runner import Runner
from mirrormq.wire.methods import BasicCancel, BasicConsume, BasicQos, QueueDeclare
from mirrormq.wire.properties import Properties

BUSY = 50       # milliseconds


def brief(ttl: int) -> Client:
    """Who has a queue `q` whose messages expire soon, into `dead`."""
    client = Client(Runner())
    client.say(QueueDeclare("dead", durable=True), QueueDeclare("q", durable=True, arguments={
        "x-message-ttl": ttl, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}))
    client.rest()
    return client


def arrive(client: Client, body: bytes, mode: int = 2) -> None:
    """It is read, and then other things keep the node busy before the turn ends."""
    client.feed(published("q", body, Properties(delivery_mode=mode)))
    client.runner.world.broker.now += BUSY
    client.rest()
    client.heard()


def waiting(client: Client, queue: str) -> int:
    return int(client.runner.world.broker.vhosts["/"].queues[queue].backlog.count)


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("ttl", [0, BUSY // 2])
def test_what_expires_while_the_node_is_busy_still_goes_to_a_waiting_consumer(ttl: int, mode: int) -> None:
    client = brief(ttl)
    client.say(BasicConsume("q", "t", no_ack=True))
    for number in range(10):
        arrive(client, b"%d" % number, mode)
    assert client.judge.bodies == [b"%d" % number for number in range(10)]
    assert waiting(client, "dead") == 0


@pytest.mark.parametrize("mode", [1, 2])
def test_what_a_consumer_has_no_room_for_expires(mode: int) -> None:
    client = brief(0)
    client.say(BasicQos(0, 1), BasicConsume("q", "t"))
    for body in (b"taken", b"too many", b"more"):
        arrive(client, body, mode)
    client.say(BasicCancel("t"), BasicConsume("q", "u", no_ack=True))
    client.rest()
    client.heard()
    assert client.judge.bodies == [b"taken"]
    assert (waiting(client, "q"), waiting(client, "dead")) == (0, 2)


def test_what_came_before_the_consumer_expires() -> None:
    client = brief(BUSY // 2)
    client.publish("q", b"early")
    client.rest()
    client.runner.world.broker.now += BUSY
    client.say(BasicConsume("q", "t", no_ack=True))
    client.rest()
    client.heard()
    assert client.judge.bodies == []
    assert waiting(client, "dead") == 1
