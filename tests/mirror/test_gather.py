"""Asynchronous replication with `sync-interval`: entries are kept back from the mirrors for a while."""

from __future__ import annotations

from mirror.support import Cluster, three
from mirrormq.mirror.deadlines import NEVER
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.records import Desired, View

INTERVAL = 60.0


def held(cluster: Cluster, name: str) -> int:
    return cluster.states[name].end


def test_entries_are_kept_back_for_the_interval_and_confirmed_at_once() -> None:
    cluster = three(asynchronous=True, gather=INTERVAL)
    for _ in range(3):
        cluster.append()
    cluster.wait(INTERVAL - 1)
    assert (cluster.stable, held(cluster, "b"), held(cluster, "c")) == (3, 0, 0)
    cluster.wait(1.5)
    assert (held(cluster, "b"), held(cluster, "c")) == (3, 3)
    assert cluster.view.ring == ("a", "b", "c"), "nobody is put out for what was kept back"
    assert cluster.states["a"].wake_at == NEVER


def test_the_next_ones_are_kept_back_again() -> None:
    cluster = three(asynchronous=True, gather=INTERVAL)
    cluster.append()
    cluster.wait(INTERVAL + 1)
    cluster.append()
    cluster.wait(INTERVAL - 1)
    assert held(cluster, "b") == 1
    cluster.wait(2)
    assert (held(cluster, "b"), held(cluster, "c")) == (2, 2)


def test_a_mark_that_comes_while_entries_are_kept_back_blames_nobody() -> None:
    cluster = three(asynchronous=True, gather=INTERVAL)
    cluster.held_disks.add("c")
    cluster.append()
    cluster.wait(INTERVAL + 0.5)
    cluster.append()
    cluster.release_disk("c")           # the first one becomes stable; the second one is kept back
    cluster.wait(INTERVAL - 2)
    assert (held(cluster, "b"), cluster.view.ring) == (1, ("a", "b", "c"))


def test_without_asynchronous_replication_nothing_is_kept_back() -> None:
    cluster = three(gather=INTERVAL)
    cluster.append()
    assert (held(cluster, "b"), held(cluster, "c")) == (1, 1)


def test_a_policy_without_the_interval_hands_on_what_was_kept_back() -> None:
    cluster = three(asynchronous=True, gather=INTERVAL)
    cluster.append()
    cluster.want(Desired(("a", "b", "c"), asynchronous=True))
    assert held(cluster, "c") == 1
    cluster.append()
    assert held(cluster, "c") == 2


def test_a_hand_over_waits_for_nothing_that_is_kept_back() -> None:
    cluster = three(asynchronous=True, gather=INTERVAL)
    cluster.append()
    cluster.give("a", i.HandOver("b", leave=False))
    assert (cluster.leader, held(cluster, "b"), held(cluster, "c")) == ("b", 1, 1)
    assert cluster.quarantine["a"] == []


def test_a_mirror_joins_while_entries_are_kept_back() -> None:
    cluster = Cluster(View(1, ("a",), ("b",)), desired=Desired(("a", "b"), asynchronous=True, gather=INTERVAL))
    for _ in range(2000):
        cluster.append()
    cluster.wait(INTERVAL + 1)
    assert (cluster.view.ring, held(cluster, "b")) == (("a", "b"), 2000)


def test_a_leader_that_is_gone_takes_along_what_it_kept_back() -> None:
    cluster = three(asynchronous=True, gather=INTERVAL)
    cluster.append()
    cluster.wait(INTERVAL + 1)
    cluster.append()
    cluster.crash("a")
    cluster.wait(5.0)
    assert (cluster.leader, held(cluster, "b")) == ("b", 1)
    cluster.start("a")
    cluster.wait(5.0)
    assert [batch.first for batch in cluster.quarantine["a"]] == [2]
