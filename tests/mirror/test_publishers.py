"""What a forwarding node sends again after a failover is taken once, and in order."""

from __future__ import annotations

from mirrormq.mirror.publishers import GAP, NEW, Publishers


def test_a_publish_is_taken_once_and_answered_with_what_it_became() -> None:
    publishers = Publishers()
    assert publishers.judge(b"p", 1, 1) == NEW
    publishers.note(b"p", 1, 10)
    assert publishers.judge(b"p", 1, 1) == 10


def test_one_that_came_too_early_waits_for_those_before_it() -> None:
    publishers = Publishers()
    publishers.note(b"p", 1, 10)
    assert publishers.judge(b"p", 3, 2) == GAP
    assert publishers.judge(b"p", 2, 2) == NEW


def test_what_was_answered_elsewhere_is_not_waited_for() -> None:
    publishers = Publishers()
    assert publishers.judge(b"p", 7, 7) == NEW
    assert publishers.judge(b"p", 8, 7) == GAP


def test_the_state_is_carried_by_a_full_sync() -> None:
    one, other = Publishers(), Publishers()
    one.note(b"p", 4, 12)
    other.load(one.dump())
    assert other.judge(b"p", 4, 4) == 12
