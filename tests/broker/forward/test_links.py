"""Links that break in the middle of things, and homes that go down."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Client, Cluster, bodies, methods, numbered
from mirrormq.broker.metadata import key
from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicQos,
    ChannelClose,
    ConfirmSelect,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)


def two() -> tuple[Cluster, Client, Client]:
    cluster = Cluster("a", "b")
    home, away = cluster.client("a", 2), cluster.client("b", 2)
    home.ask(QueueDeclare("q", durable=True))
    return cluster, home, away


def contents(cluster: Cluster, name: str, queue: str = "q") -> list[bytes]:
    client = cluster.client(name)
    found: list[bytes] = []
    while got := bodies(client.ask(BasicGet(queue, no_ack=True))):
        found += got
    return found


def told(client: Client) -> list[tuple[str, int]]:
    return [("ack" if isinstance(each, BasicAck) else "nack", each.delivery_tag)
            for each in methods(client.heard(), BasicAck, BasicNack)]


@pytest.mark.parametrize("arrive", range(5))
@pytest.mark.parametrize("confirms", range(4))
def test_a_link_that_breaks_under_publishes_makes_neither_duplicates_nor_losses(arrive: int, confirms: int) -> None:
    cluster, _, away = two()
    away.ask(ConfirmSelect())
    for first in (1, 11, 21):
        away.publish("q", *numbered(first, first + 9))
        cluster.turn("b")
    cluster.carry("b", "a", arrive)
    cluster.turn("a")
    cluster.cut("a", "b", (confirms, 0))
    away.publish("q", *numbered(31, 40))
    cluster.rest()
    cluster.heal("a", "b")
    confirmed = told(away)
    assert {kind for kind, _ in confirmed} == {"ack"}
    assert confirmed[-1] == ("ack", 40)
    assert contents(cluster, "a") == numbered(1, 40)
    assert not cluster.nodes["b"].broker.forwarding.embassy("a").load


def test_refusals_that_were_lost_with_a_link_are_told_again() -> None:
    cluster, home, away = two()
    home.ask(QueueDeclare("short", arguments={"x-max-length": 1, "x-overflow": "reject-publish"}))
    away.ask(ConfirmSelect())
    away.publish("short", b"1", b"2")
    cluster.turn("b")
    cluster.carry("b", "a")
    cluster.turn("a")
    cluster.cut("a", "b")
    cluster.heal("a", "b")
    assert sorted(told(away)) == [("ack", 1), ("nack", 2)]
    away.publish("short", b"3")
    assert told(away) == [("nack", 3)]
    known = next(iter(cluster.nodes["a"].queue("short").publishers.values()))
    away.publish("short", b"4")
    cluster.rest()
    assert known.refused == [4]             # what was heard of is forgotten


def test_what_a_cut_off_consumer_held_comes_again_as_redelivered_and_old_acks_hit_nothing() -> None:
    cluster, home, away = two()
    home.publish("q", *numbered(1, 5))
    away.ask(BasicQos(0, 3), BasicConsume("q", "t"))
    cluster.cut("a", "b")
    cluster.rest()
    queue = cluster.nodes["a"].queue("q")
    assert (queue.held, queue.backlog.count, len(queue.turns.everyone)) == (0, 5, 0)
    cluster.heal("a", "b")
    heard = away.heard()
    assert bodies(heard) == numbered(1, 3)
    assert [each.redelivered for each in methods(heard, BasicDeliver)] == [True, True, True]
    assert methods(heard, BasicConsumeOk, BasicCancel) == []
    away.ask(BasicAck(3, multiple=True))    # of the first session
    assert (queue.held, queue.backlog.count) == (3, 2)
    assert bodies(away.ask(BasicAck(6, multiple=True))) == numbered(4, 5)
    assert queue.kept == 2


def test_deliveries_lost_with_a_link_are_delivered_after_it() -> None:
    cluster, home, away = two()
    away.ask(BasicConsume("q", "t"))
    home.publish("q", *numbered(1, 10))
    cluster.turn("a")
    cluster.cut("a", "b")
    cluster.heal("a", "b")
    assert bodies(away.heard()) == numbered(1, 10)


OPERATIONS: list[tuple[Method, type[Method]]] = [
    (BasicGet("q"), Method), (QueuePurge("q"), QueuePurgeOk), (QueueDeclare("q", passive=True), QueueDeclareOk),
    (QueueDelete("q"), QueueDeleteOk), (BasicConsume("q", "t"), BasicConsumeOk),
]  # fmt: skip


@pytest.mark.parametrize("stage", ["not sent", "sent", "arrived", "answered"])
@pytest.mark.parametrize(("method", "answer"), OPERATIONS)
def test_an_operation_in_whose_middle_the_link_breaks_is_answered_after_it_heals(
    method: Method, answer: type[Method], stage: str
) -> None:
    cluster, home, away = two()
    home.publish("q", b"1")
    cluster.rest()
    if stage == "not sent":
        cluster.cut("a", "b")
    away.say(method)
    cluster.turn("b")
    if stage in ("arrived", "answered"):
        cluster.carry("b", "a")
        if stage == "answered":
            cluster.turn("a")
    if stage != "not sent":
        cluster.cut("a", "b")
    cluster.rest()
    assert away.heard() == []
    cluster.heal("a", "b")
    heard = away.heard()
    assert isinstance(heard[0].method, answer)
    if isinstance(method, BasicGet | BasicConsume):
        assert bodies(heard) == [b"1"]
        assert cluster.nodes["a"].queue("q").held == 1
    assert not away.connection.channels[1].is_suspended


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_cancel_needs_no_link(is_sent: bool) -> None:
    cluster, _, away = two()
    away.ask(BasicConsume("q", "t"))
    if not is_sent:
        cluster.cut("a", "b")
    away.say(BasicCancel("t"))
    if is_sent:
        cluster.cut("a", "b")
    assert methods(away.heard(), BasicCancelOk)
    cluster.heal("a", "b")
    cluster.rest()
    assert not cluster.nodes["a"].queue("q").turns.everyone


def test_a_commit_survives_a_broken_link() -> None:
    cluster, _, away = two()
    away.ask(TxSelect())
    away.publish("q", b"1")
    away.say(TxCommit())
    cluster.turn("b")
    cluster.carry("b", "a")
    cluster.cut("a", "b")
    assert methods(away.heard(), TxCommitOk) == []
    cluster.heal("a", "b")
    assert methods(away.heard(), TxCommitOk)
    assert contents(cluster, "a") == [b"1"]


def test_a_commit_waits_until_acknowledgements_that_came_a_turn_before_its_fence_are_synced() -> None:
    cluster, home, away = two()
    home.publish("q", b"1")
    away.ask(TxSelect())
    away.ask(BasicGet("q"))
    log = cluster.nodes["a"].log
    away.say(BasicAck(1), TxCommit())
    cluster.turn("b")
    cluster.carry("b", "a", 1)
    cluster.turn("a")
    assert log.wanted < log.position
    cluster.rest()
    assert log.wanted == log.position
    assert methods(away.heard(), TxCommitOk)


def test_an_exclusive_consumer_that_lost_its_place_is_cancelled() -> None:
    cluster, home, away = two()
    away.ask(BasicConsume("q", "t", exclusive=True))
    cluster.cut("a", "b")
    home.ask(BasicConsume("q", "mine", exclusive=True))
    cluster.heal("a", "b")
    assert [each.consumer_tag for each in methods(away.heard(), BasicCancel)] == ["t"]


def test_a_channel_that_closes_while_the_link_is_down_leaves_nothing_behind() -> None:
    cluster, home, away = two()
    home.publish("q", b"1")
    away.ask(BasicConsume("q", "t"))
    away.ask(BasicGet("q"), channel=2)
    cluster.cut("a", "b")
    away.say(BasicGet("q"), channel=2)
    away.lose()
    cluster.heal("a", "b")
    cluster.rest()
    queue = cluster.nodes["a"].queue("q")
    assert (queue.held, queue.backlog.count, len(queue.turns.everyone)) == (0, 1, 0)
    embassy = cluster.nodes["b"].broker.forwarding.embassy("a")
    assert not embassy.consumers
    assert not embassy.requests


# --- homes that go down ---


def test_a_home_that_restarted_leaves_the_outcome_of_publishes_open() -> None:
    cluster, _, away = two()
    away.ask(ConfirmSelect())
    away.publish("q", b"1")
    cluster.turn("b")
    cluster.cut("a", "b")
    away.publish("q", b"2")
    cluster.rest()
    cluster.nodes["a"].incarnation = 2
    cluster.heal("a", "b")
    assert told(away) == [("nack", 1), ("ack", 2)]
    assert contents(cluster, "a") == [b"2"]


def test_when_a_home_goes_down_publishes_are_refused_and_consumers_cancelled() -> None:
    cluster, _, away = two()
    away.ask(ConfirmSelect())
    away.ask(BasicConsume("q", "t"), channel=2)
    away.publish("q", b"1", b"2")
    cluster.turn("b")
    away.publish("q", b"3")
    cluster.gone("a")
    heard = away.heard()
    assert [each.delivery_tag for each in methods(heard, BasicNack)] == [1, 2, 3]
    assert [each.consumer_tag for each in methods(heard, BasicCancel)] == ["t"]
    assert away.connection.channels[2].consumers == {}
    away.publish("q", b"4")
    assert told(away) == [("nack", 4)]


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("method", [each[0] for each in OPERATIONS])
def test_operations_on_a_queue_whose_home_is_down_fail(method: Method, when: str) -> None:
    cluster, _, away = two()
    if when == "before":
        cluster.gone("a")
        away.say(method)
    else:
        away.say(method, BasicQos(0, 1))
        cluster.gone("a")
    closed = methods(away.heard(), ChannelClose)
    assert [each.reply_text for each in closed] == [
        "NOT_FOUND - home node 'a' of durable queue 'q' in vhost '/' is down or inaccessible"
    ]
    assert closed[0].failed_class_id << 16 | closed[0].failed_method_id == method.id


def test_after_a_home_has_come_back_all_is_well() -> None:
    cluster, _, away = two()
    cluster.gone("a")
    cluster.nodes["a"].incarnation = 2
    cluster.heal("a", "b")
    away.ask(ConfirmSelect())
    away.publish("q", b"1")
    assert told(away) == [("ack", 1)]
    assert bodies(away.ask(BasicGet("q"))) == [b"1"]


def test_a_client_that_closed_a_suspended_channel_hears_close_ok_though_its_method_failed() -> None:
    cluster, _, away = two()
    away.say(BasicGet("q"), ChannelClose(200, "bye", 0, 0))
    cluster.gone("a")
    heard = away.heard()
    assert [type(each.method).__name__ for each in heard] == ["ChannelClose", "ChannelCloseOk"]


@pytest.mark.parametrize("when", ["sent", "not sent", "later"])
def test_nobody_waits_for_an_exclusive_queue_whose_node_has_started_anew(when: str) -> None:
    """Its record goes with the lease of the former process, which may take longer than the start."""
    cluster = Cluster("a", "b")
    home, away = cluster.client("a"), cluster.client("b", 2)
    home.ask(QueueDeclare("mine", exclusive=True), QueueBind("mine", "amq.fanout", ""))
    away.ask(QueueDeclare("q"), QueueBind("q", "amq.fanout", ""), ConfirmSelect())
    if when == "sent":
        away.publish("", b"1", exchange="amq.fanout")
        cluster.turn("b")
    cluster.cut("a", "b")
    if when == "not sent":
        away.publish("", b"1", exchange="amq.fanout")
        cluster.rest()
    del cluster.nodes["a"].broker.queues_by_log[cluster.nodes["a"].queue("mine").log_id]
    cluster.nodes["a"].incarnation = 2
    cluster.heal("a", "b")
    if when == "later":
        away.publish("", b"1", exchange="amq.fanout")
    assert told(away) == [("nack", 1)]
    away.say(QueueDeclare("mine", exclusive=True), channel=2)
    assert away.heard() == []
    cluster.store.put(key("queue", "/", "mine"), None)
    assert methods(away.heard(), QueueDeclareOk)


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_transient_queue_that_is_younger_than_its_node_is_used_when_the_link_is_back(*, is_gone: bool) -> None:
    """The node has started anew, and its clients came before the link to it."""
    cluster = Cluster("a", "b")
    cluster.client("a").ask(QueueDeclare("old", auto_delete=True))
    away = cluster.client("b")
    away.ask(ConfirmSelect())
    if is_gone:
        cluster.gone("a")
    else:
        cluster.cut("a", "b")
    cluster.nodes["a"].incarnation = 2
    home = cluster.client("a")
    home.ask(QueueDeclare("new", auto_delete=True), BasicConsume("new", "t"))
    if not is_gone:
        away.publish("new", b"0")
    cluster.heal("a", "b")
    away.publish("new", b"1")
    assert {how for how, _ in told(away)} == {"ack"}
    assert bodies(home.heard()) == [b"0", b"1"][is_gone:]
    away.publish("old", b"2")
    assert [how for how, _ in told(away)] == ["nack"]


def test_what_was_delivered_before_a_queue_begins_anew_is_stale() -> None:
    cluster = Cluster("a", "b")
    cluster.client("a").ask(QueueDeclare("q", durable=True))
    cluster.mirror("q")
    publisher, consumer, getter = cluster.client("b"), cluster.client("b"), cluster.client("b")
    publisher.publish("q", *numbered(1, 9))
    assert bodies(consumer.ask(BasicQos(0, 1), BasicConsume("q", "t"))) == [b"1"]
    assert bodies(consumer.ask(BasicAck(1))) == [b"2"]
    publisher.publish("q", b"10")
    cluster.turn("b")
    cluster.ports["b", "a"].sent.clear()        # so what is published next comes too early
    consumer.say(BasicAck(2))
    cluster.turn("b")
    getter.say(BasicGet("q"))                   # what came before it is shared out first, and then it has to wait
    cluster.turn("b")
    publisher.publish("q", b"11")
    cluster.turn("b")
    assert bodies(consumer.heard()) == [b"3", b"3"]
    (queue,) = cluster.nodes["a"].broker.queues_by_log.values()
    held = queue.held
    assert bodies(consumer.ask(BasicAck(3))) == []
    assert queue.held == held
    assert bodies(consumer.ask(BasicAck(4))) == [b"5"]
