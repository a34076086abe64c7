"""A copy counts as in sync only if its state is the leader's."""

from __future__ import annotations

from array import array
from pathlib import Path

from mirror.nodes import QUEUE, Cluster, numbered
from mirror.support import Cluster as Machines
from mirror.support import three
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store
from mirrormq.mirror.deadlines import COMPARE_AFTER
from mirrormq.mirror.machine import effects as e
from mirrormq.mirror.machine.records import Desired, View


def test_a_member_that_differs_is_put_out_and_takes_its_copy_anew() -> None:
    cluster = three()
    cluster.append()
    cluster.sums["b"] = (12, 0, 0)
    cluster.wait(COMPARE_AFTER + 1)
    assert cluster.view.ring == ("a", "c")
    assert cluster.view.reason.endswith("because b holds another state of the queue")
    assert cluster.did("b", e.BeginAt)
    del cluster.sums["b"]
    cluster.wait(COMPARE_AFTER)
    assert cluster.view.ring == ("a", "c", "b")


def test_a_checksum_that_one_side_does_not_know_is_no_difference() -> None:
    cluster = three()
    cluster.append()
    cluster.sums["b"] = (0, 0, -1)
    cluster.wait(COMPARE_AFTER + 1)
    assert cluster.view.ring == ("a", "b", "c")


def test_a_comparison_of_the_ring_waits_while_a_learner_is_asked() -> None:
    cluster = Machines(View(1, ("a", "b"), ("c",)), desired=Desired(("a", "b", "c"), automatic=True))
    cluster.held_sums.add("c")
    cluster.wait(0.5)       # so that the two deadlines do not fall together
    cluster.append()
    cluster.wait(COMPARE_AFTER + 10)
    assert cluster.view.ring == ("a", "b")
    cluster.held_sums.clear()
    cluster.wait(COMPARE_AFTER)
    assert cluster.view.ring == ("a", "b", "c")


def with_one_that_differs(folder: Path) -> Cluster:
    """a leads. The log of b was given a state that is not true: it still has two messages that were acknowledged."""
    cluster = Cluster(folder, "a", "b")
    cluster.begin()
    cluster.wait(10)
    cluster.publish(4)
    cluster.consume(2)
    cluster.kill("b")
    store = Store(folder / "b")
    store.open()
    store.put_snapshot(Snapshot(QUEUE, 3, store.next_index(QUEUE), 1, array("Q"), count=4, bytes=4))
    store.close()
    cluster.wait(5)
    return cluster


def test_what_differs_goes_to_quarantine(tmp_path: Path) -> None:
    cluster = with_one_that_differs(tmp_path)
    cluster.start("b")
    cluster.wait(20)
    found = [(seen.node, seen.are_equal, seen.mine, seen.theirs) for seen in cluster.nodes["a"].compared_with]
    assert found[-2:] == [("b", False, 2, 4), ("b", True, 2, 2)]
    assert cluster.view.ring == ("a", "b")
    assert cluster.nodes["b"].live() == 2
    assert cluster.nodes["b"].set_aside() == numbered(1, 2)


def set_b_aside(cluster: Cluster) -> None:
    """b goes down when its log is set aside, and before it has the leader's messages."""
    node = cluster.run("b")
    node.hold(cluster.view, is_fresh=False)
    while QUEUE not in node.store.asides:
        cluster.nodes["a"].work()
        node.work()
        assert cluster.on_the_way, "they still talk"
        sender, receiver, payload = cluster.on_the_way.popleft()
        receiver.rings.received(sender.name, payload)
    cluster.on_the_way.clear()
    cluster.kill("b")


def test_what_differs_goes_to_quarantine_after_a_restart_in_the_middle(tmp_path: Path) -> None:
    cluster = with_one_that_differs(tmp_path)
    set_b_aside(cluster)
    cluster.start("b")
    cluster.wait(20)
    assert cluster.view.ring == ("a", "b")
    assert cluster.nodes["b"].live() == 2
    assert cluster.nodes["b"].set_aside() == numbered(1, 2)


def test_what_differs_goes_to_quarantine_when_its_node_is_no_mirror_any_more(tmp_path: Path) -> None:
    cluster = with_one_that_differs(tmp_path)
    set_b_aside(cluster)
    cluster.want(Desired(("a",), revision=1))
    cluster.wait(5)
    assert not cluster.view.holds("b")
    node = cluster.run("b")
    node.hold(cluster.view, is_fresh=False)
    cluster.rest()
    assert node.holding.state.has_parted
    assert node.set_aside() == numbered(1, 4), "what of it the leader has is not known"
