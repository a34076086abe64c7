"""How long a cancelled sync stays cancelled."""

from __future__ import annotations

from mirror.support import Cluster
from mirror.test_membership import pair
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.records import Desired, View


def test_a_cancelled_sync_begins_again_when_the_policy_becomes_automatic() -> None:
    cluster = pair(automatic=False, rate=1)
    cluster.give("a", i.Sync(on=True))
    cluster.give("a", i.Sync(on=False))
    for name in ("b", "a"):
        cluster.give(name, i.SetDesired(Desired(("a", "b"), automatic=True)))
    cluster.wait(10.0)
    assert cluster.view.ring == ("a", "b")


def test_a_leader_that_hears_of_the_new_policy_last_repeats_no_cancel() -> None:
    cluster = pair(automatic=False, rate=1)
    cluster.give("a", i.Sync(on=True))
    cluster.give("a", i.Sync(on=False))
    cluster.give("b", i.SetDesired(Desired(("a", "b"), automatic=True)))
    cluster.cut("a", "b")
    cluster.link("a", "b")
    cluster.give("a", i.SetDesired(Desired(("a", "b"), automatic=True)))
    cluster.wait(10.0)
    assert cluster.view.ring == ("a", "b")


def test_a_cancelled_sync_does_not_outlive_the_leader_that_was_told() -> None:
    cluster = Cluster(View(1, ("a", "b")), "a", "b", "c", desired=Desired(("a", "b")))
    for _ in range(3):
        cluster.append()
    for name in ("a", "b"):
        cluster.give(name, i.Trimmed(3))
    cluster.want(Desired(("a", "b", "c"), rate=1))
    cluster.give("a", i.Sync(on=False))
    cluster.crash("a")
    cluster.wait(10.0)
    assert cluster.view.ring == ("b", "c")
