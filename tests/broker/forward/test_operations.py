"""Get, purge, delete, declare and direct replies over nodes."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Client, Cluster, bodies, methods, numbered
from mirrormq.broker.forward.codec import ANSWER, ANSWERED, ASKED, CONFIRM, INSPECT, PUBLISH, RUN
from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicReturn,
    ChannelClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from mirrormq.wire.properties import Properties, decode_properties


def two() -> tuple[Cluster, Client, Client]:
    cluster = Cluster("a", "b")
    home, away = cluster.client("a", 2), cluster.client("b", 2)
    home.ask(QueueDeclare("q", durable=True))
    return cluster, home, away


def test_get_gives_the_message_the_count_and_a_tag_to_settle() -> None:
    cluster, home, away = two()
    home.publish("q", b"1", b"2")
    heard = away.ask(BasicGet("q"))
    answer = heard[0].method
    assert isinstance(answer, BasicGetOk)
    assert (answer.delivery_tag, answer.routing_key, answer.message_count, answer.redelivered) == (1, "q", 1, False)
    assert bodies(heard) == [b"1"]
    assert cluster.nodes["a"].queue("q").held == 1
    away.ask(BasicAck(1))
    assert bodies(away.ask(BasicGet("q", no_ack=True))) == [b"2"]
    assert isinstance(away.ask(BasicGet("q"))[0].method, BasicGetEmpty)
    assert cluster.nodes["a"].queue("q").kept == 0


def test_methods_behind_a_get_wait_for_its_answer() -> None:
    _, _, away = two()
    away.say(BasicGet("q"), QueueDeclare("q", passive=True))
    away.publish("q", b"1")
    away.say(BasicGet("q"))
    assert [type(each.method) for each in away.heard()] == [BasicGetEmpty, QueueDeclareOk, BasicGetOk]


def test_a_get_whose_client_is_gone_leaves_the_message_in_the_queue() -> None:
    cluster, home, away = two()
    home.publish("q", b"1")
    cluster.rest()
    away.say(BasicGet("q"))
    cluster.carry("b", "a")
    away.lose()
    cluster.rest()
    queue = cluster.nodes["a"].queue("q")
    assert (queue.held, queue.backlog.count) == (0, 1)


def test_a_declare_tells_the_counts_of_the_home_and_checks_equivalence() -> None:
    _, home, away = two()
    home.publish("q", *numbered(1, 4))
    home.ask(BasicConsume("q", "t"))
    home.ask(BasicCancel("t"))
    home.publish("q", b"5", b"6")
    home.ask(BasicConsume("nothing", "none"), channel=2)
    answer = away.ask(QueueDeclare("q", durable=True))[0].method
    assert isinstance(answer, QueueDeclareOk)
    assert (answer.queue, answer.message_count, answer.consumer_count) == ("q", 2, 0)
    away.publish("", b"x")
    assert methods(away.ask(QueuePurge("")), QueuePurgeOk)[0].message_count == 2
    closed = methods(away.ask(QueueDeclare("q")), ChannelClose)
    assert closed[0].reply_code == 406


def test_purge_ok_waits_until_the_purge_is_stable() -> None:
    cluster, home, away = two()
    home.publish("q", *numbered(1, 7))
    cluster.rest()
    for client in (away, home):
        cluster.nodes["a"].is_disk_fast = False
        assert methods(client.ask(QueuePurge("q")), QueuePurgeOk) == []
        cluster.nodes["a"].is_disk_fast = True
        answers = methods(client.heard(), QueuePurgeOk)
        assert [each.message_count for each in answers] == [7 if client is away else 0] or client is home
        home.publish("q", b"8")
        cluster.rest()


def test_a_queue_is_deleted_from_any_node_and_gone_everywhere_when_that_is_answered() -> None:
    cluster, home, away = two()
    home.publish("q", *numbered(1, 3))
    home.ask(BasicConsume("q", "mine"), BasicCancel("mine"), channel=2)
    home.ask(ChannelClose(200, "", 0, 0), channel=2)
    away.say(BasicConsume("q", "t", no_ack=True), channel=2)
    answers = methods(away.ask(QueueDelete("q")), QueueDeleteOk, BasicCancel)
    assert [type(each) for each in answers] == [BasicCancel, QueueDeleteOk]
    assert all("q" not in node.broker.vhosts["/"].queues for node in cluster.nodes.values())
    assert not cluster.nodes["b"].broker.forwarding.embassy("a").consumers


@pytest.mark.parametrize(("flags", "word"), [({"if_empty": True}, "not empty"), ({"if_unused": True}, "in use")])
def test_the_home_decides_whether_a_queue_may_go(flags: dict[str, bool], word: str) -> None:
    _, home, away = two()
    home.publish("q", b"1")
    home.ask(BasicConsume("q", "t"))
    home.publish("q", b"2")
    home.ask(BasicConsume("none", "x"), channel=2)
    home.lose() if word == "not empty" else None
    closed = methods(away.ask(QueueDelete("q", **flags)), ChannelClose)
    assert closed[0].reply_code == 406
    assert word in closed[0].reply_text
    assert (closed[0].failed_class_id, closed[0].failed_method_id) == (50, 40)


def test_consumers_everywhere_are_cancelled_when_their_queue_is_deleted() -> None:
    _, home, away = two()
    away.ask(BasicConsume("q", "t"))
    home.ask(QueueDelete("q"))
    assert [each.consumer_tag for each in methods(away.heard(), BasicCancel)] == ["t"]
    assert away.connection.channels[1].consumers == {}


def test_work_for_a_queue_that_its_home_has_not_heard_of_waits_for_it() -> None:
    cluster, _, away = two()
    nodes = cluster.nodes
    home_broker = nodes["a"].broker
    queue = nodes["a"].queue("q")
    log_id = queue.log_id
    del home_broker.queues_by_log[log_id]           # as if the record were still on its way
    away.publish("q", b"1")
    away.say(QueueDeclare("q", passive=True))
    assert away.heard() == []
    home_broker.queues_by_log[log_id] = queue
    home_broker.forwarding.queue_here(queue)
    assert [each.message_count for each in methods(away.heard(), QueueDeclareOk)] == [1]


def test_a_queue_that_never_appears_counts_as_deleted() -> None:
    cluster, _, _ = two()
    forwarding = cluster.nodes["a"].broker.forwarding
    forwarding.received("b", PUBLISH, RUN.pack(999, 7, 1, 1, 2))
    forwarding.received("b", INSPECT, ASKED.pack(5, 999, 0))
    cluster.turn("a")
    port = cluster.ports["a", "b"]
    assert port.sent == []
    cluster.wait(6000)
    cluster.turn("a")
    kinds = dict(port.sent)
    assert ANSWERED.unpack_from(kinds[ANSWER]) == (5, 404)
    assert len(kinds[CONFIRM]) == 20 + 16           # both are refused


def test_a_direct_reply_finds_its_way_back_to_another_node() -> None:
    cluster, home, away = two()
    away.ask(BasicConsume("amq.rabbitmq.reply-to", "r", no_ack=True))
    away.publish("q", b"ask", properties=Properties(reply_to="amq.rabbitmq.reply-to"))
    cluster.rest()
    held = cluster.nodes["a"].queue("q").backlog.head()
    assert held is not None
    key = decode_properties(held.info.properties, 0).reply_to
    assert key is not None
    home.publish(key, b"answer")
    home.publish(key + "x", b"lost", mandatory=True)
    home.publish("amq.rabbitmq.reply-to.none.nowhere", b"returned", mandatory=True)
    assert [each.body for each in home.heard() if isinstance(each.method, BasicReturn)] == [b"lost", b"returned"]
    assert bodies(away.heard()) == [b"answer"]


def test_properties_survive_the_way() -> None:
    cluster, _, away = two()
    given = Properties(delivery_mode=2, headers={"a": 1, "b": "two"}, message_id="m", priority=3, expiration="60000")
    away.publish("q", b"1", properties=given)
    cluster.rest()
    queue = cluster.nodes["a"].queue("q")
    message = queue.backlog.head()
    assert message is not None
    assert decode_properties(message.info.properties, 0) == given
    assert message.expires == cluster.nodes["a"].broker.now + 60000


def reply_key(cluster: Cluster, asker: Client) -> str:
    asker.ask(BasicConsume("amq.rabbitmq.reply-to", "r", no_ack=True))
    asker.publish("q", b"ask", properties=Properties(reply_to="amq.rabbitmq.reply-to"))
    cluster.rest()
    held = cluster.nodes["a"].queue("q").backlog.head()
    assert held is not None
    key = decode_properties(held.info.properties, 0).reply_to
    assert key is not None
    return key


def test_whether_a_requester_on_another_node_is_there_can_be_asked() -> None:
    cluster, home, away = two()
    key = reply_key(cluster, away)
    assert methods(home.ask(QueueDeclare(key, passive=True))) == [QueueDeclareOk(key, 0, 1)]
    away.ask(BasicCancel("r"))
    [closed] = methods(home.ask(QueueDeclare(key, passive=True)), ChannelClose)
    assert isinstance(closed, ChannelClose)
    assert (closed.reply_code, closed.reply_text) == (404, f"NOT_FOUND - no queue '{key}' in vhost '/'")


def test_a_requester_whose_node_is_lost_is_not_there() -> None:
    cluster, home, away = two()
    key = reply_key(cluster, away)
    home.say(QueueDeclare(key, passive=True))
    cluster.cut("a", "b")
    home.say(QueueDeclare(key, passive=True), channel=2)
    assert [(each.channel, type(each.method)) for each in home.heard()] == [(1, ChannelClose), (2, ChannelClose)]
