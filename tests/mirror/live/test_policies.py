"""Policies of mirroring on three nodes: set, changed and cleared while the queues work; who holds a queue then, and who leads.

One cluster for all tests; each has queues and policies under a name of its own. Numbers are those of the
scenarios in the documents: 19 to 22 change a policy, 28 to 31 promote mirrors that are not in sync, 44 to 53 are failures.
"""

from __future__ import annotations

import time
from itertools import permutations
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker, NackError

from cluster.live.nodes import Nodes
from compat.support import ApiError
from live.load import drain

from .probe import Report, Witness
from .probe import count as account
from .rings import channel_at, count, declare, eventually, leader_of, look, members_of, mirror, publish, standing, until_in_sync

pytestmark = pytest.mark.timeout(300)


def on(*names: str) -> dict[str, Any]:
    return {"ha_mode": "nodes", "ha_params": list(names)}


def exactly(number: int) -> dict[str, Any]:
    return {"ha_mode": "exactly", "ha_params": number}


def until_it_is(nodes: Nodes, queue: str, leader: str, *mirrors: str) -> None:
    """Led and mirrored so, all in sync, on every node that runs."""
    wanted = (leader, sorted(mirrors), sorted(mirrors))

    def is_so(number: int) -> bool:
        found = standing(nodes[number], queue)
        assert found == wanted, (found, look(nodes[number], queue))
        return True

    for number in range(3):
        if nodes[number].process is not None:
            eventually(lambda number=number: is_so(number), every=0.1)


def until_plain(nodes: Nodes, queue: str, leader: str) -> None:
    eventually(lambda: "slave_nodes" not in look(nodes[1], queue) and leader_of(nodes[1], queue) == leader)


def test_a_queue_follows_its_policy_from_none_to_all_to_others_and_back(nodes: Nodes) -> None:
    """19, 20, 21, with messages in it."""
    one, two, three = (node.name for node in nodes)
    declare(nodes[0], "change")
    publish(nodes[1], "change", b"1", b"2")
    assert "slave_nodes" not in look(nodes[1], "change")
    mirror(nodes[1], "change", ha_sync_mode="automatic")
    until_it_is(nodes, "change", one, two, three)
    mirror(nodes[1], "change", ha_sync_mode="automatic", **on(one, two))
    until_it_is(nodes, "change", one, two)
    mirror(nodes[1], "change", ha_sync_mode="automatic", **on(one, three))
    until_it_is(nodes, "change", one, three)
    nodes[2].clear_policy("/", "change")
    until_plain(nodes, "change", one)
    assert count(nodes[2], "change") == 2
    mirror(nodes[2], "change", ha_sync_mode="automatic", **exactly(2))
    eventually(lambda: len(look(nodes[0], "change").get("synchronised_slave_nodes", [])) == 1)
    assert count(nodes[1], "change") == 2
    nodes[2].clear_policy("/", "change")


def test_a_queue_moves_to_the_nodes_that_its_policy_names(nodes: Nodes) -> None:
    """22. The first name leads, as soon as it is in sync."""
    one, two, three = (node.name for node in nodes)
    declare(nodes[0], "move")
    publish(nodes[1], "move", b"1")
    mirror(nodes[1], "move", ha_sync_mode="automatic", **on(two, three))
    until_it_is(nodes, "move", two, three)
    assert count(nodes[0], "move") == 1
    mirror(nodes[1], "move", ha_sync_mode="automatic", **on(one))
    until_it_is(nodes, "move", one)
    assert count(nodes[2], "move") == 1
    nodes[2].clear_policy("/", "move")


def test_policies_that_change_under_load_lose_and_double_nothing(nodes: Nodes) -> None:
    """53, 55: every publish is confirmed, whatever moves."""
    one, two, three = (node.name for node in nodes)
    declare(nodes[0], "busy")
    witnesses = [Witness(number, node.port, "busy", 20) for number, node in enumerate(nodes, 1)]
    for witness in witnesses:
        witness.start()
    wishes: list[dict[str, Any]] = [{}, on(two, three), exactly(2), on(three), {}, on(one)]
    try:
        for wish in wishes:
            mirror(nodes[0], "busy", ha_sync_mode="automatic", **wish)
            time.sleep(0.5)
        nodes[0].clear_policy("/", "busy")
        time.sleep(0.5)
        mirror(nodes[0], "busy", ha_sync_mode="automatic")
        until_in_sync(nodes, "busy")
    finally:
        for witness in witnesses:
            witness.finish()
    report = account(Report(), witnesses, drain(nodes[1].port, "busy"), "busy")
    report.must_be_clean()
    nodes[2].clear_policy("/", "busy")


def test_policies_that_change_faster_than_they_can_be_followed_end_at_the_last(nodes: Nodes) -> None:
    one, two, three = (node.name for node in nodes)
    declare(nodes[0], "hasty")
    for number in range(10):
        mirror(nodes[number % 3], "hasty", ha_sync_mode="automatic", **(on(one, two) if number % 2 else on(two, three)))
    mirror(nodes[0], "hasty", ha_sync_mode="automatic", **on(three))
    until_it_is(nodes, "hasty", three)
    nodes[2].clear_policy("/", "hasty")


def test_exactly_finds_a_replacement_for_a_mirror_that_dies(nodes: Nodes) -> None:
    mirror(nodes[0], "pair", ha_sync_mode="automatic", **exactly(2))
    declare(nodes[0], "pair")
    until_in_sync(nodes, "pair", copies=2)
    publish(nodes[0], "pair", b"1", b"2")
    dead = look(nodes[0], "pair")["slave_nodes"][0]
    left = next(name for name in (nodes[1].name, nodes[2].name) if name != dead)
    next(node for node in nodes if node.name == dead).kill()
    until_it_is(nodes, "pair", nodes[0].name, left)
    assert count(nodes[0], "pair") == 2


def test_an_operator_policy_adds_its_mirrors(nodes: Nodes) -> None:
    one, two, three = (node.name for node in nodes)
    mirror(nodes[0], "ruled", **exactly(2))
    declare(nodes[0], "ruled")
    until_in_sync(nodes, "ruled", copies=2)
    body = {"pattern": "^ruled", "definition": {"ha-mode": "all"}, "apply-to": "queues", "priority": 0}
    nodes[1].api("PUT", "/api/operator-policies/%2F/rule", body)
    until_it_is(nodes, "ruled", one, two, three)
    assert look(nodes[2], "ruled")["operator_policy"] == "rule"
    nodes[1].api("DELETE", "/api/operator-policies/%2F/rule")
    until_in_sync(nodes, "ruled", copies=2)


def test_of_two_policies_the_one_of_higher_priority_counts(nodes: Nodes) -> None:
    one, two, _ = (node.name for node in nodes)
    mirror(nodes[0], "rank", policy="low")
    mirror(nodes[0], "rank", policy="high", priority=5, **on(one, two))
    declare(nodes[0], "rank")
    until_it_is(nodes, "rank", one, two)
    nodes[1].clear_policy("/", "high")
    until_in_sync(nodes, "rank")


def test_a_policy_that_makes_no_sense_is_refused_with_rabbitmqs_words(nodes: Nodes) -> None:
    with pytest.raises(ApiError, match='ha-mode="exactly" takes an integer'):
        nodes[0].set_policy("/", "bad", "^bad", {"ha-mode": "exactly"})
    with pytest.raises(ApiError, match="must be specified"):
        nodes[0].set_policy("/", "bad", "^bad", {"ha-params": 2})


def test_declared_and_deleted_again_and_again_under_one_name(nodes: Nodes) -> None:
    """44."""
    mirror(nodes[0], "again")
    with channel_at(nodes[0]) as channel:
        for _ in range(20):
            channel.queue_declare("again", durable=True)
            channel.queue_delete("again")


def test_what_was_just_confirmed_survives_the_leader(nodes: Nodes) -> None:
    """45; and the failover is on record, with its verdict."""
    mirror(nodes[0], "sure")
    declare(nodes[2], "sure")
    publish(nodes[2], "sure", b"1")
    nodes[2].kill()
    eventually(lambda: leader_of(nodes[0], "sure") not in ("", nodes[2].name))
    assert count(nodes[1], "sure") == 1
    record = eventually(lambda: nodes[1].api("GET", "/api/queues/%2F/sure/failovers"))[0]
    assert (record["old_leader"], record["lost"]) == (nodes[2].name, 0)
    assert "0 confirmed messages lost" in record["sentence"]
    assert set(record["members"]) == set(record["known_stable"]) == set(nodes.names[:2])
    assert record["end"] >= max(1, *record["known_stable"].values())
    assert record["serve_ms"] >= record["elect_ms"] >= 0
    words = tuple(f"by the word of {one} and {other}" for one, other in permutations(nodes.names[:2]))
    assert any(word in record["sentence"] for word in words)


def test_an_exclusive_queue_is_not_mirrored_and_goes_with_its_node(nodes: Nodes) -> None:
    """46."""
    mirror(nodes[0], "own")
    with channel_at(nodes[2]) as channel:
        channel.queue_declare("own", exclusive=True)
        assert "slave_nodes" not in look(nodes[0], "own") or look(nodes[0], "own")["slave_nodes"] == []
        nodes[2].kill()
    eventually(lambda: not look(nodes[0], "own"))
    nodes[2].start()
    nodes.until_whole()
    assert not look(nodes[2], "own")


def test_too_few_in_sync_refuse_publishes(nodes: Nodes) -> None:
    mirror(nodes[0], "enough", ha_min_in_sync=3)
    declare(nodes[0], "enough")
    until_in_sync(nodes, "enough")
    publish(nodes[0], "enough", b"1")
    nodes[2].kill()
    eventually(lambda: members_of(nodes[1], "enough") == [nodes[0].name, nodes[1].name])
    with pytest.raises(NackError):
        publish(nodes[1], "enough", b"2")
    nodes[2].start()
    until_in_sync(nodes, "enough")
    publish(nodes[1], "enough", b"3")
    assert count(nodes[0], "enough") == 2


def unsynced(nodes: Nodes, queue: str, **policy: Any) -> None:
    """The third node leads alone with ten messages; the others are mirrors and not in sync."""
    declare(nodes[2], queue)
    publish(nodes[2], queue, *[b"%d" % number for number in range(10)])
    mirror(nodes[2], queue, ha_sync_mode="manual", **policy)
    eventually(lambda: len(look(nodes[0], queue).get("slave_nodes", [])) == 2)
    assert standing(nodes[0], queue)[2] == []


@pytest.mark.parametrize(("failure", "shutdown", "crash", "leads"), [
    (None, None, True, False), (None, "always", False, True),
    pytest.param("always", None, True, True, marks=pytest.mark.chaos),
    pytest.param("when-synced", "always", False, False, marks=pytest.mark.chaos),
    pytest.param(None, None, False, False, marks=pytest.mark.chaos),
], ids=["crash", "stop always", "crash always", "stop POF beats POS", "stop"])
def test_a_mirror_that_is_not_in_sync_leads_only_if_the_policy_says_so(nodes: Nodes, failure: str | None, shutdown: str | None,
                                                                       crash: bool, leads: bool) -> None:
    """28, 30, 31 and the matrix, with when-synced as the default for both."""
    queue = f"matrix.{failure}.{shutdown}.{crash}"
    policy = {"ha_promote_on_failure": failure, "ha_promote_on_shutdown": shutdown}
    unsynced(nodes, queue, **{name: value for name, value in policy.items() if value})
    if crash:
        nodes[2].kill()
    else:
        nodes[2].stop()
    if leads:
        eventually(lambda: leader_of(nodes[0], queue) in (nodes[0].name, nodes[1].name))
        assert count(nodes[0], queue) == 0
        publish(nodes[1], queue, b"new")
        return
    eventually(lambda: look(nodes[0], queue).get("state") == "down")
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        count(nodes[0], queue)
    nodes[2].start()
    eventually(lambda: leader_of(nodes[0], queue) == nodes[2].name and look(nodes[0], queue).get("state") == "running")
    assert count(nodes[0], queue) == 10
