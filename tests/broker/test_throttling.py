"""Publishers wait while an alarm is raised: those that have published, and those that have just begun to."""

from __future__ import annotations

from fuzz.client import Client, published
from fuzz.runner import Runner
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
