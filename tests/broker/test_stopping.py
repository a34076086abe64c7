"""A queue whose log turns out to be damaged is taken out of service; its clients are told, and everything else goes on."""

from __future__ import annotations

import pytest

from fuzz.client import Client, published
from fuzz.runner import Runner
from mirrormq.broker.queue import Queue
from mirrormq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from mirrormq.wire.properties import Properties
from mirrormq.wire.table import Table

MEBI = 1 << 20
WORDS = "NOT_FOUND - queue 'q' in vhost '/' is damaged and not served: log 2 is damaged"


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def client(runner: Runner) -> Client:
    return Client(runner, channels=2)


def damaged(runner: Runner, client: Client, arguments: Table | None = None, *, messages: int = 12) -> Queue:
    """The queue `q` with more large messages than it keeps in memory, in a log that cannot be used any more."""
    client.say(QueueDeclare("sound", durable=True), QueueDeclare("q", durable=True, arguments=arguments))
    client.rest()
    for number in range(messages):
        client.publish("q", bytes([number]) * MEBI)
    client.heard()
    return damage(runner)


def damage(runner: Runner) -> Queue:
    queue = runner.world.broker.vhosts["/"].queues["q"]
    runner.world.log.damaged.add(int(queue.log_id))
    return queue


def refusals(heard: list[Method]) -> list[tuple[int, str]]:
    return [(method.reply_code, method.reply_text) for method in heard if isinstance(method, ChannelClose)]


def test_a_get_that_meets_the_damage_is_answered_and_the_connection_stays(runner: Runner, client: Client) -> None:
    queue = damaged(runner, client)
    client.say(*[BasicGet("q", no_ack=True)] * 12)
    heard = client.heard()
    assert refusals(heard) == [(404, WORDS.replace("log 2", f"log {queue.log_id}"))]
    client.say(BasicGet("q"), channel=2)
    assert refusals(client.heard())[0][0] == 404
    assert runner.world.broker.connections
    assert not runner.world.host.faults


def test_other_queues_are_served_in_the_turn_in_which_the_damage_is_met(runner: Runner, client: Client) -> None:
    damaged(runner, client)
    client.say(BasicConsume("q", "t", no_ack=True), ConfirmSelect())
    client.feed(published("sound"))
    assert [method.delivery_tag for method in client.heard() if isinstance(method, BasicAck)] == [1]
    client.say(BasicGet("sound"))
    assert isinstance(client.heard()[-1], BasicGetOk)


def test_publishes_that_the_log_does_not_take_are_refused(runner: Runner, client: Client) -> None:
    damaged(runner, client, messages=0)
    client.say(ConfirmSelect())
    client.feed(published("q") + published("q"))
    assert [method.delivery_tag for method in client.heard() if isinstance(method, BasicNack)] == [1, 2]
    client.feed(published("q"))
    assert [method.delivery_tag for method in client.heard() if isinstance(method, BasicNack)] == [3]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
def test_a_publish_that_meets_the_damage_in_a_full_queue_ends_no_connection(
    runner: Runner, client: Client, overflow: str
) -> None:
    damaged(runner, client, {"x-max-length": 12, "x-overflow": overflow})
    client.say(BasicQos(0, 8), BasicConsume("q", "t"), ConfirmSelect())
    for _ in range(30):
        client.feed(published("q"))
    heard = client.heard()
    assert any(isinstance(method, BasicNack) for method in heard)
    client.feed(published("sound"))
    assert isinstance(client.heard()[-1], BasicAck)


@pytest.mark.parametrize("arguments", [{}, {"x-dead-letter-exchange": "amq.fanout"}])
@pytest.mark.parametrize("requeue", [True, False])
def test_a_message_that_cannot_be_read_again_stays_in_the_log(
    runner: Runner, client: Client, arguments: Table, *, requeue: bool
) -> None:
    queue = damaged(runner, client, arguments, messages=1)
    runner.world.log.damaged.clear()
    client.say(BasicGet("q"))
    client.heard()
    held = next(iter(next(iter(runner.world.broker.connections)).channels.values())).unacked[1]
    held.message.content = b""  # as for messages beyond what is kept of unacknowledged ones
    damage(runner)
    client.say(BasicReject(1, requeue=requeue))
    assert client.heard() == []
    if requeue:
        client.say(BasicGet("q"))       # it is read when its turn comes
        client.heard()
    if requeue or arguments:
        assert queue.damage
        assert list(queue.snapshot(final=False).live) == [held.message.index]


def test_a_commit_that_the_log_does_not_take_is_refused(runner: Runner, client: Client) -> None:
    damaged(runner, client, messages=0)
    client.say(TxSelect())
    client.feed(published("q"))
    client.say(TxCommit())
    assert refusals(client.heard()) == [(406, "PRECONDITION_FAILED - partial tx completion")]


def test_a_delay_that_the_log_does_not_take_is_refused(runner: Runner, client: Client) -> None:
    client.say(ExchangeDeclare("late", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}))
    client.say(ConfirmSelect())
    client.feed(published("k", properties=Properties(delivery_mode=2, headers={"x-delay": 1000}), exchange="late"))
    client.heard()
    (delays,) = runner.world.broker.delays.queues.values()
    runner.world.log.damaged.add(int(delays.log_id))
    for tag in (2, 3):
        client.feed(published("k", properties=Properties(delivery_mode=2, headers={"x-delay": 1000}), exchange="late"))
        assert [method.delivery_tag for method in client.heard() if isinstance(method, BasicNack)] == [tag]


def test_a_purge_that_meets_the_damage_is_answered_and_the_queue_can_be_deleted(runner: Runner, client: Client) -> None:
    client.say(QueueDeclare("q", durable=True, arguments={"x-max-priority": 3}))
    client.feed(published("q") * 4000)
    client.heard()
    damage(runner)
    client.say(QueuePurge("q"))
    assert refusals(client.heard())[0][0] == 404
    client.say(QueueDelete("q"), channel=2)
    assert isinstance(client.heard()[-1], QueueDeleteOk)


def test_a_closed_channel_can_be_opened_again(runner: Runner, client: Client) -> None:
    damaged(runner, client)
    client.say(*[BasicGet("q")] * 12)
    client.heard()
    client.say(ChannelOpen(), channel=3)
    assert isinstance(client.heard()[-1], ChannelOpenOk)


def test_a_publish_that_the_log_does_not_take_in_the_middle_of_a_turn_is_refused(runner: Runner, client: Client) -> None:
    """What is gathered is appended before something is read, and the log has been damaged meanwhile."""
    damaged(runner, client, messages=1)
    runner.world.log.damaged.clear()
    client.say(BasicGet("q"))
    client.heard()
    held = next(iter(next(iter(runner.world.broker.connections)).channels.values())).unacked[1]
    held.message.content = b""
    client.say(BasicReject(1, requeue=True), ConfirmSelect())
    client.heard()
    damage(runner)
    client.feed(published("q"))
    client.say(BasicConsume("q", "t"))
    heard = client.heard()
    assert [method.delivery_tag for method in heard if isinstance(method, BasicNack)] == [1]
    assert not [method for method in heard if isinstance(method, BasicAck)]
