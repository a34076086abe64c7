"""Who leads by force lacks what others hold: from then on every copy is what the leader's is, and the rest is in quarantine."""

from __future__ import annotations

from pathlib import Path

from mirror.nodes import Cluster, numbered
from mirrormq.mirror.machine.records import Desired


def partial_pair(folder: Path) -> Cluster:
    """a leads and holds ten messages, b is a mirror that lacks them, and may lead all the same."""
    cluster = Cluster(folder, "a", "b", desired=Desired(("a",)))
    cluster.begin()
    cluster.publish(10)
    cluster.want(Desired(("a", "b"), automatic=False, promote_after_stop=True, revision=1))
    assert cluster.view.learners == ("b",)
    return cluster


def test_who_comes_back_after_a_forced_promotion_is_what_the_leader_is(tmp_path: Path) -> None:
    cluster = partial_pair(tmp_path)
    cluster.stop("a")
    cluster.wait(60)
    assert cluster.leader.name == "b"
    assert cluster.leader.queue.backlog.count == 0
    cluster.start("a")
    cluster.wait(10)
    assert cluster.view.ring == ("b", "a")
    assert cluster.nodes["a"].live() == 0
    assert cluster.nodes["a"].set_aside() == numbered(1, 10)
    cluster.stop("b")
    cluster.wait(10)
    assert cluster.leader.name == "a"
    assert cluster.leader.queue.backlog.count == 0
    cluster.publish(4)
    assert cluster.leader.bodies() == numbered(11, 14)


def test_what_a_forced_promotion_will_cost_is_known_before(tmp_path: Path) -> None:
    cluster = partial_pair(tmp_path)
    cluster.publish(2)
    assert cluster.nodes["a"].holding.lacking("b") == 10
    cluster.consume(6)
    assert cluster.nodes["a"].holding.lacking("b") == 4
    cluster.stop("a")
    cluster.wait(60)
    assert cluster.leader.queue.backlog.count == 2
    assert cluster.view.forced
    assert "a was stopped" in cluster.view.reason


def test_a_node_that_is_no_mirror_any_more_keeps_what_the_leader_did_not_have(tmp_path: Path) -> None:
    cluster = partial_pair(tmp_path)
    cluster.stop("a")
    cluster.wait(60)
    assert cluster.leader.queue.backlog.count == 0
    cluster.want(Desired(("b",), automatic=False, promote_after_stop=True, revision=2))
    assert not cluster.view.holds("a")
    cluster.kill("b")
    cluster.start("b")
    cluster.wait(10)
    node = cluster.run("a")
    node.hold(cluster.view, is_fresh=False)
    cluster.rest()
    assert node.holding.state.has_parted
    assert node.set_aside() == numbered(1, 10)
    assert sum(node.orphans.values()) == 10


def test_a_record_counts_what_may_be_delivered_again(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "a", "b")
    cluster.begin()
    cluster.wait(10)
    cluster.publish(10)
    queue = cluster.leader.queue
    queue.reserve(0, 5)
    for _ in range(3):
        queue.hold(queue.backlog.pop())
    cluster.rest()
    cluster.kill("a")
    cluster.wait(10)
    leader = cluster.leader
    again = [message for message in (leader.queue.backlog.pop() for _ in range(10)) if message.redelivered]
    assert len(again) == 4
    assert leader.requeued == [4]


def test_a_crash_before_it_has_said_what_it_lacks(tmp_path: Path) -> None:
    """What it has does not count as whole before its first entry, which names the rest, is on disk."""
    cluster = partial_pair(tmp_path)
    cluster.stop("a")
    node = cluster.nodes["b"]
    node.takes_turns = False
    cluster.wait(60)
    assert cluster.leader is node
    cluster.kill("b", lose_unwritten=True)
    cluster.start("b")
    cluster.start("a")
    cluster.wait(30)
    assert cluster.view.ring == ("b", "a")
    assert [cluster.nodes[name].live() for name in ("a", "b")] == [0, 0]
    assert cluster.nodes["a"].set_aside() == numbered(1, 10)


def test_what_was_acknowledged_of_messages_that_the_leader_never_had_is_not_counted(tmp_path: Path) -> None:
    cluster = partial_pair(tmp_path)
    cluster.publish(2)
    cluster.consume(6)
    cluster.stop("a")
    cluster.wait(60)
    assert cluster.leader.name == "b"
    assert (cluster.leader.queue.kept, cluster.leader.live()) == (2, 2)
    cluster.kill("b")
    cluster.start("b")
    cluster.start("a")
    cluster.wait(30)
    assert [cluster.nodes[name].live() for name in ("a", "b")] == [2, 2]
    assert cluster.nodes["a"].set_aside() == numbered(7, 10)
    cluster.stop("b")
    cluster.wait(10)
    assert cluster.leader.bodies() == numbered(11, 12)


def test_of_three_whoever_leads_next_hands_out_the_same(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "a", "b", "c", desired=Desired(("a", "c")))
    cluster.begin()
    cluster.publish(10)
    cluster.want(Desired(("a", "b", "c"), automatic=False, promote_after_stop=True, revision=1))
    assert (cluster.view.ring, cluster.view.learners) == (("a", "c"), ("b",))
    cluster.publish(2)
    cluster.stop("c")
    cluster.stop("a")
    cluster.wait(60)
    assert cluster.leader.name == "b"
    cluster.start("a")
    cluster.start("c")
    cluster.wait(30)
    assert sorted(cluster.view.ring) == ["a", "b", "c"]
    for name in ("a", "c", "b"):
        cluster.move(name)
        assert cluster.leader.name == name
        assert cluster.leader.queue.backlog.count == 2
    for name in ("a", "c"):
        assert cluster.nodes[name].set_aside() == numbered(1, 10)


def test_a_copy_that_is_too_old_to_go_on_is_looked_through_before_it_goes(tmp_path: Path) -> None:
    """The leader's log begins behind its end, so that it never sees the entry that names what the leader did not have."""
    cluster = Cluster(tmp_path, "a", "b", "c", desired=Desired(("a", "c")))
    cluster.begin()
    cluster.publish(10)
    cluster.stop("c")
    cluster.publish(5)
    cluster.want(Desired(("a", "b", "c"), automatic=False, promote_after_stop=True, revision=1))
    cluster.stop("a")
    cluster.wait(60)
    assert cluster.leader.name == "b"
    cluster.publish(3)
    cluster.start("c")
    cluster.want(Desired(("a", "b", "c"), revision=2))
    cluster.wait(30)
    assert cluster.view.ring == ("b", "c")
    assert cluster.nodes["c"].live() == 3
    assert cluster.nodes["c"].set_aside() == numbered(1, 10)


def with_a_copy_that_is_ahead(folder: Path) -> Cluster:
    """a and b hold 15 messages, of which b knows the state only as it was behind the last one; c is down and has five."""
    cluster = Cluster(folder, "a", "b", "c", desired=Desired(("a", "b", "c"), automatic=True, promote_after_stop=True))
    cluster.begin()
    cluster.wait(10)
    cluster.publish(5)
    cluster.stop("c")
    cluster.publish(10)
    cluster.consume(7)
    cluster.wait(10)
    node = cluster.nodes["b"]
    node.store.put_snapshot(node.holding.snapshot())
    node.work()
    return cluster


def test_who_comes_back_with_more_than_the_leader_has_puts_it_into_quarantine(tmp_path: Path) -> None:
    """Its log does not reach down to the leader's end."""
    cluster = with_a_copy_that_is_ahead(tmp_path)
    cluster.stop("b")
    cluster.stop("a")
    cluster.start("c")
    cluster.wait(60)
    assert cluster.leader.name == "c"
    assert cluster.leader.queue.backlog.count == 5
    cluster.start("b")
    cluster.wait(60)
    assert cluster.view.ring == ("c", "b")
    assert cluster.nodes["b"].live() == 5
    assert cluster.nodes["b"].set_aside() == numbered(8, 15)
    assert sum(cluster.nodes["b"].orphans.values()) == 8


def test_who_knows_no_state_at_the_leaders_end_takes_its_copy_anew(tmp_path: Path) -> None:
    """That is what the promotion cost, and no fault of the program: nodes assert here that none is reported."""
    cluster = with_a_copy_that_is_ahead(tmp_path)
    cluster.cut("a", "b")
    cluster.wait(10)
    assert cluster.view.ring == ("a",)
    cluster.stop("a")
    cluster.start("c")
    cluster.wait(60)
    assert cluster.leader.name == "c"
    assert set(cluster.view.ring) == {"c", "b"}
    assert cluster.nodes["b"].live() == 5
    assert cluster.nodes["b"].set_aside() == numbered(8, 15)
    assert sum(cluster.nodes["b"].orphans.values()) == 8


def test_the_record_counts_what_is_cut_off_behind_the_leaders_end(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "a", "b", desired=Desired(("a", "b"), automatic=True, promote_after_stop=True))
    cluster.begin()
    cluster.wait(10)
    cluster.publish(5)
    cluster.stop("b")
    cluster.publish(10)
    cluster.consume(7)
    cluster.stop("a")
    cluster.start("b")
    cluster.wait(60)
    assert cluster.leader.queue.backlog.count == 5
    cluster.start("a")
    cluster.wait(10)
    assert cluster.nodes["a"].live() == 5
    assert cluster.nodes["a"].orphans == {6: 8}
