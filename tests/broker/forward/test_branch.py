"""A branch takes what is published while the home cannot be reached, and leaves no gap for the home."""

from __future__ import annotations

from broker.forward.cluster import Client, Cluster, bodies, methods, numbered
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.branch import BranchQueue, marked, open_branch
from mirrormq.wire.methods import BasicAck, BasicGet, BasicNack, ConfirmSelect, QueueDeclare
from mirrormq.wire.properties import Properties


class World:
    """Queue q lives on a; a client and the branch are on b."""

    def __init__(self) -> None:
        self.cluster = Cluster("a", "b")
        self.cluster.client("a").ask(QueueDeclare("q", durable=True))
        self.client = self.cluster.client("b")
        self.client.ask(ConfirmSelect())
        front = self.cluster.nodes["b"].queue("q")
        assert isinstance(front, AwayQueue)
        self.front = front
        self.branch = BranchQueue(self.cluster.nodes["b"].broker, front)

    def cut(self) -> None:
        self.cluster.cut("a", "b")

    def heal(self) -> None:
        self.front.branch = None
        self.cluster.heal("a", "b")
        self.cluster.rest()

    def open(self) -> None:
        open_branch(self.front, self.branch)
        self.cluster.rest()

    def contents(self) -> list[bytes]:
        client: Client = self.cluster.client("a")
        found: list[bytes] = []
        while got := bodies(client.ask(BasicGet("q", no_ack=True))):
            found += got
        return found

    def confirms(self) -> list[tuple[int, bool]]:
        heard = methods(self.client.heard(), BasicAck, BasicNack)
        return [(each.delivery_tag, isinstance(each, BasicAck)) for each in heard if isinstance(each, BasicAck | BasicNack)]


def test_it_confirms_what_it_has_and_the_home_hears_nothing_of_it() -> None:
    world = World()
    world.cut()
    world.open()
    world.client.publish("q", *numbered(1, 5))
    assert world.confirms() == [(5, True)]
    assert world.branch.backlog.count == 5
    world.heal()
    assert world.contents() == []


def test_what_was_not_sent_yet_goes_into_it() -> None:
    world = World()
    world.cut()
    world.client.publish("q", *numbered(1, 3))
    assert world.confirms() == []
    world.client.publish("q", b"4")
    world.open()
    assert world.confirms()[-1] == (4, True)
    assert world.branch.backlog.count == 4
    assert world.front.unconfirmed == {}
    assert world.front.embassy.load == 0


def test_what_was_sent_waits_for_the_home_and_comes_there_once() -> None:
    world = World()
    world.client.publish("q", b"sent")
    world.cluster.turn("b")
    world.cut()
    world.open()
    world.client.publish("q", b"kept")
    assert world.confirms() == []           # a channel's confirms are in order, and the first is not known
    world.heal()
    world.client.publish("q", b"later")
    assert world.confirms()[-1] == (3, True)
    assert world.contents() == [b"sent", b"later"]
    assert world.branch.backlog.count == 1


def test_publishing_goes_on_without_a_gap_afterwards() -> None:
    world = World()
    world.client.publish("q", b"1")
    world.confirms()
    for number in range(2, 8, 2):
        world.cut()
        world.open()
        world.client.publish("q", b"branch", b"branch")
        world.confirms()
        world.heal()
        world.client.publish("q", b"%d" % number, b"%d" % (number + 1))
        assert world.confirms()[-1][1]
    assert world.contents() == numbered(1, 7)
    assert world.branch.backlog.count == 6


def test_messages_say_which_branch_they_were_on() -> None:
    world = World()
    world.cut()
    world.open()
    broker = world.cluster.nodes["b"].broker
    world.client.publish("q", b"m", properties=Properties(delivery_mode=2, headers={"a": 1, "x-branch": "old"}))
    world.confirms()
    message = world.branch.backlog.pop()
    copy = marked(broker, message)
    assert copy.info.headers() == {"a": 1, "x-branch": "b"}
    assert copy.content.endswith(message.content[-3:])
    assert copy.persistent
