"""What one message does to others: those that it pushes out stay in order, and an exchange that goes takes only its own."""

from __future__ import annotations

import pytest

from fuzz.client import Client
from fuzz.runner import Runner
from mirrormq.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicGetOk,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from mirrormq.wire.properties import Properties


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_what_does_not_fit_stays_in_order_though_some_of_it_is_for_other_queues_too(overflow: str) -> None:
    client = Client(Runner())
    client.say(QueueDeclare("dead"), QueueDeclare("other"), QueueDeclare("q", arguments={
        "x-max-length": 1, "x-overflow": overflow, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}))
    client.say(QueueBind("q", "amq.fanout"), QueueBind("other", "amq.fanout"))
    client.heard()
    for number in range(6):
        client.publish("q", b"%d" % number, exchange="amq.fanout" if number % 3 == 1 else "")
    client.say(BasicConsume("dead", no_ack=True))
    client.heard()
    assert client.judge.bodies == sorted(client.judge.bodies)
    assert len(client.judge.bodies) == 5


def test_a_transaction_whose_delayed_exchange_is_deleted_commits() -> None:
    client = Client(Runner(), channels=2)
    client.say(QueueDeclare("q"), ExchangeDeclare("d", "x-delayed-message", arguments={"x-delayed-type": "fanout"}), TxSelect())
    client.heard()
    client.publish("", properties=Properties(headers={"x-delay": 1000}), exchange="d")
    client.publish("q")
    client.rest()
    client.say(ExchangeDelete("d"), channel=2)
    client.heard()
    client.say(TxCommit(), BasicGet("q"))
    assert [type(method) for method in client.heard()] == [TxCommitOk, BasicGetOk]
