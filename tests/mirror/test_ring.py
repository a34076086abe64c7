"""The ring in steady state, and what happens when a member is gone."""

from __future__ import annotations

import pytest

from mirror.support import Cluster, three
from mirrormq.mirror.deadlines import ALONE, COMPARE_AFTER, NEVER, REJOIN_AFTER, RESTART_GRACE, STAGGER
from mirrormq.mirror.machine import effects as e
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.messages import Entries, Mark
from mirrormq.mirror.machine.records import Batch, Desired, View
from mirrormq.mirror.machine.state import LEADER


def test_an_entry_is_stable_when_it_is_on_every_members_disk() -> None:
    cluster = three()
    for name in ("a", "b", "c"):
        cluster.held_disks.add(name)
    cluster.append()
    for name in ("b", "a"):
        cluster.release_disk(name)
        assert cluster.stable == 0
    cluster.release_disk("c")
    assert cluster.stable == 1


def test_a_transient_message_waits_for_no_disk_but_for_every_member() -> None:
    cluster = three()
    cluster.held_disks |= {"a", "b", "c"}
    cluster.append(waits=True)
    answer = cluster.answers("a")[-1]
    assert (answer.durable, answer.received) == (0, 1)


def test_members_learn_what_is_stable() -> None:
    cluster = three()
    cluster.append()
    cluster.wait(1.0)
    assert [cluster.states[name].stable for name in "abc"] == [1, 1, 1]


def test_an_idle_machine_wants_no_tick() -> None:
    cluster = three()
    cluster.append()
    cluster.wait(COMPARE_AFTER + 10.0)
    assert {state.wake_at for state in cluster.states.values()} == {NEVER}


def test_the_leader_goes_on_without_a_mirror_that_is_gone_once_the_store_has_agreed() -> None:
    cluster = three()
    cluster.store_down = True
    cluster.crash("b")
    cluster.append()
    assert cluster.stable == 0
    cluster.store_down = False
    cluster.wait(1.0)
    assert cluster.view.ring == ("a", "c")
    assert cluster.view.reason == "a goes on without b in epoch 2 because b does not answer"
    assert cluster.stable == 1


def test_the_next_member_leads_when_the_leader_is_gone() -> None:
    cluster = three()
    cluster.append()
    cluster.crash("a")
    assert cluster.view.ring == ("b", "c")
    assert cluster.view.reason == "b leads in epoch 2 because a does not answer"
    cluster.append()
    assert cluster.stable == 2


def test_the_one_after_it_leads_when_both_are_gone() -> None:
    cluster = three()
    cluster.append()
    cluster.store_down = True
    cluster.crash("a")
    cluster.crash("b")
    cluster.store_down = False
    cluster.wait(STAGGER * 4)
    assert cluster.view.ring == ("c",)
    assert cluster.view.reason == "c leads in epoch 2 because a does not answer and b does not answer"


def test_the_new_leader_sends_its_unstable_tail_again() -> None:
    cluster = three()
    cluster.store_down = True
    cluster.cut("b", "c")
    cluster.append()
    assert len(cluster.logs["c"]) == 0
    cluster.crash("a")
    cluster.link("b", "c")
    cluster.store_down = False
    cluster.wait(2.0)
    assert cluster.leader == "b"
    assert cluster.logs["c"] == cluster.logs["b"] != []
    assert cluster.stable == 1


def test_a_deposed_leader_confirms_nothing() -> None:
    """It is cut off and goes on appending; whatever it is told belongs to a ring that is no more."""
    cluster = three()
    cluster.append()
    before = len(cluster.answers("a"))
    old = cluster.states["a"]
    cluster.names = ("b", "c")
    for name in "bc":
        cluster.give(name, i.LinkDown("a"))
    assert cluster.leader == "b"
    batch = Batch(1, old.end + 1, 1, b"late")
    cluster.give("a", i.Appended(batch))
    cluster.give("a", i.Durable(batch.last, 0))
    cluster.give("a", i.Received("c", Mark(2, 9, 9, True, 0)))
    assert old.role == LEADER
    assert len(cluster.answers("a")) == before


def test_a_member_takes_nothing_of_another_epoch_nor_from_another_than_its_predecessor() -> None:
    cluster = three()
    state = cluster.states["b"]
    batch = Batch(1, 1, 1, b"x")
    for sender, epoch in (("a", 7), ("c", 1)):
        cluster.give("b", i.Received(sender, Entries(epoch, state.nonce, batch, 0, 0)))
    assert cluster.logs["b"] == []
    cluster.give("b", i.Received("a", Entries(1, state.nonce, batch, 0, 0)))
    assert cluster.logs["b"] == [batch]


def test_a_returning_leader_puts_into_quarantine_what_the_new_epoch_never_had() -> None:
    cluster = three()
    cluster.append()
    cluster.store_down = True
    cluster.cut("a", "b")
    lost = cluster.append()
    cluster.crash("a")
    cluster.store_down = False
    cluster.wait(1.0)
    kept = cluster.append()
    cluster.start("a")
    cluster.wait(1.0)
    assert cluster.quarantine["a"] == [lost]
    assert cluster.logs["a"][-1] is kept
    assert cluster.view.ring == ("b", "c", "a")


def test_a_leader_that_has_restarted_takes_a_new_epoch_before_it_appends() -> None:
    cluster = Cluster(View(1, ("a",)))
    cluster.append()
    cluster.crash("a")
    cluster.start("a")
    assert cluster.states["a"].role != LEADER
    cluster.wait(RESTART_GRACE)
    assert (cluster.leader, cluster.view.epoch) == ("a", 2)
    assert cluster.view.reason == "a leads on in epoch 2 because it has restarted"


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_all_are_killed_and_restarted_in_any_order(order: str) -> None:
    cluster = three()
    for _ in range(3):
        cluster.append()
    for name in "abc":
        cluster.down.add(name)
    for name in order:
        cluster.start(name)
        cluster.wait(0.2)
    cluster.wait(10.0)
    assert set(cluster.view.ring) == {"a", "b", "c"}
    assert [batch.first for batch in cluster.logs[cluster.leader]] == [1, 2, 3]
    cluster.append()
    assert cluster.stable == 4


def test_the_ring_goes_on_while_the_store_is_away() -> None:
    cluster = three()
    for name in "abc":
        cluster.give(name, i.StoreReachable(reachable=False))
    cluster.append()
    assert cluster.stable == 1
    assert cluster.states["a"].accepts


def test_a_leader_with_neither_ring_nor_store_refuses_and_says_so() -> None:
    cluster = three()
    cluster.store_down = True
    for name in "abc":
        cluster.give(name, i.StoreReachable(reachable=False))
    cluster.cut("a", "b")
    state = cluster.states["a"]
    assert not state.accepts
    assert state.sentence == "a leads in epoch 1 but cannot confirm: neither b nor the store answers"


def test_a_frozen_disk_is_put_out_in_bounded_time() -> None:
    cluster = three()
    cluster.held_disks.add("b")
    cluster.append()
    assert cluster.stable == 0
    cluster.wait(2.0)
    assert cluster.view.ring == ("a", "c")
    assert "b makes no progress" in cluster.view.reason
    assert cluster.stable == 1


def test_transient_messages_do_not_hide_a_disk_that_stands_still() -> None:
    cluster = three()
    cluster.held_disks.add("b")
    cluster.append()
    for _ in range(20):
        cluster.append(waits=True)
        cluster.wait(0.1)
    assert (cluster.view.ring, cluster.stable) == (("a", "c"), 21)


def test_two_disks_that_stutter_do_not_leave_the_leader_alone() -> None:
    cluster = three()
    cluster.held_disks |= {"b", "c"}
    cluster.append()
    cluster.wait(6.0)
    assert (cluster.view.ring, cluster.stable) == (("a", "c"), 0)
    cluster.release_disk("c")
    assert (cluster.view.ring, cluster.stable) == (("a", "c"), 1)


def test_a_member_that_was_slow_while_the_store_is_away_costs_no_turns_later() -> None:
    """It could not be put out, and is well again."""
    cluster = three()
    cluster.held_disks.add("b")
    cluster.store_down = True
    cluster.append()
    cluster.wait(3.0)
    cluster.release_disk("b")
    assert cluster.stable == 1
    cluster.wait(REJOIN_AFTER)
    cluster.store_down = False
    cluster.wait(REJOIN_AFTER)
    assert cluster.view.ring == ("a", "b", "c")


def test_a_disk_that_stands_still_for_good_is_put_out_although_the_leader_is_alone_then() -> None:
    cluster = three()
    cluster.held_disks |= {"b", "c"}
    cluster.append()
    cluster.wait(12.0)
    assert (cluster.view.ring, cluster.stable) == (("a",), 1)


def test_the_last_mirror_is_put_out_at_once_if_it_does_not_answer() -> None:
    cluster = three()
    cluster.held_disks.add("b")
    cluster.append()
    cluster.wait(2.0)
    assert cluster.view.ring == ("a", "c")
    cluster.down.add("c")
    cluster.append()
    cluster.wait(4.0)
    assert (cluster.view.ring, cluster.stable) == (("a",), 2)


def test_a_leader_whose_own_disk_stands_still_gives_the_lead_away() -> None:
    cluster = three()
    cluster.held_disks.add("a")
    cluster.append()
    cluster.wait(2.0)
    assert cluster.view.ring == ("b", "c")
    assert cluster.did("a", e.SteppedDown)


def test_of_two_neighbours_that_miss_each_other_the_one_goes_that_more_miss() -> None:
    view = View(1, ("a", "b", "c", "d"))
    cluster = Cluster(view, desired=Desired(view.ring))
    cluster.store_down = True
    cluster.cut("b", "d")
    cluster.cut("b", "c")
    cluster.store_down = False
    cluster.wait(1.0)
    assert cluster.view.ring == ("a", "c", "d")


def test_a_leader_that_is_cut_off_from_all_leaves_the_decision_to_those_who_see_each_other() -> None:
    cluster = three()
    cluster.store_down = True
    cluster.cut("a", "c")
    cluster.cut("a", "b")
    cluster.store_down = False
    cluster.wait(ALONE + STAGGER)
    assert cluster.leader == "b"
    assert set(cluster.view.ring) == {"b", "c"}
    assert cluster.did("a", e.SteppedDown)


def test_a_leader_that_stays_alone_goes_on() -> None:
    cluster = three()
    cluster.crash("b")
    cluster.crash("c")
    cluster.append()
    cluster.wait(ALONE)
    assert cluster.view.ring == ("a",)
    assert cluster.stable == 1
