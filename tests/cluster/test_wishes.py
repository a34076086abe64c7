"""What policies want of a queue's mirrors: RabbitMQ's node selection, case by case."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirrormq.cluster.wishes import Nodes, Standing, choose, desired, first_ring

ALL: dict[str, object] = {"ha-mode": "all"}


def exactly(count: int) -> dict[str, object]:
    return {"ha-mode": "exactly", "ha-params": count}


def on(names: str) -> dict[str, object]:
    return {"ha-mode": "nodes", "ha-params": list(names)}


def standing(leader: str, mirrors: str = "", synced: str = "") -> Standing:
    return Standing(leader, tuple(mirrors), tuple(synced))


def pick_first(names: Sequence[str], count: int) -> list[str]:
    return list(names[:count])


@pytest.mark.parametrize(("policy", "now", "running", "leader", "mirrors"), [
    pytest.param(ALL, standing("a"), "abc", "a", "bc", id="1 all: everybody"),
    pytest.param(ALL, standing("a", "bc", "bc"), "abc", "a", "bc", id="2 all: nothing changes"),
    pytest.param(ALL, standing("a", "d", "d"), "abc", "a", "bc", id="3 all: who is down does not count"),
    pytest.param(on("abc"), standing("a", "b", "b"), "abcd", "a", "bc", id="4 nodes: one more"),
    pytest.param(on("abc"), standing("b", "a", "a"), "abcd", "b", "ac", id="5 nodes: the leader stays though not first"),
    pytest.param(on("abc"), standing("a", "d", "d"), "abcd", "a", "bc", id="6 nodes: who is not named goes"),
    pytest.param(on("abf"), standing("a", "b", "b"), "abcd", "a", "b", id="7 nodes: who is down is left out"),
    pytest.param(on("fgh"), standing("a", "b", "b"), "abcd", "a", "", id="8 nodes: none runs, the leader stays"),
    pytest.param(on("bc"), standing("a"), "abcd", "a", "bc", id="9 nodes: the leader stays while nothing is in sync"),
    pytest.param(on("bc"), standing("a", "b"), "abcd", "a", "bc", id="10 nodes: and while the mirror is not in sync"),
    pytest.param(on("bc"), standing("a", "b", "b"), "abcd", "b", "c", id="11 nodes: a named mirror in sync takes over"),
    pytest.param(on("cb"), standing("a", "b", "b"), "abcd", "b", "c", id="12 nodes: being in sync goes before the order"),
    pytest.param(exactly(2), standing("a", "c", "c"), "abcd", "a", "c", id="15 exactly: enough is enough"),
    pytest.param(exactly(2), standing("a", "cd", "cd"), "abcd", "a", "c", id="17 exactly: the youngest goes"),
    pytest.param(exactly(3), standing("a", "cd", "cd"), "abcd", "a", "cd", id="18 exactly: nothing changes"),
    pytest.param({"max-length": 3}, standing("a", "b", "b"), "abc", "a", "", id="no mirroring"),
])
def test_the_nodes_that_a_policy_suggests(policy: dict[str, object], now: Standing, running: str, leader: str,
                                          mirrors: str) -> None:
    chosen = choose(policy, now, tuple(running), pick_first)
    assert (chosen[0], sorted(chosen[1])) == (leader, sorted(mirrors))


@pytest.mark.parametrize(("count", "now", "kept", "more"), [
    pytest.param(2, standing("a"), "", 1, id="13"), pytest.param(3, standing("a"), "", 2, id="14"),
    pytest.param(3, standing("a", "c", "c"), "c", 1, id="16"),
])
def test_exactly_adds_any_others_and_keeps_those_it_has(count: int, now: Standing, kept: str, more: int) -> None:
    offered: list[Sequence[str]] = []

    def pick(names: Sequence[str], count: int) -> list[str]:
        offered.append(names)
        return list(names[-count:])

    leader, mirrors = choose(exactly(count), now, tuple("abcd"), pick)
    assert (leader, mirrors[:len(kept)], len(mirrors)) == ("a", tuple(kept), len(kept) + more)
    assert set(offered[0]) == set("bcd") - set(kept)


def test_the_order_of_nodes_is_a_preference_among_those_in_sync() -> None:
    assert choose(on("cb"), standing("a", "bc", "bc"), tuple("abc"), pick_first) == ("c", ("b",))


def test_the_order_of_nodes_is_kept_for_when_the_lead_is_given_away() -> None:
    nodes = Nodes(tuple("abc"), tuple("abc"))
    assert desired(on("cb"), standing("b", "c", "c"), nodes, pick_first, rate=0, revision=1).order == ("c", "b")
    assert desired(ALL, standing("b", "c", "c"), nodes, pick_first, rate=0, revision=1).order == ()


def test_a_new_queue_begins_in_sync_everywhere() -> None:
    assert first_ring(ALL, "b", tuple("abc"), pick_first) == ["b", "a", "c"]
    assert first_ring(on("bc"), "a", tuple("abc"), pick_first) == ["a", "b", "c"]
    assert first_ring({"max-length": 1}, "a", tuple("abc"), pick_first) == []


def wanted(policy: dict[str, object], now: Standing, members: str, running: str) -> tuple[str, ...]:
    return desired(policy, now, Nodes(tuple(members), tuple(running)), pick_first, rate=0, revision=1).members


def test_a_mirror_that_is_down_keeps_its_copy_where_it_is_still_wanted() -> None:
    assert set(wanted(ALL, standing("a", "bc", "bc"), "abc", "ab")) == set("abc")
    assert set(wanted(on("abc"), standing("a", "bd", "b"), "abcd", "a")) == set("ab")


def test_exactly_replaces_a_mirror_that_is_down_if_it_can() -> None:
    assert wanted(exactly(2), standing("a", "b", "b"), "abc", "ac") == ("a", "c")
    assert wanted(exactly(3), standing("a", "bc", "bc"), "abc", "ac") == ("a", "c", "b")


def test_a_node_that_has_left_the_cluster_is_not_waited_for() -> None:
    assert wanted(ALL, standing("a", "bc", "bc"), "ab", "ab") == ("a", "b")


@pytest.mark.parametrize(("failure", "shutdown", "after_crash", "after_stop"), [
    (None, None, False, False), ("always", None, True, False), (None, "always", False, True),
    ("when-synced", "always", False, False), ("always", "always", True, True), ("when-synced", None, False, False),
])
def test_who_is_not_in_sync_leads_only_where_the_policy_says_so(failure: str | None, shutdown: str | None, after_crash: bool,
                                                                after_stop: bool) -> None:
    policy = dict(ALL)
    if failure:
        policy["ha-promote-on-failure"] = failure
    if shutdown:
        policy["ha-promote-on-shutdown"] = shutdown
    wish = desired(policy, standing("a", "b"), Nodes(("a", "b"), ("a", "b")), pick_first, rate=0, revision=1)
    assert (wish.promote_after_crash, wish.promote_after_stop) == (after_crash, after_stop)


@pytest.mark.parametrize(("definition", "seconds"), [
    ({"ha-replication": "async", "sync-interval": "10s"}, 10.0),
    ({"ha-replication": "async", "sync-interval": 250}, 0.25),
    ({"ha-replication": "async", "sync-interval": 0}, 0.0),
    ({"ha-replication": "async"}, 7.0),
    ({"sync-interval": "10s"}, 0.0),
])  # fmt: skip
def test_only_an_asynchronous_policy_keeps_entries_back(definition: dict[str, object], seconds: float) -> None:
    wanted = desired(ALL | definition, standing("a"), Nodes(("a", "b"), ("a", "b")), pick_first, rate=0, revision=1, gather=7.0)
    assert wanted.gather == seconds
