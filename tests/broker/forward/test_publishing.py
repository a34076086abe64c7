"""Publishing to a queue whose home is another node."""

from __future__ import annotations

from broker.forward.cluster import Client, Cluster, bodies, methods, numbered
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)


def two() -> tuple[Cluster, Client, Client]:
    """Queue q lives on a; the second client is on b."""
    cluster = Cluster("a", "b")
    home, away = cluster.client("a", 2), cluster.client("b", 2)
    home.ask(QueueDeclare("q", durable=True))
    assert isinstance(cluster.nodes["b"].queue("q"), AwayQueue)
    return cluster, home, away


def contents(cluster: Cluster, name: str, queue: str = "q") -> list[bytes]:
    client = cluster.client(name)
    found: list[bytes] = []
    while got := bodies(client.ask(BasicGet(queue, no_ack=True))):
        found += got
    return found


def acks(client: Client) -> list[tuple[str, int, bool]]:
    return [("ack" if isinstance(each, BasicAck) else "nack", each.delivery_tag, each.multiple)
            for each in methods(client.heard(), BasicAck, BasicNack)]


def test_a_message_published_elsewhere_is_in_the_queue_once_and_in_order() -> None:
    cluster, _, away = two()
    away.publish("q", *numbered(1, 500))
    cluster.rest()
    away.publish("q", *numbered(501, 600), mode=1)
    cluster.rest()
    assert contents(cluster, "a") == numbered(1, 600)


def test_one_turn_is_confirmed_by_one_ack_when_it_is_stable_at_the_home() -> None:
    cluster, _, away = two()
    away.ask(ConfirmSelect())
    cluster.nodes["a"].is_disk_fast = False
    away.publish("q", *numbered(1, 10))
    assert acks(away) == []
    assert cluster.nodes["a"].queue("q").backlog.count == 10
    cluster.nodes["a"].is_disk_fast = True
    assert acks(away) == [("ack", 10, True)]


def test_a_transient_message_does_not_wait_but_its_confirm_does_not_overtake() -> None:
    cluster, _, away = two()
    away.ask(ConfirmSelect())
    cluster.nodes["a"].is_disk_fast = False
    away.publish("q", b"1")
    cluster.rest()
    away.publish("q", b"2", mode=1)
    assert acks(away) == []
    cluster.nodes["a"].is_disk_fast = True
    assert acks(away) == [("ack", 2, True)]


def test_what_the_home_refuses_is_refused_and_nothing_else() -> None:
    cluster, home, away = two()
    home.ask(QueueDeclare("short", arguments={"x-max-length": 2, "x-overflow": "reject-publish"}))
    away.ask(ConfirmSelect())
    away.publish("short", b"1")
    away.publish("q", b"2")
    away.publish("short", b"3", b"4")
    away.publish("q", b"5")
    away.publish("short", b"6")
    heard = acks(away)
    assert [each for each in heard if each[0] == "nack"] == [("nack", 4, False), ("nack", 6, False)]
    assert [each[1] for each in heard if each[0] == "ack"] == [1, 2, 3, 5]
    assert contents(cluster, "a", "short") == [b"1", b"3"]


def test_a_message_that_two_queues_refuse_is_refused_once() -> None:
    _, home, away = two()
    full = {"x-max-length": 0, "x-overflow": "reject-publish"}
    for client, name in ((home, "there"), (away, "here"), (home, "there too")):
        client.ask(QueueDeclare(name, arguments=full), QueueBind(name, "amq.fanout", ""))
    away.ask(ConfirmSelect())
    away.publish("", b"1", b"2", exchange="amq.fanout")
    assert acks(away) == [("nack", 1, False), ("nack", 2, False)]


def test_confirms_over_queues_of_several_homes_wait_for_all_of_them() -> None:
    cluster = Cluster("a", "b", "c")
    away = cluster.client("b")
    for name in cluster.nodes:
        cluster.client(name).ask(QueueDeclare(name, durable=True), QueueBind(name, "amq.fanout", ""))
    away.ask(ConfirmSelect())
    cluster.nodes["c"].is_disk_fast = False
    away.publish("", b"1", b"2", exchange="amq.fanout")
    assert acks(away) == []
    cluster.nodes["c"].is_disk_fast = True
    assert acks(away) == [("ack", 2, True)]
    assert [contents(cluster, name, name) for name in cluster.nodes] == [[b"1", b"2"]] * 3


def test_a_mandatory_message_is_returned_only_if_no_queue_anywhere_wants_it() -> None:
    _, _, away = two()
    away.publish("q", b"1", mandatory=True)
    away.publish("nobody", b"2", mandatory=True)
    returned = [each for each in away.heard() if isinstance(each.method, BasicReturn)]
    assert [each.body for each in returned] == [b"2"]


def test_a_commit_waits_for_publishes_and_acks_at_the_home() -> None:
    cluster, _, away = two()
    away.publish("q", b"1", b"2")
    cluster.rest()
    away.ask(BasicConsume("q", "t"))
    away.ask(TxSelect())
    away.publish("q", b"3")
    assert cluster.nodes["a"].queue("q").backlog.count == 0
    cluster.rest()
    assert cluster.nodes["a"].queue("q").held == 2
    cluster.nodes["a"].is_disk_fast = False
    away.say(BasicAck(1), BasicAck(2), TxCommit())
    heard = away.heard()
    assert methods(heard, TxCommitOk) == []
    assert bodies(heard) == [b"3"]
    cluster.nodes["a"].is_disk_fast = True
    assert methods(away.heard(), TxCommitOk)
    assert cluster.nodes["a"].queue("q").held == 1


def test_a_commit_of_acks_alone_waits_for_the_home() -> None:
    cluster, _, away = two()
    away.publish("q", b"1")
    away.ask(BasicConsume("q", "t"))
    away.ask(TxSelect())
    cluster.nodes["a"].is_disk_fast = False
    assert methods(away.ask(BasicAck(1), TxCommit()), TxCommitOk) == []
    cluster.nodes["a"].is_disk_fast = True
    assert methods(away.heard(), TxCommitOk)
    assert cluster.nodes["a"].queue("q").kept == 0


def test_a_rollback_leaves_nothing_at_the_home() -> None:
    cluster, _, away = two()
    away.ask(TxSelect())
    away.publish("q", b"1")
    away.ask(TxRollback())
    assert contents(cluster, "a") == []


def test_a_commit_of_which_the_home_refuses_a_part_fails() -> None:
    _, home, away = two()
    home.ask(QueueDeclare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"}))
    away.ask(TxSelect())
    away.publish("full", b"1")
    away.publish("q", b"2")
    closed = methods(away.ask(TxCommit()), ChannelClose)
    assert [(each.reply_code, each.failed_class_id, each.failed_method_id) for each in closed] == [(406, 90, 20)]
    assert "partial tx completion" in closed[0].reply_text


def test_a_publisher_that_overruns_a_home_is_not_read_until_it_has_caught_up() -> None:
    cluster, _, away = two()
    away.ask(ConfirmSelect())
    other = cluster.client("b")
    other.ask(QueueDeclare("local"))
    cluster.nodes["a"].is_disk_fast = False
    for _ in range(60):
        away.publish("q", b"x" * 100_000)
    cluster.rest()
    assert away.pipe.is_paused
    other.publish("local", b"1")
    assert not other.pipe.is_paused
    cluster.nodes["a"].is_disk_fast = True
    cluster.rest()
    assert not away.pipe.is_paused
    assert cluster.nodes["b"].broker.forwarding.embassy("a").load == 0


def test_an_exchange_declared_on_one_node_routes_to_queues_of_all() -> None:
    cluster, home, away = two()
    away.ask(ExchangeDeclare("e", "topic"), QueueBind("q", "e", "a.*"))
    away.publish("a.b", b"1", exchange="e")
    home.publish("a.c", b"2", exchange="e")
    cluster.rest()
    assert sorted(contents(cluster, "b")) == [b"1", b"2"]
