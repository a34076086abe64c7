"""Learners, policies, hand-overs: how the ring changes on purpose, and who may lead when nobody should."""

from __future__ import annotations

import pytest

from mirror.support import Cluster, three
from mirrormq.mirror.deadlines import ALONE, FORCE_AFTER, HANDOVER_LIMIT
from mirrormq.mirror.machine import effects as e
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.messages import SyncAsked
from mirrormq.mirror.machine.records import Desired, View
from mirrormq.mirror.machine.state import LEADER


def pair(**wishes: object) -> Cluster:
    """a leads alone with three entries; b is to become its mirror."""
    cluster = Cluster(View(1, ("a",)), "a", "b", desired=Desired(("a",)))
    for _ in range(3):
        cluster.append()
    cluster.want(Desired(("a", "b"), **wishes))  # type: ignore[arg-type]  # each test names its own
    return cluster


def test_a_new_mirror_gets_the_log_and_joins_when_it_holds_everything_stable() -> None:
    cluster = pair()
    cluster.wait(1.0)
    assert cluster.view.ring == ("a", "b")
    assert cluster.view.reason == "b is in sync in epoch 3"
    assert cluster.logs["b"] == cluster.logs["a"]


def test_a_learner_that_joins_counts_before_the_swap_and_until_the_epoch_is_over() -> None:
    cluster = Cluster(View(1, ("a", "b")))
    cluster.crash("b")
    cluster.wait(ALONE)
    cluster.append()
    cluster.store_down = True
    cluster.start("b")
    cluster.wait(1.0)
    assert cluster.states["a"].joining == "b"
    cluster.held_disks.add("b")
    cluster.append()
    cluster.wait(10.0)
    assert cluster.stable == 1
    cluster.release_disk("b")
    assert cluster.stable == 2
    cluster.store_down = False
    cluster.wait(1.0)
    assert cluster.view.ring == ("a", "b")


def test_a_slow_learner_does_not_slow_a_confirm() -> None:
    cluster = Cluster(View(1, ("a",), ("b",)), desired=Desired(("a",)))
    cluster.held_disks.add("b")
    cluster.append()
    assert cluster.stable == 1


def test_a_mirror_that_was_away_gets_only_what_it_missed() -> None:
    cluster = three()
    cluster.append()
    cluster.crash("c")
    missed = [cluster.append(), cluster.append()]
    before = len(cluster.happened)
    cluster.start("c")
    cluster.wait(1.0)
    appended = [effect.batch for who, effect in cluster.happened[before:] if who == "c" and isinstance(effect, e.Append)]
    assert appended == missed
    assert cluster.view.ring == ("a", "b", "c")


def test_under_manual_sync_a_new_mirror_follows_only_what_is_new() -> None:
    cluster = pair(automatic=False)
    cluster.append()
    cluster.wait(5.0)
    assert cluster.view.learners == ("b",)
    assert [batch.first for batch in cluster.logs["b"]] == [4]


def test_an_operator_starts_the_full_sync_and_the_queue_goes_on() -> None:
    cluster = pair(automatic=False)
    cluster.append()
    cluster.give("a", i.Sync(on=True))
    cluster.append()
    cluster.wait(1.0)
    assert cluster.view.ring == ("a", "b")
    assert [piece.done for _, piece in cluster.pieces] == [False, False, True]
    assert cluster.stable == 5


def test_a_full_sync_keeps_to_its_rate() -> None:
    """Every piece has one byte here."""
    cluster = pair(automatic=False, rate=2)
    cluster.give("a", i.Sync(on=True))
    counts = [len(cluster.pieces)]
    for _ in range(4):
        cluster.wait(0.25)
        counts.append(len(cluster.pieces))
    assert counts == [1, 1, 2, 2, 3]


def test_a_full_sync_goes_on_though_entries_overtake_its_clock() -> None:
    """Inputs come all the time, so that no tick comes in time."""
    cluster = pair(automatic=False, rate=2)
    cluster.give("a", i.Sync(on=True))
    for _ in range(20):
        cluster.now += 0.3
        cluster.append()
    assert cluster.view.ring == ("a", "b")


def test_a_cancelled_sync_keeps_what_was_there_and_goes_on_from_there() -> None:
    cluster = pair(automatic=False, rate=1)
    cluster.give("a", i.Sync(on=True))
    assert len(cluster.pieces) == 1
    cluster.give("a", i.Sync(on=False))
    cluster.wait(10.0)
    assert len(cluster.pieces) == 1
    cluster.give("a", i.Sync(on=True))
    cluster.wait(10.0)
    assert [piece.next for _, piece in cluster.pieces] == [2, 3, 4]
    assert cluster.view.ring == ("a", "b")


def test_a_mirror_comes_into_sync_when_what_it_lacks_is_consumed() -> None:
    cluster = pair(automatic=False)
    cluster.append()
    assert cluster.states["a"].wants_head
    cluster.give("a", i.Head(4))
    cluster.wait(1.0)
    assert cluster.view.ring == ("a", "b")


def test_entries_that_are_gone_make_a_full_sync() -> None:
    cluster = Cluster(View(1, ("a",)), "a", "b", desired=Desired(("a",)))
    for _ in range(3):
        cluster.append()
    cluster.give("a", i.Trimmed(3))
    cluster.want(Desired(("a", "b")))
    cluster.wait(1.0)
    assert cluster.did("b", e.BeginAt)
    assert cluster.view.ring == ("a", "b")


def test_a_piece_leaves_only_when_what_it_shows_is_stable() -> None:
    cluster = pair(automatic=False)
    cluster.held_disks.add("a")
    cluster.append()
    cluster.give("a", i.Sync(on=True))
    assert cluster.pieces == []
    cluster.release_disk("a")
    assert cluster.pieces != []


def test_a_mirror_that_the_policy_no_longer_wants_goes() -> None:
    cluster = three()
    cluster.want(Desired(("a", "b")))
    assert (cluster.view.ring, cluster.view.learners) == (("a", "b"), ())
    assert cluster.did("c", e.Released)


def test_a_policy_that_moves_a_queue_adds_first_and_drops_the_old_copies_last() -> None:
    cluster = Cluster(View(1, ("a", "b")), "a", "b", "c", "d", desired=Desired(("a", "b")))
    cluster.append()
    for name in "abcd":
        cluster.give(name, i.SetDesired(Desired(("c", "d"), revision=2)))
    cluster.wait(20.0)
    rings = [effect.view.ring for _, effect in cluster.happened if isinstance(effect, e.ProposeView)]
    assert set(cluster.view.ring) == {"c", "d"}
    assert min(len(ring) for ring in rings) == 2
    assert len(cluster.logs[cluster.leader]) == 1


def test_a_leader_that_knows_only_an_older_policy_does_not_act_on_it() -> None:
    cluster = Cluster(View(5, ("a",), wish=7), "a", "b", desired=Desired(("a", "b"), revision=6))
    cluster.wait(1.0)
    assert cluster.view.epoch == 5
    cluster.want(Desired(("a", "b"), revision=8))
    assert cluster.view.ring == ("a", "b")


def test_the_preferred_leader_leads_when_it_is_in_sync() -> None:
    cluster = three(leader="c")
    cluster.wait(1.0)
    assert cluster.view.ring == ("c", "b", "a")
    assert cluster.view.reason == "c leads in epoch 2 because a handed over"


def test_a_lead_that_is_given_away_goes_to_the_first_in_the_order_that_is_in_sync() -> None:
    cluster = three(order=("d", "c", "b"))
    cluster.wait(1.0)
    assert cluster.leader == "a", "the order alone takes the lead from nobody"
    cluster.give("a", i.HandOver("", leave=True))
    assert cluster.view.ring == ("c", "b")


def moving(*, automatic: bool, joined: str) -> Cluster:
    """From a to b or c, of which one is in sync and the other, which has no link to it, lacks everything."""
    late = "b" if joined == "c" else "c"
    cluster = Cluster(View(1, ("a", joined)), "a", "b", "c", desired=Desired(("a", joined)))
    cluster.append()
    cluster.append()
    cluster.give(joined, i.Trimmed(2))
    cluster.give("a", i.Trimmed(2))
    cluster.cut(joined, late)
    wish = Desired((joined, late), joined, automatic=automatic, order=("b", "c"), revision=1)
    cluster.want(wish)
    return cluster


def test_a_queue_that_moves_waits_for_the_first_in_the_order_while_that_is_synchronised() -> None:
    cluster = moving(automatic=True, joined="c")
    assert cluster.leader == "a"
    assert not cluster.states["a"].handing
    cluster.link("b", "c")
    cluster.wait(1.0)
    assert (cluster.leader, set(cluster.view.ring)) == ("b", {"b", "c"})


def test_it_does_not_wait_for_one_that_nobody_synchronises() -> None:
    cluster = moving(automatic=False, joined="c")
    cluster.link("b", "c")
    cluster.wait(1.0)
    assert cluster.leader == "c"


def test_it_does_not_wait_for_those_that_come_later_in_the_order() -> None:
    cluster = moving(automatic=True, joined="b")
    cluster.wait(1.0)
    assert cluster.leader == "b"


def test_a_leader_that_stops_hands_over_when_everything_is_stable() -> None:
    cluster = three()
    cluster.held_disks.add("c")
    cluster.append()
    cluster.give("a", i.HandOver("", leave=True))
    assert cluster.leader == "a"
    assert not cluster.states["a"].accepts
    cluster.release_disk("c")
    assert cluster.view.ring == ("b", "c")
    assert cluster.did("a", e.Released)


def test_a_hand_over_that_takes_too_long_is_called_off() -> None:
    cluster = Cluster(View(1, ("a", "b")))
    cluster.held_disks.add("b")
    cluster.append()
    cluster.store_down = True
    cluster.give("a", i.HandOver("b", leave=False))
    cluster.wait(HANDOVER_LIMIT)
    assert [effect.on for effect in cluster.did("a", e.Hold) if isinstance(effect, e.Hold)] == [True, False]
    assert cluster.states["a"].accepts


def test_a_mirror_that_stops_is_out_of_the_ring_before() -> None:
    cluster = three()
    cluster.give("b", i.HandOver("", leave=True))
    assert cluster.view.ring == ("a", "c")
    assert cluster.did("b", e.Released)


def unsynchronised(**wishes: object) -> Cluster:
    """a leads, b is its mirror and not in sync."""
    cluster = pair(automatic=False, **wishes)
    cluster.append()
    return cluster


def test_a_mirror_that_is_not_in_sync_waits_and_says_for_whom() -> None:
    cluster = unsynchronised()
    cluster.crash("a")
    cluster.wait(60.0)
    state = cluster.states["b"]
    assert state.role != LEADER
    assert state.sentence == "waiting for a: only they hold everything that was confirmed, b is not in sync"


def test_it_leads_after_a_crash_where_the_policy_says_always() -> None:
    cluster = unsynchronised(promote_after_crash=True)
    cluster.crash("a")
    cluster.wait(FORCE_AFTER + 1)
    assert cluster.leader == "b"
    assert cluster.view.forced
    assert cluster.view.reason == "b leads although it is not in sync, as the policy says: a did not answer"


@pytest.mark.parametrize("always", [False, True])
def test_it_leads_for_a_leader_that_lost_its_copy_only_where_the_policy_says_always(*, always: bool) -> None:
    cluster = unsynchronised(promote_after_crash=always)
    cluster.crash("a")
    cluster.logs["a"] = []
    cluster.start("a", amnesiac=True)
    cluster.wait(FORCE_AFTER + 1)
    assert (cluster.states["b"].role == LEADER) is always
    if always:
        assert cluster.view.reason == "b leads although it is not in sync, as the policy says: a has lost its copy"


def test_after_a_stop_on_purpose_the_other_half_of_the_policy_counts() -> None:
    for after_stop in (False, True):
        cluster = unsynchronised(promote_after_crash=not after_stop, promote_after_stop=after_stop)
        cluster.give("a", i.HandOver("", leave=True))
        assert cluster.view.stopped
        cluster.crash("a")
        cluster.wait(FORCE_AFTER + 1)
        assert (cluster.states["b"].role == LEADER) is after_stop


def test_a_member_that_lost_its_disk_never_leads_by_itself() -> None:
    cluster = Cluster(View(1, ("a", "b")))
    cluster.append()
    cluster.down |= {"a", "b"}
    cluster.logs["b"] = []
    cluster.start("b", amnesiac=True)
    cluster.wait(60.0)
    assert cluster.states["b"].role != LEADER
    cluster.give("b", i.ForceLead("an operator gave a up"))
    assert cluster.leader == "b"
    assert cluster.view.forced


def test_a_member_that_lost_its_disk_is_waited_for_by_nobody() -> None:
    cluster = three()
    cluster.append()
    cluster.down |= {"a", "b", "c"}
    cluster.logs["a"] = []
    cluster.start("a", amnesiac=True)
    cluster.start("c")
    cluster.wait(60.0)
    assert cluster.leader == "c"
    cluster.start("b")
    cluster.wait(60.0)
    assert set(cluster.view.ring) == {"a", "b", "c"}
    assert [len(cluster.logs[name]) for name in "abc"] == [1, 1, 1]


def test_a_member_that_lost_its_disk_and_is_in_sync_again_is_like_any_other() -> None:
    cluster = Cluster(View(1, ("a", "b")))
    cluster.append()
    cluster.crash("b")
    cluster.logs["b"] = []
    cluster.start("b", amnesiac=True)
    cluster.wait(10.0)
    assert cluster.view.ring == ("a", "b")
    cluster.crash("a")
    cluster.wait(10.0)
    assert cluster.leader == "b"


def test_asynchronous_replication_answers_after_the_leaders_disk() -> None:
    cluster = three(asynchronous=True)
    cluster.held_disks |= {"b", "c"}
    cluster.append()
    assert cluster.stable == 1
    assert cluster.states["a"].stable == 0


def test_too_few_in_sync_members_refuse_publishes() -> None:
    cluster = three(min_in_sync=2)
    cluster.crash("b")
    cluster.crash("c")
    cluster.wait(ALONE)
    state = cluster.states["a"]
    assert not state.accepts
    assert state.sentence == "1 of 2 members are in sync: publishes are refused"
    cluster.append()
    assert not cluster.answers("a")[-1].enough


def test_a_full_sync_is_asked_for_only_by_the_leader() -> None:
    cluster = unsynchronised()
    cluster.give("b", i.Received("nobody", SyncAsked(cluster.view.epoch, True)))
    assert cluster.pieces == []
