"""When somebody sets the clock, nobody was silent, idle or slow for so long."""

from __future__ import annotations

import pytest

from fuzz.client import Client
from fuzz.runner import Runner
from mirrormq.node.heartbeats import HEARTBEAT, Heartbeats
from mirrormq.wire.methods import BasicConsume, QueueDeclare

HOUR = 3_600_000


class Node:
    """A client that beats every second, and holds a message; a queue that goes when it is not used for half an hour."""

    def __init__(self) -> None:
        self.client = Client(Runner())
        self.broker = self.client.runner.world.broker
        self.client.say(QueueDeclare("q", durable=True), QueueDeclare("idle", arguments={"x-expires": HOUR // 2}))
        self.client.publish("q")
        self.client.rest()
        self.client.say(BasicConsume("q", "t"))
        self.client.rest()
        (self.connection,) = self.broker.connections
        self.connection.heartbeat = 1
        self.told: list[str] = []
        self.steady = 0.0
        self.heartbeats = Heartbeats(self.broker, lambda _, text: self.told.append(text))
        self.heartbeats.beat(self.steady, 0.0)

    def live(self, milliseconds: int, *, step: int = 0, is_heard: bool = True) -> None:
        """Time goes by; the clock is set, and then nobody says anything until the next beat."""
        self.broker.now += step
        for _ in range(0, milliseconds, 500):
            self.steady += 0.5
            self.broker.now += 500
            self.heartbeats.beat(self.steady, 0.0)
            self.broker.fire()
            self.client.rest()
            if is_heard:
                self.connection.last_received = self.broker.now

    @property
    def is_served(self) -> bool:
        return self.connection in self.broker.connections


@pytest.mark.parametrize("step", [HOUR, -HOUR, 5_000, -5_000])
def test_a_clock_that_is_set_ends_no_connection_and_no_queue(step: int) -> None:
    node = Node()
    node.live(3_000)
    node.live(3_000, step=step)
    node.broker.check_overdue(HOUR // 2)
    assert node.is_served
    assert len(next(iter(node.connection.channels.values())).unacked) == 1
    assert "idle" in node.broker.vhosts["/"].queues
    assert len(node.told) == 1


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_after_the_clock_was_set_heartbeats_are_sent_and_missed_as_before(step: int) -> None:
    node = Node()
    node.live(3_000)
    sent = node.connection.sent_bytes
    node.live(2_000, step=step)
    assert node.connection.sent_bytes >= sent + 2 * len(HEARTBEAT)
    node.live(10_000, is_heard=False)
    assert not node.is_served


def test_after_the_clock_was_set_back_an_idle_queue_goes_in_its_time() -> None:
    node = Node()
    node.live(3_000)
    node.live(HOUR // 2 - 60_000, step=-HOUR)
    assert "idle" in node.broker.vhosts["/"].queues
    node.live(120_000)
    assert "idle" not in node.broker.vhosts["/"].queues
