"""The leader of a mirrored queue stops and leads on, with or without others in between: whoever waits for it is answered."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Client, bodies, methods, numbered
from broker.forward.mirrored import MirroredCluster
from mirrormq.broker.forward.codec import PUBLISH
from mirrormq.broker.stability import Barrier
from mirrormq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    ChannelClose,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    TxCommit,
    TxCommitOk,
    TxSelect,
)

EVERYWHERE = ("a", "b", "c")


def three() -> tuple[MirroredCluster, dict[str, Client]]:
    """A mirrored queue that a leads, and a client on each node."""
    cluster = MirroredCluster(*EVERYWHERE)
    clients = {name: cluster.client(name, 4) for name in EVERYWHERE}
    clients["a"].ask(QueueDeclare("m", durable=True))
    return cluster, clients


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("milliseconds", [1000, 60_000, -3_600_000, 3_600_000])
def test_whoever_waits_for_a_leader_that_leads_on_is_answered(where: str, milliseconds: int) -> None:
    """However long it takes until then, and however clocks are set meanwhile."""
    cluster, clients = three()
    client = clients[where]
    client.ask(ConfirmSelect())
    client.ask(BasicConsume("m", "known"), channel=2)
    cluster.stop_leading("m")
    client.publish("m", *numbered(1, 3))
    client.say(BasicConsume("m", "new"), channel=3)
    client.say(QueueDeclare("m", passive=True), channel=4)
    assert client.heard() == []
    cluster.wait(milliseconds)
    client.publish("m", *numbered(4, 5))
    assert client.heard() == []
    cluster.lead("m", "a")
    heard = client.heard()
    assert [each.consumer_tag for each in methods(heard, BasicConsumeOk)] == ["new"]
    assert methods(heard, QueueDeclareOk)
    assert methods(heard, BasicAck)[-1].delivery_tag == 5
    assert sorted(bodies(heard)) == numbered(1, 5)
    client.publish("m", b"6")
    assert bodies(client.heard()) == [b"6"]


@pytest.mark.parametrize("where", ["b", "c"])
def test_a_node_that_has_missed_that_another_one_led_in_between_is_answered(where: str) -> None:
    """Its watch of the store was broken: of the views a, c, a it sees the last."""
    cluster, clients = three()
    client = clients["b"]
    client.ask(ConfirmSelect())
    client.ask(BasicConsume("m", "t"), channel=2)
    client.publish("m", b"1")
    assert bodies(client.heard()) == [b"1"]
    cluster.store.blindfold(cluster.nodes["b"].broker)
    cluster.lead("m", where if where == "c" else "a")
    client.publish("m", b"2")
    cluster.rest()
    cluster.lead("m", "a")
    cluster.store.uncover(cluster.nodes["b"].broker)
    client.publish("m", b"3")
    heard = client.heard()
    assert methods(heard, BasicAck)[-1].delivery_tag == 3
    assert set(bodies(heard)) >= {b"2", b"3"}
    client.ask(BasicAck(0, multiple=True), channel=2)
    assert (cluster.served("m").kept, cluster.served("m").held) == (0, 0)


def test_a_late_acknowledgement_of_a_former_lead_hits_nothing_new() -> None:
    cluster, clients = three()
    client = clients["b"]
    clients["a"].publish("m", *numbered(1, 10))
    cluster.rest()
    client.ask(BasicConsume("m", "t"))
    cluster.store.blindfold(cluster.nodes["b"].broker)
    cluster.lead("m", "c")
    cluster.lead("m", "a")
    client.say(BasicAck(10, multiple=True))  # of the first lead, and on its way when the second begins
    cluster.store.uncover(cluster.nodes["b"].broker)
    heard = client.heard()
    assert bodies(heard) == numbered(1, 10)
    assert all(each.redelivered for each in methods(heard, BasicDeliver))
    assert (cluster.served("m").kept, cluster.served("m").held) == (10, 10)


def test_a_run_that_comes_before_one_that_is_missing_is_asked_for_again() -> None:
    """Whatever the reason for the gap is: here a frame is taken out of the link."""
    cluster, clients = three()
    client = clients["b"]
    client.ask(ConfirmSelect())
    client.publish("m", b"1")
    cluster.turn("b")
    port = cluster.ports["b", "a"]
    assert [kind for kind, _ in port.sent] == [PUBLISH]
    port.sent.clear()
    client.publish("m", b"2")
    heard = client.heard()
    assert methods(heard, BasicAck)[-1].delivery_tag == 2
    assert bodies(clients["c"].ask(BasicConsume("m", "t"))) == [b"1", b"2"]


def test_what_waits_for_a_leader_is_answered_when_the_queue_is_deleted() -> None:
    cluster, clients = three()
    client = clients["b"]
    client.ask(ConfirmSelect())
    cluster.stop_leading("m")
    client.publish("m", b"1")
    client.say(BasicGet("m"), channel=2)
    client.say(QueueDeclare("m", durable=True), channel=3)
    assert client.heard() == []
    cluster.nodes["c"].broker.delete_queue(cluster.nodes["c"].queue("m"))
    heard = client.heard()
    assert [(each.channel, type(each.method)) for each in heard if each.channel != 1] == [(2, ChannelClose), (3, QueueDeclareOk)]
    assert methods(heard, BasicAck)[-1].delivery_tag == 1


class Waiting(Barrier):
    """What waits at the queue itself, as the HTTP API does: no other node asks for it again."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = ""

    def passed(self) -> None:
        self.heard = "lost" if self.is_lost else "done"


@pytest.mark.parametrize("is_disk_fast", [True, False])
def test_whoever_waits_at_the_leader_itself_hears_of_its_end(is_disk_fast: bool) -> None:
    cluster, clients = three()
    clients["b"].publish("m", b"1")
    cluster.rest()
    cluster.nodes["a"].is_disk_fast = is_disk_fast
    waiting = Waiting()
    queue = cluster.served("m")
    queue.purge()
    queue.wait_for_chunk(waiting)
    cluster.rest()
    cluster.lead("m", "b")
    assert waiting.heard == ("done" if is_disk_fast else "lost")


def test_a_get_that_waited_is_answered_once() -> None:
    cluster, clients = three()
    client = clients["b"]
    clients["a"].publish("m", b"1", b"2")
    cluster.rest()
    cluster.stop_leading("m")
    client.say(BasicGet("m"))
    cluster.wait(9000)
    cluster.lead("m", "a")
    assert bodies(client.heard()) == [b"1"]
    assert (cluster.served("m").held, cluster.served("m").backlog.count) == (1, 1)


# --- transactions


def test_a_commit_whose_acknowledgements_are_lost_with_the_leader_fails() -> None:
    cluster, clients = three()
    client = clients["b"]
    clients["a"].publish("m", b"1")
    client.ask(TxSelect())
    assert bodies(client.ask(BasicGet("m"))) == [b"1"]
    client.say(BasicAck(1), TxCommit())
    cluster.turn("b")
    cluster.cut("a", "b")
    cluster.lead("m", "c")
    closed = methods(client.heard(), ChannelClose, TxCommitOk)
    assert [each.reply_text for each in closed] == ["PRECONDITION_FAILED - partial tx completion"]
    assert bodies(clients["c"].ask(BasicGet("m"))) == [b"1"]


@pytest.mark.parametrize("where", EVERYWHERE)
@pytest.mark.parametrize("next_leader", EVERYWHERE)
def test_a_commit_under_way_while_the_lead_changes_fails_if_its_acknowledgement_is_lost(where: str, next_leader: str) -> None:
    cluster, clients = three()
    client = clients[where]
    clients["a"].publish("m", b"1")
    client.ask(TxSelect())
    assert bodies(client.ask(BasicGet("m"))) == [b"1"]
    client.say(BasicAck(1))
    cluster.stop_leading("m")
    client.say(TxCommit())
    cluster.rest()
    cluster.lead("m", next_leader)
    answer = methods(client.heard(), ChannelClose, TxCommitOk)
    assert [type(each) for each in answer] == [ChannelClose]
    assert bodies(clients["c"].ask(BasicGet("m"), channel=2)) == [b"1"]


def test_an_acknowledgement_of_what_has_gone_back_fails_the_commit() -> None:
    cluster, clients = three()
    client = clients["b"]
    clients["a"].publish("m", b"1")
    client.ask(TxSelect())
    assert bodies(client.ask(BasicGet("m"))) == [b"1"]
    cluster.lead("m", "c")
    answer = methods(client.ask(BasicAck(1), TxCommit()), ChannelClose, TxCommitOk)
    assert [type(each) for each in answer] == [ChannelClose]
    assert bodies(clients["c"].ask(BasicGet("m"))) == [b"1"]


def test_a_commit_of_publishes_alone_survives_a_change_of_the_lead() -> None:
    cluster, clients = three()
    client = clients["b"]
    client.ask(TxSelect())
    client.publish("m", b"1")
    client.say(TxCommit())
    cluster.turn("b")
    cluster.lead("m", "c")
    assert methods(client.heard(), ChannelClose, TxCommitOk) == [TxCommitOk()]
    assert bodies(clients["a"].ask(BasicGet("m"))) == [b"1"]
    assert isinstance(clients["a"].ask(BasicGet("m"))[0].method, BasicGetEmpty)


def test_acknowledgements_of_a_queue_that_is_deleted_fail_no_commit() -> None:
    _, clients = three()
    client = clients["b"]
    clients["a"].publish("m", b"1")
    client.ask(TxSelect())
    client.ask(BasicGet("m"))
    clients["c"].ask(QueueDelete("m"))
    assert methods(client.ask(BasicAck(1), TxCommit()), ChannelClose, TxCommitOk) == [TxCommitOk()]
