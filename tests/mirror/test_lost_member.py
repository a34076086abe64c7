"""A ring member that has lost its copy while a new view was on its way that still counts on it."""

from __future__ import annotations

from mirror.support import Cluster, three
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.records import View


def with_trimmed_logs() -> Cluster:
    """The beginning of each log is gone: an empty log has nothing in common with one of them."""
    cluster = three()
    for _ in range(5):
        cluster.append()
    for state in cluster.states.values():
        state.lineage.base = 3
        state.lineage.firsts[0] = 3
        state.first_kept = 4
    return cluster


def lose_copy(cluster: Cluster, name: str) -> None:
    """Its process goes on, and the links stay: only this copy could not be read."""
    cluster.logs[name].clear()
    cluster.give(name, i.Started(cluster.view, Lineage(), False, False, True))


def test_the_leader_goes_on_without_a_member_that_lost_its_copy_before_it_heard_of_the_view() -> None:
    cluster = with_trimmed_logs()
    cluster.store_down = True
    lose_copy(cluster, "b")
    cluster.view = View(2, ("a", "b", "c"), (), "a view that was proposed before")
    for name in ("b", "a", "c"):
        cluster.give(name, i.ViewSeen(cluster.view))
    assert cluster.states["b"].settled is False, "it holds nothing of what the ring has confirmed"
    cluster.store_down = False
    cluster.wait(10.0)
    cluster.append()
    assert "b" not in cluster.view.ring or cluster.states["b"].whole
    assert cluster.stable == cluster.states["a"].end
