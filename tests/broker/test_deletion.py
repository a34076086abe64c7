"""Queues whose end is asked for: what comes between the question and the decision."""

from __future__ import annotations

from broker.forward.cluster import Client, Cluster, methods
from fuzz.world import START
from mirrormq.broker import rules
from mirrormq.broker.policy import Policy
from mirrormq.broker.shutting import DECISION
from mirrormq.wire.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)


def two() -> tuple[Cluster, Client, Client]:
    cluster = Cluster("a", "b")
    owner, publisher = cluster.client("a"), cluster.client("a")
    owner.ask(QueueDeclare("q", durable=True))
    publisher.ask(ConfirmSelect())
    return cluster, owner, publisher


def ask_from_b(cluster: Cluster) -> Client:
    """The queue's home has heard that it is to go if it is empty, and nothing is decided."""
    asking = cluster.client("b")
    asking.say(QueueDelete("q", if_empty=True))
    cluster.turn("b")
    cluster.carry("b", "a")
    return asking


def test_what_is_published_while_an_empty_queue_goes_is_refused() -> None:
    cluster, owner, publisher = two()
    owner.say(QueueDelete("q", if_empty=True))
    publisher.publish("q", b"late")
    cluster.turn("a")
    assert methods(publisher.heard(rest=False), BasicAck, BasicNack) == [BasicNack(1, multiple=False, requeue=False)]
    assert methods(owner.heard()) == [QueueDeleteOk(0)]


def test_a_policy_that_changes_meanwhile_does_not_let_messages_in() -> None:
    cluster, _, publisher = two()
    ask_from_b(cluster)
    rules.put_policy(cluster.nodes["a"].broker, Policy("/", "p", ".*", "queues", {"max-length": 9}, 0), operator=False)
    cluster.store.commit()
    publisher.publish("q", b"late")
    cluster.turn("a")
    assert methods(publisher.heard(rest=False), BasicAck, BasicNack) == [BasicNack(1, multiple=False, requeue=False)]


def test_a_queue_that_is_not_empty_takes_more() -> None:
    _, owner, publisher = two()
    publisher.publish("q", b"one")
    publisher.heard()
    owner.ask(QueueDelete("q", if_empty=True))
    publisher.publish("q", b"two")
    assert methods(publisher.heard(), BasicAck, BasicNack) == [BasicAck(2, multiple=False)]


def test_a_queue_whose_deletion_was_given_up_elsewhere_takes_messages_again() -> None:
    cluster, _, publisher = two()
    asking = ask_from_b(cluster)
    cluster.cut("a", "b")
    asking.lose()
    publisher.publish("q", b"refused")
    assert methods(publisher.heard(), BasicAck, BasicNack) == [BasicNack(1, multiple=False, requeue=False)]
    cluster.wait(DECISION)
    assert cluster.nodes["a"].broker.now == START + DECISION
    publisher.publish("q", b"taken")
    assert methods(publisher.heard(), BasicAck, BasicNack) == [BasicAck(2, multiple=False)]


def test_a_queue_whose_owner_has_just_left_can_be_declared() -> None:
    cluster = Cluster("a", "b")
    owner, heir = cluster.client("a"), cluster.client("a")
    owner.ask(QueueDeclare("mine", exclusive=True))
    owner.lose()
    heir.say(QueueDeclare("mine", exclusive=True))
    cluster.turn("a")
    assert methods(heir.heard(rest=False)) == []
    assert methods(heir.heard()) == [QueueDeclareOk("mine", 0, 0)]


def test_a_declare_that_lost_leaves_no_owner_behind() -> None:
    cluster = Cluster("a", "b")
    clients = [cluster.client("a"), cluster.client("b")]
    for client in clients:
        client.say(QueueDeclare("mine", exclusive=True))
        client.connection.broker.turn()
    heard = [methods(client.heard(), QueueDeclareOk) for client in clients]
    assert sorted(map(len, heard)) == [0, 1]
    assert [node.broker.owners for node in cluster.nodes.values()] == [{}, {}]
