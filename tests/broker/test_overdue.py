"""What a client leaves unacknowledged for too long closes its channel, however it came by it."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Client, Cluster, bodies, methods
from mirrormq.wire.methods import BasicAck, BasicConsume, BasicGet, ChannelClose, QueueDeclare, TxRollback, TxSelect

HALF_AN_HOUR = 1_800_000
SOON = 1_000


def declare(client: Client, queue: str, timeout: int | None = None) -> None:
    arguments = {} if timeout is None else {"x-consumer-timeout": timeout}
    client.ask(QueueDeclare(queue, durable=True, arguments=dict(arguments)))


def closes(cluster: Cluster, client: Client, timeout: int = HALF_AN_HOUR) -> list[str]:
    """Why its channels close when the node looks for what is overdue."""
    cluster.nodes["a"].broker.check_overdue(timeout)
    return [str(each.reply_text) for each in methods(client.heard(), ChannelClose) if isinstance(each, ChannelClose)]


@pytest.mark.parametrize("home", ["a", "b"])
@pytest.mark.parametrize("by", ["get", "consume"])
def test_what_was_taken_and_not_acknowledged_is_overdue(home: str, by: str) -> None:
    """Home or away, by get or as a consumer."""
    cluster = Cluster("a", "b")
    declare(cluster.client(home), "q")
    client = cluster.client("a")
    client.publish("q", b"1")
    taken = client.ask(BasicGet("q") if by == "get" else BasicConsume("q"))
    assert bodies(taken) == [b"1"]
    cluster.wait(HALF_AN_HOUR)
    assert closes(cluster, client) == []
    cluster.wait(1)
    assert "acknowledgement on channel 1 timed out" in closes(cluster, client)[0]
    assert cluster.nodes[home].queue("q").backlog.count == 1


def test_each_delivery_has_the_time_of_its_own_queue() -> None:
    """The oldest may wait longer than one that came later."""
    cluster = Cluster("a")
    client = cluster.client("a")
    declare(client, "patient")
    declare(client, "hasty", SOON)
    client.publish("patient", b"1")
    client.publish("hasty", b"2")
    client.ask(BasicConsume("patient"))
    client.ask(BasicConsume("hasty"))
    cluster.wait(SOON)
    assert closes(cluster, client) == []
    cluster.wait(1)
    assert "Timeout value used: 1000 ms" in closes(cluster, client)[0]


def test_without_a_limit_of_the_node_the_queues_own_holds() -> None:
    cluster = Cluster("a")
    client = cluster.client("a")
    declare(client, "patient")
    declare(client, "hasty", SOON)
    client.publish("patient", b"1")
    client.ask(BasicGet("patient"))
    cluster.wait(SOON + 1)
    assert closes(cluster, client, -1) == []
    client.publish("hasty", b"2")
    client.ask(BasicGet("hasty"))
    cluster.wait(SOON + 1)
    assert len(closes(cluster, client, -1)) == 1


def test_what_a_transaction_gives_back_is_as_old_as_it_was() -> None:
    cluster = Cluster("a")
    client = cluster.client("a")
    declare(client, "q")
    client.ask(TxSelect())
    other = cluster.client("a")
    other.publish("q", b"1")
    client.ask(BasicGet("q"))
    cluster.wait(HALF_AN_HOUR)
    other.publish("q", b"2")
    client.ask(BasicGet("q"))
    client.ask(BasicAck(1), TxRollback())
    cluster.wait(1)
    assert len(closes(cluster, client)) == 1
