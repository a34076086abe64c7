"""Leads that move because somebody wants it: by a policy, by a stop, by a rebalance. Publishers and consumers go along.

One cluster for all tests; each leaves no queue and no policy behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from pika.exceptions import NackError

from cluster.live.couriers import Courier, Taker, check
from cluster.live.nodes import Nodes
from compat.support import ApiError, taken
from mirrormq.cluster.coordination import Delete, Put, open_coordination

from .inbox import Inbox
from .rings import (
    PERSISTENT,
    channel_at,
    clear,
    count,
    declare,
    eventually,
    leader_of,
    look,
    mirror,
    publish,
    standing,
    until_in_sync,
)

pytestmark = pytest.mark.timeout(300)
LONG = 60.0


@pytest.fixture
def nodes(cluster: Nodes) -> Iterator[Nodes]:
    yield cluster
    cluster.mend()
    clear(cluster[0])
    for row in cluster[0].api("GET", "/api/policies/%2F"):
        cluster[0].clear_policy("/", row["name"])


def names(nodes: Nodes) -> tuple[str, str, str]:
    return nodes[0].name, nodes[1].name, nodes[2].name


def put(nodes: Nodes, queue: str, *wanted: str) -> None:
    """On these nodes, automatically in sync."""
    mirror(nodes[0], queue, ha_sync_mode="automatic", ha_mode="nodes", ha_params=list(wanted))


def until_it_is(nodes: Nodes, queue: str, leader: str, *mirrors: str) -> None:
    wanted = (leader, sorted(mirrors), sorted(mirrors))
    for node in nodes:
        if node.process is not None:
            eventually(lambda node=node: standing(node, queue) == wanted, every=0.1)


class Steady(Taker):
    """Counts how often it had to begin anew."""

    sessions = 0

    def _is_done(self) -> bool:
        self.sessions += 1
        return super()._is_done()


def test_publishers_and_consumers_go_along_with_a_queue_that_a_policy_moves(nodes: Nodes) -> None:
    one, two, three = names(nodes)
    put(nodes, "walk", one)
    declare(nodes[0], "walk")
    couriers = [Courier(number, node.port, ["walk"], window=30) for number, node in enumerate(nodes)]
    taker = Steady(nodes[0].port, "walk")
    for thread in (taker, *couriers):
        thread.start()
    try:
        for wanted, leader in (([two], two), ([three, one], three), ([one, two, three], three), ([two, one], two)):
            eventually(lambda: all(len(courier.confirmed["walk"]) > 50 for courier in couriers))
            put(nodes, "walk", *wanted)
            until_it_is(nodes, "walk", leader, *(name for name in wanted if name != leader))
    finally:
        for courier in couriers:
            courier.stopping.set()
            courier.join(LONG)
        taker.stopping.set()
        taker.join(LONG)
    assert check(couriers, [taker]) > 150
    assert (taker.sessions, [courier.refused for courier in couriers]) == (1, [0, 0, 0])


def test_a_policy_that_moves_a_queue_cancels_who_asked_for_it_and_nobody_else(nodes: Nodes) -> None:
    one, two, _ = names(nodes)
    put(nodes, "called", one)
    declare(nodes[0], "called")
    publish(nodes[0], "called", b"1")
    with channel_at(nodes[2]) as channel:
        asked = Inbox(channel, "called", arguments={"x-cancel-on-ha-failover": True})
        asked.until_bodies(b"1")
        other = Inbox(channel, "called")
        put(nodes, "called", two)
        asked.until(lambda: asked.cancelled == [asked.tag])
        other.until_bodies(b"1")
        assert other.got[0][1]
        publish(nodes[1], "called", b"2")
        other.until_bodies(b"1", b"2")
        assert not other.got[1][1]
        assert asked.tag not in other.tags


@pytest.mark.parametrize("overflow", ["reject-publish", pytest.param("reject-publish-dlx", marks=pytest.mark.chaos)])
def test_a_full_queue_that_moves_confirms_what_it_takes_and_refuses_the_rest(nodes: Nodes, overflow: str) -> None:
    one, two, _ = names(nodes)
    put(nodes, "full", one)
    declare(nodes[0], "full", {"x-max-length": 3, "x-overflow": overflow})
    confirmed = []
    with channel_at(nodes[2]) as channel:

        def is_moved(number: int) -> bool:
            with suppress(NackError):
                channel.basic_publish("", "full", b"%d" % number, PERSISTENT)
                confirmed.append(b"%d" % number)
            return number > 50 and leader_of(nodes[2], "full") == two

        numbers = iter(range(1000000))
        is_moved(next(numbers))
        put(nodes, "full", two)
        eventually(lambda: is_moved(next(numbers)))
        until_it_is(nodes, "full", two)
        assert len(confirmed) == 3
        assert taken(channel, "full") == confirmed


def test_a_backlog_moves_to_the_last_mirror_alone(nodes: Nodes) -> None:
    """33."""
    mirror(nodes[0], "heap", ha_sync_mode="automatic")
    declare(nodes[0], "heap")
    publish(nodes[0], "heap", *[b"%d" % number for number in range(300)])
    until_in_sync(nodes, "heap")
    last = look(nodes[0], "heap")["synchronised_slave_nodes"][-1]
    put(nodes, "heap", last)
    until_it_is(nodes, "heap", last)
    with channel_at(nodes[0]) as channel:
        assert taken(channel, "heap") == [b"%d" % number for number in range(300)]


def test_the_first_name_of_a_policy_leads_when_the_lead_is_given_away(nodes: Nodes) -> None:
    """22, with messages; the order holds for a stop too, and takes the lead from nobody who has it."""
    one, two, three = names(nodes)
    declare(nodes[0], "order")
    publish(nodes[1], "order", b"1")
    put(nodes, "order", three, two)
    until_it_is(nodes, "order", three, two)
    put(nodes, "order", two, one, three)
    until_it_is(nodes, "order", three, one, two)
    put(nodes, "order", one, three, two)
    nodes[2].stop()
    eventually(lambda: leader_of(nodes[1], "order") == one)
    assert count(nodes[1], "order") == 1


def test_leads_are_spread_over_the_nodes_that_hold_the_queues(nodes: Nodes) -> None:
    """39, 40, 41: the longest stay where they are, and no copy goes; the lead of one queue goes where it is told to."""
    one, two, three = names(nodes)
    mirror(nodes[0], "all.")
    put(nodes, "two.", one, two)
    for kind in ("all", "two"):
        for number in range(1, 6):
            declare(nodes[0], f"{kind}.{number}")
        publish(nodes[0], f"{kind}.1", *[b""] * 5)
        publish(nodes[0], f"{kind}.2", *[b""] * 3)
        until_in_sync(nodes, *[f"{kind}.{number}" for number in range(1, 6)], copies=3 if kind == "all" else 2)

    def spread(kind: str) -> list[str]:
        shares = nodes[1].api("POST", "/api/rebalance/queues", {"queue_pattern": f"^{kind}", "tell": True})
        assert sum(share["leaders"] for share in shares) == 5
        return [leader_of(nodes[1], f"{kind}.{number}") for number in range(1, 6)]

    found = spread("all")
    assert found[:2] == [one, one]
    assert sorted(found) == [one, one, two, two, three] or sorted(found) == [one, one, two, three, three]
    until_in_sync(nodes, *[f"all.{number}" for number in range(1, 6)])
    nodes[0].api("POST", "/api/queues/%2F/two.5/actions", {"action": "move", "node": two})
    assert leader_of(nodes[0], "two.5") == two
    with pytest.raises(ApiError, match="has no copy"):
        nodes[2].api("POST", "/api/queues/%2F/two.5/actions", {"action": "move", "node": three})
    found = spread("two")
    assert sorted(found) in ([one, one, two, two, two], [one, one, one, two, two])
    until_in_sync(nodes, *[f"two.{number}" for number in range(1, 6)], copies=2)


def test_what_was_acked_around_an_unacked_message_stays_away_when_a_node_leads_again(nodes: Nodes) -> None:
    one, two, _ = names(nodes)
    mirror(nodes[0], "again")
    declare(nodes[0], "again")
    until_in_sync(nodes, "again")
    publish(nodes[0], "again", *[b"%d" % number for number in range(6)])
    with channel_at(nodes[2]) as channel:
        inbox = Inbox(channel, "again")
        inbox.until(lambda: len(inbox.got) == 6)
        for _, _, tag in inbox.got[2:5]:
            channel.basic_ack(tag)
    eventually(lambda: count(nodes[0], "again") == 3)
    for leader in (two, one, two, one):
        nodes[2].api("POST", "/api/queues/%2F/again/actions", {"action": "move", "node": leader})
    assert count(nodes[0], "again") == 3
    with channel_at(nodes[2]) as channel:
        assert taken(channel, "again") == [b"0", b"1", b"5"]


def test_leads_go_where_the_fewest_clients_are(nodes: Nodes) -> None:
    mirror(nodes[0], "near")
    for number in range(4):
        declare(nodes[0], f"near.{number}")
    until_in_sync(nodes, *[f"near.{number}" for number in range(4)])
    with ExitStack() as stack:
        for node in (nodes[0], nodes[1]):
            for _ in range(8):
                stack.enter_context(channel_at(node))
        nodes[1].api("POST", "/api/rebalance/queues", {"queue_pattern": "^near", "strategy": "connections"})
        assert {leader_of(nodes[1], f"near.{number}") for number in range(4)} == {nodes[2].name}
    with pytest.raises(ApiError, match="unknown strategy"):
        nodes[1].api("POST", "/api/rebalance/queues", {"strategy": "astrology"})


def test_of_two_rebalances_at_once_one_is_refused(nodes: Nodes) -> None:
    """42. Here another one holds the lock."""
    async def lock(is_held: bool) -> None:
        store = await open_coordination(nodes.coordination)
        try:
            await store.transact([], [Put("rebalance", "another")] if is_held else [Delete("rebalance")])
        finally:
            await store.close()

    asyncio.run(lock(True))
    try:
        with pytest.raises(ApiError, match="rebalance_in_progress"):
            nodes[0].api("POST", "/api/rebalance/queues", {})
    finally:
        asyncio.run(lock(False))
    nodes[0].api("POST", "/api/rebalance/queues", {})


def test_a_virtual_host_goes_with_its_mirrored_queues(nodes: Nodes) -> None:
    """26."""
    nodes[0].add_vhost("brief")
    try:
        nodes[0].set_policy("brief", "all", ".*", {"ha-mode": "all"}, apply_to="queues")
        nodes[1].api("PUT", "/api/queues/brief/gone", {"durable": True})
        place = "/api/queues/brief/gone"
        eventually(lambda: len(nodes[2].api("GET", place).get("synchronised_slave_nodes", [])) == 2)
    finally:
        nodes[2].delete_vhost("brief")
    for node in nodes:
        eventually(lambda node=node: "brief" not in {row["vhost"] for row in node.api("GET", "/api/queues")})
        assert "gone" not in {row["name"] for row in node.api("GET", "/api/queues")}


def test_a_mirrored_queue_shows_every_consumer_with_its_channel(nodes: Nodes) -> None:
    """125."""
    mirror(nodes[0], "shown")
    declare(nodes[0], "shown")
    with channel_at(nodes[1]) as one, channel_at(nodes[2]) as two:
        tags = {Inbox(one, "shown", prefetch=3).tag: 3, Inbox(two, "shown", prefetch=4).tag: 4}

        def are_shown() -> bool:
            details = look(nodes[2], "shown").get("consumer_details", [])
            assert {row["consumer_tag"]: row["prefetch_count"] for row in details} == tags
            assert {row["channel_details"]["node"] for row in details} == {nodes[1].name, nodes[2].name}
            return True

        eventually(are_shown)


@pytest.mark.chaos
def test_a_policy_counts_for_a_node_that_comes_back_later(nodes: Nodes) -> None:
    """25, 35, 36: whoever is down when a policy comes is no trouble, and is a mirror when it is back."""
    one, two, three = names(nodes)
    declare(nodes[0], "late")
    publish(nodes[0], "late", b"1")
    nodes[2].kill()
    mirror(nodes[0], "late", ha_sync_mode="automatic")
    until_it_is(nodes, "late", one, two)
    nodes[2].start()
    until_it_is(nodes, "late", one, two, three)
    assert count(nodes[2], "late") == 1
