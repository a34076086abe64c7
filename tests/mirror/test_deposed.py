"""A leader that may have been deposed delivers nothing until the store has said that it still leads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.world import START, Notes
from mirrormq.broker.arguments import QueueArguments, QueueSettings
from mirrormq.broker.broker import Broker
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.message import Message, address_of, build_content
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.log.entries import Entry
from mirrormq.log.store import Store
from mirrormq.mirror.codec import encode
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.effects import BecameLeader
from mirrormq.mirror.machine.inputs import Durable, SetDesired
from mirrormq.mirror.machine.messages import Mark
from mirrormq.mirror.machine.records import Desired, View
from mirrormq.mirror.rings import RingHost, RingLog, Rings
from mirrormq.wire.properties import Properties, encode_properties

QUEUE = 7


class Host(RingHost):
    """The store is asked here, and answers when the test says so."""

    def __init__(self) -> None:
        self.proposed: list[View] = []
        self.asked: list[int] = []
        self.time = 1.0

    def now(self) -> float:
        return self.time

    def send(self, node: str, payload: bytes, *, is_bulk: bool) -> None:
        pass

    def wake_at(self, when: float) -> None:
        pass

    def led(self, holding: Holding, effect: BecameLeader, requeued: int) -> None:
        pass

    def propose(self, holding: Holding, view: View) -> None:
        self.proposed.append(view)

    def confirm(self, holding: Holding) -> None:
        self.asked.append(holding.doubts)


class Log(RingLog):
    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    def append(self, log_id: int, first_index: int, count: int, chunk: bytes, *, sync: bool) -> None:
        self.store.append(log_id, first_index, count, chunk)
        self.position = self.store.position

    def sync(self) -> None:
        return

    def read(self, log_id: int, index: int, max_bytes: int) -> list[Entry]:
        return self.store.read(log_id, index, max_bytes)


class Get(Barrier):
    """A basic.get that may have to wait."""

    is_due = False

    def passed(self) -> None:
        self.is_due = True


class Leader:
    """Leads, with one mirror whose marks come when the test says so."""

    def __init__(self, store: Store) -> None:
        self.host = Host()
        log = Log(store)
        self.broker = Broker(Notes(), log, "one", START)
        self.rings = Rings(self.broker, self.host, log, store)
        self.rings.link_up("two")
        arguments = QueueArguments({})
        front = AwayQueue(self.broker, "/", "q", QUEUE, home="one", durable=True, auto_delete=False, owner=None,
                          arguments=arguments, settings=QueueSettings(arguments, {}))
        self.holding = self.rings.hold(front, View(1, ("one", "two")), 1, is_fresh=True)

    @property
    def queue(self) -> Queue:
        assert self.holding.queue is not None
        return self.holding.queue

    def settle(self) -> None:
        """The turn ends, and everything goes to both disks."""
        self.broker.turn()
        self.rings.store.commit()
        end = self.holding.state.end
        self.rings.give(self.holding, Durable(end, self.holding.state.generation))
        self.rings.received("two", encode(QUEUE, Mark(self.holding.state.epoch, end, end, True, 0)))
        self.broker.turn()

    def publish(self, count: int) -> None:
        properties = encode_properties(Properties(delivery_mode=2))
        for number in range(count):
            body = b"%d" % number
            content = build_content(1, properties, body, 131072)
            self.queue.publish(Message(content, address_of("", "q"), self.broker.infos.get(properties), len(body)), None)
        self.settle()

    def gets(self) -> bytes:
        """The next message, or nothing where it would have to wait."""
        message = self.queue.get(Get())
        if message is None:
            return b""
        self.queue.settle(message)
        return message.body()


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    """With messages, of which some are reserved for delivery, and the first has been taken."""
    store = Store(tmp_path)
    store.open()
    leader = Leader(store)
    leader.publish(5)
    leader.queue.reserve(1, 3)
    leader.settle()
    assert leader.gets() == b"0"
    leader.settle()
    yield leader
    store.close()


def test_nothing_is_delivered_from_the_reserved_window_while_a_member_is_out_of_sight(leader: Leader) -> None:
    leader.rings.link_down("two")
    get = Get()
    assert leader.queue.get(get) is None
    assert not leader.host.asked
    leader.rings.link_up("two")
    assert leader.host.asked == [1]
    assert leader.gets() == b""
    leader.rings.still_leads(leader.holding, 1)
    assert get.is_due
    assert leader.gets() == b"1"


def test_an_answer_from_before_the_link_was_lost_again_does_not_count(leader: Leader) -> None:
    for _ in range(2):
        leader.rings.link_down("two")
        leader.rings.link_up("two")
    leader.rings.still_leads(leader.holding, 1)
    assert leader.gets() == b""
    leader.rings.still_leads(leader.holding, 2)
    assert leader.gets() == b"1"


def test_a_leader_that_goes_on_without_the_member_delivers_when_the_store_has_said_so(leader: Leader) -> None:
    leader.rings.link_down("two")
    leader.host.time += 1.0
    leader.rings.tick()
    [view] = leader.host.proposed
    assert view.ring == ("one",)
    assert leader.gets() == b""
    leader.rings.view_seen(leader.holding, view, 2)
    assert leader.host.asked == [1]
    leader.rings.still_leads(leader.holding, 1)
    assert leader.gets() == b"1"


@pytest.mark.parametrize("always", [False, True])
def test_a_leader_alone_asks_when_a_mirror_is_out_of_sight_that_may_lead_without_being_in_sync(leader: Leader, *,
                                                                                               always: bool) -> None:
    rings, holding = leader.rings, leader.holding
    rings.view_seen(holding, View(holding.state.epoch + 1, ("one",), ("two",)), 2)
    rings.give(holding, SetDesired(Desired(("one", "two"), promote_after_crash=always)))
    for lose in (lambda: rings.link_down("two"), lambda: rings.store_reachable(is_reachable=False)):
        lose()
        assert (leader.gets() == b"") is always
        if always:
            rings.still_leads(holding, leader.host.asked[-1])
            assert leader.gets()


def test_nothing_is_delivered_while_a_member_is_quiet(leader: Leader) -> None:
    leader.rings.listened(frozenset(["two"]))
    assert leader.gets() == b""
    assert not leader.host.asked
    leader.rings.listened(frozenset())
    leader.rings.still_leads(leader.holding, leader.host.asked[0])
    assert leader.gets() == b"1"


def test_a_leader_that_stood_still_asks_before_it_delivers(leader: Leader) -> None:
    leader.rings.stood_still()
    assert leader.gets() == b""
    leader.rings.still_leads(leader.holding, leader.host.asked[0])
    assert leader.gets() == b"1"


def test_a_question_that_was_not_answered_is_asked_again(leader: Leader) -> None:
    leader.rings.stood_still()
    leader.rings.tidy()
    assert leader.host.asked == [1, 1]
