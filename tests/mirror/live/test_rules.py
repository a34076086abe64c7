"""What the rules of rings and policies come to on three nodes, seen through clients and the API.

Numbers are those of the scenarios. One cluster for all tests. The nodes list the third one as the node that decides who pauses,
are told not to permit mirroring, which means nothing here, and look for overdue deliveries several times a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ChannelWrongStateError

from cluster.live.nodes import Nodes, running
from live.load import drain

from .inbox import Inbox
from .probe import Report, Witness
from .probe import count as account
from .rings import (
    channel_at,
    count,
    declare,
    eventually,
    leader_of,
    look,
    members_of,
    mirror,
    named,
    publish,
    standing,
    until_in_sync,
)

pytestmark = pytest.mark.timeout(300)
CONFIGURATION = """
channel_tick_interval = 200
deprecated_features.permit.classic_queue_mirroring = false
cluster_partition_handling = pause_if_all_down
cluster_partition_handling.pause_if_all_down.recover = autoheal
cluster_partition_handling.pause_if_all_down.nodes.1 = rabbit3@localhost
"""
A, B, C, GONE = "rabbit1@localhost", "rabbit2@localhost", "rabbit3@localhost", "rabbit9@localhost"
Wish = dict[str, Any]
Standing = tuple[str, list[str], list[str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("rules"), configuration=CONFIGURATION) as nodes:
        yield nodes


def on(*names: str, sync: str = "automatic") -> Wish:
    return {"ha_mode": "nodes", "ha_params": list(names), "ha_sync_mode": sync}


EVERYWHERE: Wish = {"ha_mode": "all", "ha_sync_mode": "automatic"}
TWO: Wish = {"ha_mode": "exactly", "ha_params": 2, "ha_sync_mode": "automatic"}
THREE: Wish = {"ha_mode": "exactly", "ha_params": 3, "ha_sync_mode": "automatic"}


def in_sync(leader: str, *mirrors: str) -> Standing:
    return leader, list(mirrors), list(mirrors)


CASES: dict[int, tuple[Wish | None, Wish | None, list[Standing]]] = {
    1: (None, EVERYWHERE, [in_sync(A, B, C)]),
    2: (EVERYWHERE, EVERYWHERE, [in_sync(A, B, C)]),
    4: (on(A, B), on(A, B, C), [in_sync(A, B, C)]),
    5: (on(B, A), on(A, B, C), [in_sync(B, A, C)]),
    6: (on(A, C), on(A, B), [in_sync(A, B)]),
    7: (on(A, B), on(A, B, GONE), [in_sync(A, B)]),
    8: (on(A, B), on(GONE), [in_sync(A)]),
    9: (None, on(B, C, sync="manual"), [(A, [B, C], [])]),
    10: (on(A, B, sync="manual"), on(B, C, sync="manual"), [(A, [B, C], [])]),
    11: (on(A, B), on(B, C), [in_sync(B, C)]),
    12: (on(A, B), on(C, B, sync="manual"), [(B, [A, C], [A])]),       # the first goes when another copy is in sync
    13: (None, TWO, [in_sync(A, B), in_sync(A, C)]),
    14: (None, THREE, [in_sync(A, B, C)]),
    15: (on(A, C), TWO, [in_sync(A, C)]),
    16: (on(A, C), THREE, [in_sync(A, B, C)]),
    21: (EVERYWHERE, None, [in_sync(A)]),
}
"""The policy before, the policy after, and what the API may show then. Each queue has messages; but for
5 it is declared on the first node."""


def wish(nodes: Nodes, number: int, wanted: Wish | None) -> None:
    name = f"case.{number:02}."
    if wanted is not None:
        mirror(nodes[number % 3], name, **wanted)
    elif look(nodes[0], name).get("policy"):
        nodes[number % 3].clear_policy("/", name)


def until_first(nodes: Nodes, number: int, wanted: Wish | None) -> None:
    """What it starts from: as many holders as are named, in sync unless nobody synchronises them."""
    if wanted is None:
        return
    holders = wanted.get("ha_params", [A, B, C])
    assert isinstance(holders, list)

    def is_so() -> bool:
        leader, mirrors, synced = standing(nodes[0], f"case.{number:02}.")
        assert sorted([leader, *mirrors]) == sorted(holders)
        assert synced == ([] if wanted["ha_sync_mode"] == "manual" else mirrors)
        return leader == holders[0]

    eventually(is_so)


def test_the_nodes_of_a_queue_as_its_policy_changes(nodes: Nodes) -> None:
    """1 to 16, and 21: from one policy to another, in sync or not, all at the same time."""
    for number in CASES:
        declare(nodes[1 if number == 5 else 0], f"case.{number:02}.")
        publish(nodes[0], f"case.{number:02}.", b"1", b"2")
    for number, (before, _, _) in CASES.items():
        wish(nodes, number, before)
    for number, (before, _, _) in CASES.items():
        until_first(nodes, number, before)
    for number, (_, after, _) in CASES.items():
        wish(nodes, number, after)
    for number, (_, _, wanted) in CASES.items():
        for node in nodes:
            def is_so(node: Any = node, number: int = number, wanted: list[Standing] = wanted) -> bool:
                found = standing(node, f"case.{number:02}.")
                assert found in wanted, (number, found, wanted)
                return True

            eventually(is_so)
        assert count(nodes[2], f"case.{number:02}.") == 2, number


def test_leads_of_queues_with_two_copies_are_spread_over_those_that_have_one(nodes: Nodes) -> None:
    """40: at most two on each node, the longest stay, and nobody leads who had no copy."""
    names = [f"spread.{number}" for number in range(1, 6)]
    places = {"spread.1": B, "spread.2": C, "spread.3": B, "spread.4": C, "spread.5": B}
    for name, other in places.items():
        mirror(nodes[0], name, **on(A, other))
        declare(nodes[0], name)
    publish(nodes[0], "spread.1", *[b""] * 5)
    publish(nodes[0], "spread.2", *[b""] * 3)
    until_in_sync(nodes, *names, copies=2)
    shares = nodes[2].api("POST", "/api/rebalance/queues", {"queue_pattern": "^spread", "tell": True})
    assert max(share["leaders"] for share in shares) == 2
    leaders = {name: leader_of(nodes[2], name) for name in names}
    assert (leaders["spread.1"], leaders["spread.2"]) == (A, A)
    assert all(leaders[name] in (A, places[name]) for name in names)
    until_in_sync(nodes, *names, copies=2)
    eventually(lambda: {name: leader_of(nodes[1], name) for name in names} == leaders)


def test_of_two_nodes_that_miss_each_other_one_goes_and_nobody_pauses(nodes: Nodes) -> None:
    """91, 92, 94: the first and the second node lose each other, both see the third, which is the one that is listed."""
    mirror(nodes[0], "parted")
    declare(nodes[0], "parted")
    until_in_sync(nodes, "parted")
    nodes[1].line.cut()
    for one, other in ((0, 1), (1, 0)):
        eventually(lambda one=one, other=other: nodes[other].name not in nodes[one].sees())

    def without_one() -> list[str]:
        members = members_of(nodes[2], "parted")
        return members if sorted(members) in ([A, C], [B, C]) else []

    leader = eventually(without_one)[0]
    publish(named(nodes, leader), "parted", b"leader")
    publish(nodes[2], "parted", b"third")
    for node in nodes:
        node.api("GET", "/api/overview")
    with channel_at(nodes[0 if leader == B else 1]) as channel:
        inbox = Inbox(channel, "parted")        # does not see the leader: the third leads, when it has asked for that
        inbox.until_bodies(b"leader", b"third")
        publish(nodes[0 if leader == B else 1], "parted", b"other")
        assert leader_of(nodes[2], "parted") == C
    nodes[1].line.heal()
    nodes.until_whole()
    until_in_sync(nodes, "parted")
    assert [count(node, "parted") for node in nodes] == [3, 3, 3]


@pytest.mark.parametrize("way", ["stop", pytest.param("kill", marks=pytest.mark.chaos)])
def test_a_mirror_that_stops_or_is_killed_is_missed_by_nobody(nodes: Nodes, way: str) -> None:
    """114 to 117: a publisher on each of the others is answered throughout, in order, and what is left holds everything."""
    queue = f"ring.{way}"
    mirror(nodes[0], "ring")
    declare(nodes[0], queue)
    until_in_sync(nodes, queue)
    witnesses = [Witness(number, node.port, queue, 20) for number, node in enumerate((nodes[0], nodes[1]), 1)]
    for witness in witnesses:
        witness.start()
    try:
        eventually(lambda: all(len(witness.stamps) > 20 for witness in witnesses))
        getattr(nodes[2], way)()
        eventually(lambda: standing(nodes[1], queue) == in_sync(A, B))
        answered = [len(witness.stamps) for witness in witnesses]
        eventually(lambda: all(len(witness.stamps) > before + 20 for witness, before in zip(witnesses, answered, strict=True)))
        nodes[2].start()
        until_in_sync(nodes, queue)
    finally:
        for witness in witnesses:
            witness.finish()
    eventually(lambda: are_level(nodes, queue))
    account(Report(), witnesses, drain(nodes[2].port, queue), queue).must_be_clean()


def are_level(nodes: Nodes, queue: str) -> bool:
    """All three have the same on their disks; the last to hear what is stable may be a moment behind."""
    members = {member["node"]: member["durable"] for member in nodes[2].api("GET", f"/api/queues/%2F/{queue}/ring")["members"]}
    assert sorted(members) == [A, B, C]
    assert len(set(members.values())) == 1, members
    return True


def test_a_mirror_finds_its_queue_deleted_or_given_to_others_when_it_is_back(nodes: Nodes) -> None:
    """119: it stops holding them, and their files go."""
    for queue in ("vanished", "elsewhere"):
        mirror(nodes[0], queue, **EVERYWHERE)
        declare(nodes[0], queue)
        publish(nodes[0], queue, b"1")
    until_in_sync(nodes, "vanished", "elsewhere")
    nodes[2].kill()
    nodes[0].api("DELETE", "/api/queues/%2F/vanished")
    mirror(nodes[0], "elsewhere", **on(A, B))
    eventually(lambda: standing(nodes[1], "elsewhere") == in_sync(A, B))
    nodes[2].start()
    nodes.until_whole()
    assert look(nodes[2], "vanished") == {}
    eventually(lambda: standing(nodes[2], "elsewhere") == in_sync(A, B))
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        count(nodes[2], "vanished")
    declare(nodes[2], "vanished")
    assert count(nodes[0], "vanished") == 0
    assert count(nodes[2], "elsewhere") == 1


def test_a_switch_against_mirroring_is_noted_and_means_nothing(nodes: Nodes) -> None:
    """128."""
    for node in nodes:
        assert "deprecated_features.permit.classic_queue_mirroring" in node.log()
    mirror(nodes[0], "permitted")
    declare(nodes[0], "permitted")
    until_in_sync(nodes, "permitted")


def unacked(nodes: Nodes, queue: str, by: str) -> None:
    """Led by the third node, its deliveries overdue after half a second: by argument, or by policy."""
    timeout = 500
    mirror(nodes[0], queue, **({"consumer_timeout": timeout} if by == "policy" else {}))
    declare(nodes[2], queue, {"x-consumer-timeout": timeout} if by == "argument" else None)
    until_in_sync(nodes, queue)
    publish(nodes[0], queue, b"1")


def until_overdue(channel: BlockingChannel) -> None:
    with pytest.raises(ChannelClosedByBroker, match="Timeout value used: 500 ms"):
        eventually(lambda: is_closed(channel), every=0.1)


def is_closed(channel: BlockingChannel) -> bool:
    """Raises why, also where the broker's word came while the client waited for something else."""
    try:
        channel.basic_qos()
    except ChannelWrongStateError:
        raise channel._closing_reason from None
    return False


@pytest.mark.parametrize("by", ["argument", "policy"])
@pytest.mark.parametrize("home", [0, 2], ids=["at a mirror", "at the leader"])
def test_a_delivery_that_is_overdue_closes_its_channel_and_comes_back(nodes: Nodes, home: int, by: str) -> None:
    """130: the consumer timeout of a mirrored queue, wherever its client is."""
    queue = f"overdue.{by}.{home}"
    unacked(nodes, queue, by)
    with channel_at(nodes[home]) as channel:
        Inbox(channel, queue).until_bodies(b"1")
        until_overdue(channel)
    with channel_at(nodes[1]) as channel:
        method, _, body = eventually(lambda: got(channel, queue))
        assert (body, method.redelivered) == (b"1", True)


def got(channel: BlockingChannel, queue: str) -> Any:
    found = channel.basic_get(queue)
    return found if found[0] is not None else None


def test_after_a_failover_what_the_new_leader_delivers_is_overdue_in_its_time(nodes: Nodes) -> None:
    """130: what is acked, of both leaders, closes nothing; what is not, closes the channel and comes back."""
    mirror(nodes[0], "clock", consumer_timeout=60_000)
    declare(nodes[2], "clock")
    until_in_sync(nodes, "clock")
    publish(nodes[0], "clock", b"1")
    with channel_at(nodes[0]) as channel:
        inbox = Inbox(channel, "clock")
        inbox.until_bodies(b"1")
        nodes[2].kill()
        inbox.until_bodies(b"1", b"1")
        channel.basic_ack(inbox.got[0][2])
        channel.basic_ack(inbox.got[1][2])
        mirror(nodes[0], "clock", consumer_timeout=500)
        inbox.rest(1.0)
        publish(nodes[1], "clock", b"2")
        inbox.until_bodies(b"1", b"1", b"2")
        until_overdue(channel)
    eventually(lambda: count(nodes[1], "clock") == 1)


REFUSING = {"x-max-length": 1, "x-overflow": "reject-publish"}
BRIEF = {"ttl": {"x-message-ttl": 0}, "length": {"x-max-length": 0}, "refusing": REFUSING}


@pytest.mark.parametrize("home", [0, 2], ids=["led here", "led elsewhere"])
@pytest.mark.parametrize("kind", BRIEF)
def test_what_is_on_its_way_to_a_consumer_neither_expires_nor_fills_the_queue(nodes: Nodes, kind: str, home: int) -> None:
    """It waits for the mirrors; in one queue alone it would have been delivered already."""
    queue = f"brief.{kind}.{home}"
    mirror(nodes[0], queue)
    declare(nodes[home], queue, BRIEF[kind])
    until_in_sync(nodes, queue)
    with channel_at(nodes[0]) as channel:
        inbox = Inbox(channel, queue, auto_ack=True)
        bodies = [b"%d" % number for number in range(20)]
        publish(nodes[0], queue, *bodies)
        inbox.until_bodies(*bodies)


@pytest.mark.parametrize("home", [0, 2], ids=["led here", "led elsewhere"])
def test_a_message_comes_back_behind_the_place_that_another_took(nodes: Nodes, home: int) -> None:
    """The client published before it requeued, so the queue was not full yet."""
    queue = f"requeued.{home}"
    mirror(nodes[0], queue)
    declare(nodes[home], queue, REFUSING)
    until_in_sync(nodes, queue)
    publish(nodes[0], queue, b"1")
    with channel_at(nodes[0]) as channel:
        tag = got(channel, queue)[0].delivery_tag
        channel.basic_publish("", queue, b"2")
        channel.basic_reject(tag, requeue=True)
        eventually(lambda: count(nodes[1], queue) == 2)
