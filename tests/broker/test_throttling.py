"""Publishers wait while an alarm is raised: those that have published, and those that have just begun to."""

from __future__ import annotations

from fuzz.client import Client, published
from fuzz.runner import Runner
from mirrormq.broker import agreement
from mirrormq.broker.connection import INBOX_LIMIT
from mirrormq.broker.inlet import FEW
from mirrormq.wire.methods import QueueDeclare


def test_an_alarm_holds_a_connection_in_the_middle_of_its_first_message() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("q"))
    client.rest()
    broker = client.runner.world.broker
    (connection,) = broker.connections
    data = published("q", bytes(1 << 20))
    client.feed(data[:1000])
    client.rest()
    broker.set_alarms({"memory": "low on memory"}, is_busy=False)
    assert connection.is_blocked
    assert not connection.is_reading
    broker.set_alarms({}, is_busy=False)
    assert connection.is_reading
    client.feed(data[1000:])
    client.rest()
    assert broker.vhosts["/"].queues["q"].backlog.count == 1


def test_a_connection_that_begins_to_publish_during_an_alarm_is_held_before_its_first_body() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("q"))
    client.rest()
    broker = client.runner.world.broker
    (connection,) = broker.connections
    broker.set_alarms({"memory": "low on memory"}, is_busy=False)
    assert connection.is_reading
    client.feed(published("q", bytes(1 << 20))[:1000])
    client.rest()
    assert not connection.is_reading


def test_what_waits_behind_a_declare_holds_the_client_and_is_looked_at_when_its_turn_comes() -> None:
    client = Client(Runner())
    world = client.runner.world
    (connection,) = world.broker.connections
    channel = connection.channels[1]
    client.say(*(QueueDeclare(f"q{number}", no_wait=True, arguments={"note": "x" * 20_000}) for number in range(100)))
    last = channel.inbox[-1]
    while channel.inbox:
        assert channel.inbox[-1] is last or len(channel.inbox) < FEW
        assert connection.is_reading == (channel.inbox_size <= INBOX_LIMIT)
        proposals = world.broker.journal.take()
        for proposal in proposals:
            world.store._decide(proposal)
        agreement.settle(world.broker, proposals)
        world.turn()
    client.rest()
    assert connection.is_reading
    assert list(world.broker.vhosts["/"].queues) == [f"q{number}" for number in range(100)]


def test_a_channel_that_fails_while_it_waits_does_not_hold_its_client_for_ever() -> None:
    client = Client(Runner())
    world = client.runner.world
    (connection,) = world.broker.connections
    client.say(QueueDeclare("q", no_wait=True), *(QueueDeclare("q", arguments={"note": "x" * 20_000}) for _ in range(100)))
    assert not connection.is_reading
    connection.time_out(connection.channels[1], 1)
    client.rest()
    assert connection.is_reading
