"""An auto-delete queue is gone on every node when its last client hears that it has left, and can be had anew at once."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Client, bodies, methods
from broker.forward.mirrored import MirroredCluster
from mirrormq.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)

EVERYWHERE = ("a", "b", "c")
FAREWELLS: list[tuple[Method, int, type[Method]]] = [
    (BasicCancel("t"), 1, BasicCancelOk),
    (ChannelClose(200, "", 0, 0), 1, ChannelCloseOk),
    (ConnectionClose(200, "", 0, 0), 0, ConnectionCloseOk),
]


def three(name: str, where: str) -> tuple[MirroredCluster, dict[str, Client]]:
    """An auto-delete queue of node a, mirrored if its name begins with "m", and its last consumer."""
    cluster = MirroredCluster(*EVERYWHERE)
    clients = {node: cluster.client(node, 2) for node in EVERYWHERE}
    clients["a"].ask(QueueDeclare(name, auto_delete=True))
    clients[where].ask(BasicConsume(name, "t"))
    return cluster, clients


def knows(cluster: MirroredCluster, name: str) -> list[str]:
    return [node for node in cluster.nodes if name in cluster.nodes[node].broker.vhosts["/"].queues]


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("name", ["q", "m"])
@pytest.mark.parametrize(("farewell", "channel", "answer"), FAREWELLS)
def test_the_answer_waits_until_no_node_knows_the_queue(
    farewell: Method, channel: int, answer: type[Method], name: str, where: str
) -> None:
    cluster, clients = three(name, where)
    late = cluster.nodes["c"].broker
    cluster.store.blindfold(late)
    assert clients[where].ask(farewell, channel=channel) == []
    assert knows(cluster, name) == ["c"]
    cluster.store.uncover(late)
    assert [type(each) for each in methods(clients[where].heard())] == [answer]
    assert knows(cluster, name) == []


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("name", ["q", "m"])
@pytest.mark.parametrize(("farewell", "channel", "answer"), FAREWELLS)
def test_whoever_leaves_and_is_cut_off_is_answered(
    farewell: Method, channel: int, answer: type[Method], name: str, where: str
) -> None:
    cluster, clients = three(name, where)
    clients[where].say(farewell, channel=channel)
    cluster.turn(where)
    cluster.cut("a", "b")
    cluster.cut("a", "c")
    assert [type(each) for each in methods(clients[where].heard())] == [answer]


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("again", EVERYWHERE)
@pytest.mark.parametrize("name", ["q", "m"])
def test_whoever_declares_a_queue_that_is_just_going_gets_it_anew(name: str, again: str, where: str) -> None:
    cluster, clients = three(name, where)
    clients[where].say(BasicCancel("t"))
    for _ in range(3):  # its home has proposed the end, and the store has not decided
        for node in EVERYWHERE:
            cluster.turn(node)
        for pair in list(cluster.ports):
            cluster.carry(*pair)
    assert cluster.nodes["a"].broker.journal.proposals
    client = clients[again]
    client.say(QueueDeclare(name, auto_delete=True), BasicConsume(name, "again"), channel=2)
    for _ in range(3):
        for node in EVERYWHERE:
            cluster.turn(node)
        for pair in list(cluster.ports):
            cluster.carry(*pair)
    assert [each for each in client.heard(rest=False) if each.channel == 2] == []
    heard = [each.method for each in client.heard() if each.channel == 2]
    assert [type(each) for each in heard] == [QueueDeclareOk, BasicConsumeOk]
    clients["b"].publish(name, b"1", channel=2)
    assert bodies(client.heard()) == [b"1"]
    assert knows(cluster, name) == list(EVERYWHERE)


def test_a_passive_declare_of_a_queue_that_is_just_going_does_not_find_it() -> None:
    cluster, clients = three("q", "b")
    clients["b"].say(BasicCancel("t"))
    cluster.turn("b")
    cluster.carry("b", "a")
    clients["c"].say(QueueDeclare("q", passive=True))
    cluster.turn("c")
    cluster.carry("c", "a")
    cluster.turn("a")
    cluster.carry("a", "c")
    [closed] = methods(clients["c"].heard(), ChannelClose)
    assert isinstance(closed, ChannelClose)
    assert closed.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"


def test_a_client_that_leaves_with_many_queues_is_answered_once_when_all_are_gone() -> None:
    cluster, clients = three("q", "b")
    for number, node in enumerate(EVERYWHERE):
        clients[node].ask(QueueDeclare(f"q{number}", auto_delete=True), QueueDeclare(f"m{number}", auto_delete=True))
        clients["b"].ask(BasicConsume(f"q{number}", f"q{number}"), BasicConsume(f"m{number}", f"m{number}"))
    clients["b"].ask(QueueDeclare("mine", exclusive=True))
    clients["b"].say(ConnectionClose(200, "", 0, 0), channel=0)
    assert [type(each) for each in methods(clients["b"].heard())] == [ConnectionCloseOk]
    assert all(not node.broker.vhosts["/"].queues for node in cluster.nodes.values())
    assert not any(node.broker.parting for node in cluster.nodes.values())


def moving(name: str, where: str) -> tuple[MirroredCluster, dict[str, Client]]:
    """Its leader has stopped leading, and no other node does so yet."""
    cluster, clients = three(name, where)
    cluster.stop_leading(name)
    return cluster, clients


def moved(cluster: MirroredCluster, name: str) -> None:
    cluster.lead(name, "b")
    cluster.rest()
    cluster.wait(2000)


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize(("farewell", "channel", "answer"), FAREWELLS)
def test_whoever_leaves_while_the_lead_moves_is_answered_when_no_node_knows_the_queue(
    farewell: Method, channel: int, answer: type[Method], where: str
) -> None:
    cluster, clients = moving("m", where)
    assert clients[where].ask(farewell, channel=channel) == []
    moved(cluster, "m")
    assert [type(each) for each in methods(clients[where].heard())] == [answer]
    assert knows(cluster, "m") == []


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize(("farewell", "channel", "answer"), FAREWELLS)
def test_an_end_that_was_proposed_when_the_lead_moved_is_waited_for(
    farewell: Method, channel: int, answer: type[Method], where: str
) -> None:
    cluster, clients = three("m", where)
    clients[where].say(farewell, channel=channel)
    for _ in range(3):
        for node in EVERYWHERE:
            cluster.turn(node)
        for pair in list(cluster.ports):
            cluster.carry(*pair)
    assert cluster.nodes["a"].broker.journal.proposals
    cluster.lead("m", "b")
    late = cluster.nodes["c"].broker
    cluster.store.blindfold(late)
    cluster.rest()
    cluster.wait(2000)
    assert clients[where].heard() == []
    cluster.store.uncover(late)
    cluster.rest()
    cluster.wait(2000)
    assert [type(each) for each in methods(clients[where].heard())] == [answer]
    assert knows(cluster, "m") == []


@pytest.mark.parametrize("where", EVERYWHERE)
def test_a_queue_whose_last_client_vanishes_while_the_lead_moves_goes(where: str) -> None:
    cluster, clients = moving("m", where)
    clients[where].lose()
    cluster.rest()
    moved(cluster, "m")
    cluster.rest()
    assert knows(cluster, "m") == []


def test_a_queue_goes_whose_leader_dies_before_it_hears_that_its_last_consumer_left() -> None:
    cluster, clients = moving("m", "b")
    clients["b"].say(BasicCancel("t"))
    cluster.turn("b")
    cluster.gone("a")
    assert [type(each) for each in methods(clients["b"].heard())] == [BasicCancelOk]
    cluster.lead("m", "c")
    cluster.rest()
    cluster.wait(2000)
    cluster.rest()
    assert knows(cluster, "m") == []


def test_a_queue_stays_whose_other_consumer_has_not_come_to_the_next_leader_yet() -> None:
    cluster, clients = three("m", "b")
    clients["c"].ask(BasicConsume("m", "other"))
    cluster.stop_leading("m")
    assert clients["b"].ask(BasicCancel("t")) == []
    late = cluster.nodes["c"].broker
    cluster.store.blindfold(late)
    moved(cluster, "m")
    assert clients["b"].heard() == []
    cluster.store.uncover(late)
    cluster.rest()
    cluster.wait(2000)
    assert [type(each) for each in methods(clients["b"].heard())] == [BasicCancelOk]
    clients["a"].publish("m", b"1")
    assert bodies(clients["c"].heard()) == [b"1"]
