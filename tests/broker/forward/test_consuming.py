"""Consuming from queues whose home is another node."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Client, Cluster, bodies, methods, numbered
from mirrormq.broker.forward.away import WINDOW
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
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclare,
)


def two(**arguments: object) -> tuple[Cluster, Client, Client]:
    cluster = Cluster("a", "b")
    home, away = cluster.client("a", 2), cluster.client("b", 2)
    given = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    home.ask(QueueDeclare("q", durable=True, arguments=given))
    return cluster, home, away


def test_deliveries_come_in_order_behind_consume_ok_and_acks_reach_the_home() -> None:
    cluster, home, away = two()
    home.publish("q", *numbered(1, 100))
    heard = away.ask(BasicConsume("q", "t"))
    assert isinstance(heard[0].method, BasicConsumeOk)
    assert bodies(heard) == numbered(1, 100)
    queue = cluster.nodes["a"].queue("q")
    assert (queue.held, queue.backlog.count) == (100, 0)
    away.ask(BasicAck(60, multiple=True))
    assert queue.held == 40
    away.ask(BasicAck(100), BasicAck(70, multiple=True))
    assert queue.held == 29
    assert len(cluster.nodes["a"].broker.forwarding.receptions["b"].stays[queue.log_id].unacked) == 29


@pytest.mark.parametrize("prefetch", [0, 1, 10])
def test_prefetch_of_a_consumer_holds_from_end_to_end(prefetch: int) -> None:
    _, home, away = two()
    home.publish("q", *numbered(1, 30))
    heard = away.ask(BasicQos(0, prefetch), BasicConsume("q", "t"))
    seen = bodies(heard)
    assert len(seen) == (prefetch or 30)
    tag = 0
    while len(seen) < 30:
        tag += 1
        seen += bodies(away.ask(BasicAck(tag)))
        assert len(seen) == min(prefetch + tag, 30)
    assert seen == numbered(1, 30)


def test_a_limit_of_the_channel_holds_over_queues_of_two_homes() -> None:
    cluster = Cluster("a", "b", "c")
    away = cluster.client("b")
    for name in cluster.nodes:
        client = cluster.client(name)
        client.ask(QueueDeclare(name))
        client.publish(name, *numbered(1, 20))
    heard = away.ask(BasicQos(0, 5, global_=True), *(BasicConsume(name, name) for name in cluster.nodes))
    seen = len(bodies(heard))
    assert seen == 5
    tag = 0
    while seen < 60:
        tag += 1
        seen += len(bodies(away.ask(BasicAck(tag))))
        assert seen == min(5 + tag, 60)
    away.ask(BasicAck(0, multiple=True))
    assert all(cluster.nodes[name].queue(name).held == 0 for name in cluster.nodes)


def test_a_limit_that_is_raised_later_reaches_the_home() -> None:
    _, home, away = two()
    home.publish("q", *numbered(1, 20))
    assert len(bodies(away.ask(BasicQos(0, 3, global_=True), BasicConsume("q", "t")))) == 3
    assert len(bodies(away.ask(BasicQos(0, 8, global_=True)))) == 5


def test_consumers_of_all_nodes_take_turns() -> None:
    cluster = Cluster("a", "b", "c")
    clients = [cluster.client(name) for name in cluster.nodes]
    clients[0].ask(QueueDeclare("q"))
    for client in clients:
        client.ask(BasicConsume("q", "t"))
    clients[1].publish("q", *numbered(1, 30), mode=1)
    assert [len(bodies(client.heard())) for client in clients] == [10, 10, 10]


def test_a_consumer_with_priority_comes_first_wherever_it_is() -> None:
    _, home, away = two()
    home.ask(BasicConsume("q", "low"))
    away.ask(BasicQos(0, 5), BasicConsume("q", "high", arguments={"x-priority": 5}))
    home.publish("q", *numbered(1, 8))
    assert bodies(away.heard()) == numbered(1, 5)
    assert bodies(home.heard()) == numbered(6, 8)


def test_an_exclusive_consumer_keeps_others_out_wherever_they_are() -> None:
    _, home, away = two()
    away.ask(BasicConsume("q", "mine", exclusive=True))
    closed = methods(home.ask(BasicConsume("q", "t")), ChannelClose)
    assert closed[0].reply_code == 403
    again = methods(away.ask(BasicConsume("q", "t2"), channel=2), ChannelClose)
    assert (again[0].reply_code, again[0].reply_text) == (403, closed[0].reply_text)
    assert (again[0].failed_class_id, again[0].failed_method_id) == (60, 20)
    assert "queue 'q' in vhost '/' in exclusive use" in again[0].reply_text


def test_a_single_active_consumer_is_succeeded_by_one_on_another_node() -> None:
    _, home, away = two(single_active_consumer=True)
    away.ask(BasicConsume("q", "first"))
    home.ask(BasicConsume("q", "second"))
    home.publish("q", b"1")
    assert bodies(away.heard()) == [b"1"]
    away.ask(BasicAck(1), BasicCancel("first"))
    home.publish("q", b"2")
    assert bodies(home.heard()) == [b"2"]


def test_without_acks_nothing_is_held() -> None:
    cluster, home, away = two()
    home.publish("q", *numbered(1, 10))
    assert bodies(away.ask(BasicConsume("q", "t", no_ack=True))) == numbered(1, 10)
    queue = cluster.nodes["a"].queue("q")
    assert (queue.held, queue.backlog.count, queue.kept) == (0, 0, 0)


def test_what_is_requeued_comes_again_as_redelivered_and_what_is_rejected_goes() -> None:
    cluster, home, away = two()
    home.publish("q", *numbered(1, 3))
    away.ask(BasicConsume("q", "t"))
    heard = away.ask(BasicReject(1, requeue=False), BasicNack(3, multiple=True, requeue=True))
    assert bodies(heard) == numbered(2, 3)
    assert all(each.redelivered for each in methods(heard, BasicDeliver))
    again = away.ask(BasicRecover(requeue=True))
    assert bodies(again) == numbered(2, 3)
    assert cluster.nodes["a"].queue("q").kept == 2


def test_cancel_ok_comes_behind_what_was_under_way_and_what_is_held_can_still_be_acked() -> None:
    cluster, home, away = two()
    away.ask(BasicConsume("q", "t"))
    home.publish("q", *numbered(1, 3))
    cluster.turn("a")                       # deliveries are under way
    away.say(BasicCancel("t"))
    heard = away.heard()
    assert [type(each.method) for each in heard] == [BasicDeliver] * 3 + [BasicCancelOk]
    home.publish("q", b"4")
    assert bodies(away.heard()) == []
    away.ask(BasicAck(3, multiple=True))
    queue = cluster.nodes["a"].queue("q")
    assert (queue.held, queue.backlog.count, len(queue.turns.everyone)) == (0, 1, 0)


def test_an_auto_delete_queue_goes_with_its_last_consumer_on_another_node() -> None:
    cluster, home, away = two()
    home.ask(QueueDeclare("fleeting", auto_delete=True))
    away.ask(BasicConsume("fleeting", "t"))
    assert methods(away.ask(BasicCancel("t"))) == [BasicCancelOk("t")]
    assert all("fleeting" not in node.broker.vhosts["/"].queues for node in cluster.nodes.values())


@pytest.mark.parametrize("how", ["channel", "connection"])
def test_what_a_dead_channel_held_or_had_under_way_goes_back(how: str) -> None:
    cluster, home, away = two()
    home.publish("q", *numbered(1, 3))
    away.ask(BasicQos(0, 4), BasicConsume("q", "t"))
    away.ask(BasicAck(1))
    home.publish("q", *numbered(4, 5))
    cluster.turn("a")
    if how == "channel":
        assert methods(away.ask(BasicAck(2), ChannelClose(200, "bye", 0, 0)), ChannelCloseOk)
    else:
        away.say(BasicAck(2))
        away.lose()
        cluster.rest()
    queue = cluster.nodes["a"].queue("q")
    assert (queue.held, len(queue.turns.everyone)) == (0, 0)
    assert not cluster.nodes["a"].broker.forwarding.receptions["b"].guests.guests
    heard = home.ask(BasicConsume("q", "mine"))
    assert bodies(heard) == numbered(3, 5)


def test_a_slow_client_gets_no_more_than_its_window_and_the_rest_when_it_reads() -> None:
    cluster, home, away = two()
    away.ask(BasicConsume("q", "t"))
    away.connection.choke()
    body = b"x" * 50_000
    for _ in range(40):
        home.publish("q", body)
    cluster.rest()
    queue = cluster.nodes["a"].queue("q")
    assert WINDOW <= queue.held * 50_000 <= 2 * WINDOW
    away.connection.relax()
    heard = away.heard()
    assert len(bodies(heard)) == 40
    assert queue.backlog.count == 0


def test_a_message_larger_than_the_window_is_delivered() -> None:
    _, home, away = two()
    home.publish("q", b"x" * (2 * WINDOW), b"y" * (2 * WINDOW), b"z")
    assert [len(body) for body in bodies(away.ask(BasicConsume("q", "t")))] == [2 * WINDOW, 2 * WINDOW, 1]


def test_a_clogged_link_stops_deliveries_until_it_drains() -> None:
    cluster, home, away = two()
    away.ask(BasicConsume("q", "t"))
    port = cluster.ports["a", "b"]
    port.clogged = 100 << 20
    home.publish("q", b"1")
    cluster.rest()
    home.publish("q", b"2", b"3")
    assert bodies(away.heard()) == [b"1"]
    port.clogged = 0
    cluster.nodes["a"].broker.forwarding.drained("b")
    assert bodies(away.heard()) == [b"2", b"3"]


def test_two_clients_of_a_node_consume_from_one_queue_beside_gets() -> None:
    cluster, home, away = two()
    other = cluster.client("b")
    home.publish("q", *numbered(1, 9))
    got = bodies(away.ask(BasicGet("q")))
    away.ask(BasicQos(0, 4), BasicConsume("q", "t"), channel=2)
    other.say(BasicConsume("q", "t"))
    seen = bodies(other.heard())
    assert got == [b"1"]
    assert len(seen) == 4
    away.ask(BasicAck(1))
    other.ask(BasicAck(4, multiple=True))
    assert cluster.nodes["a"].queue("q").held == 4


def test_a_channel_closes_when_the_auto_delete_queue_of_its_last_consumer_elsewhere_is_gone() -> None:
    cluster, home, away = two()
    home.ask(QueueDeclare("fleeting", auto_delete=True), QueueDeclare("other", auto_delete=True))
    away.ask(BasicConsume("fleeting", "x"), BasicConsume("other", "y"))
    away.say(ChannelClose(200, "", 0, 0))
    for _ in range(20):
        for name in cluster.nodes:
            cluster.turn(name)
        for pair in list(cluster.ports):
            cluster.carry(*pair)
    assert methods(away.heard(rest=False)) == []
    assert [type(method) for method in methods(away.heard())] == [ChannelCloseOk]
    assert set(cluster.nodes["b"].broker.vhosts["/"].queues) == {"q"}


def test_a_channel_closes_though_the_home_of_its_consumer_is_cut_off() -> None:
    cluster, home, away = two()
    home.ask(QueueDeclare("fleeting", auto_delete=True))
    away.ask(BasicConsume("fleeting", "x"))
    away.say(ChannelClose(200, "", 0, 0))
    cluster.turn("b")
    cluster.cut("a", "b")
    assert [type(method) for method in methods(away.heard())] == [ChannelCloseOk]
