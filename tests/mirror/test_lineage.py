"""Where two logs part, worked out from who wrote what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.mirror.machine.lineage import Lineage


def lineage_of(epochs: list[int]) -> Lineage:
    lineage = Lineage()
    for epoch in epochs:
        lineage.extend(epoch, 1)
    return lineage


@given(
    st.lists(st.integers(1, 4), max_size=12).map(sorted),
    st.lists(st.booleans(), max_size=8),
    st.lists(st.booleans(), max_size=8),
)
def test_two_logs_agree_up_to_where_they_parted(shared: list[int], one: list[bool], other: list[bool]) -> None:
    """Behind what they share, the two were written in different epochs."""
    mine = shared + sorted(11 if late else 5 for late in one)
    theirs = shared + sorted(12 if late else 6 for late in other)
    assert lineage_of(mine).common(lineage_of(theirs)) == len(shared)
    assert lineage_of(theirs).common(lineage_of(mine)) == len(shared)


def trimmed(epochs: list[int], base: int) -> Lineage:
    """What is left of it where everything below `base` is not held any more."""
    base = min(base, len(epochs))
    lineage = Lineage(base, epochs[base - 1]) if base else Lineage()
    for epoch in epochs[base:]:
        lineage.extend(epoch, 1)
    return lineage


@given(
    st.lists(st.integers(1, 4), max_size=8).map(sorted),
    st.lists(st.sampled_from([5, 7, 11]), max_size=6).map(sorted), st.lists(st.sampled_from([6, 8, 12]), max_size=6).map(sorted),
    st.integers(0, 14), st.integers(0, 14),
)
def test_what_surely_differs_is_not_shared(shared: list[int], one: list[int], other: list[int], base: int, low: int) -> None:
    mine, theirs = trimmed(shared + one, base), trimmed(shared + other, low)
    if mine.common(theirs) >= 0:
        return
    bound = mine.divergence_bound(theirs)
    assert min(len(shared), theirs.end) <= bound <= theirs.end
    assert mine.end > bound or bound < theirs.base, "a follower would take it for where to go on"


@given(st.lists(st.integers(1, 6), max_size=20).map(sorted), st.integers(0, 20))
def test_a_prefix_is_common_whole(epochs: list[int], keep: int) -> None:
    whole, cut = lineage_of(epochs), lineage_of(epochs)
    cut.cut(min(keep, len(epochs)))
    assert whole.common(cut) == cut.common(whole) == cut.end


def test_logs_that_never_meet_have_nothing_in_common() -> None:
    late = Lineage(10, 3)
    late.extend(3, 2)
    early = lineage_of([1, 1, 1])
    assert late.common(early) == early.common(late) == -1


def test_a_log_that_starts_late_meets_one_that_goes_further() -> None:
    late = Lineage(2, 1)
    assert late.common(lineage_of([1, 1, 1])) == 2
    assert late.common(lineage_of([1, 2, 2])) == -1


@given(st.lists(st.integers(1, 30), max_size=40).map(sorted), st.integers(1, 5))
def test_a_shortened_lineage_says_the_same_or_nothing(epochs: list[int], runs: int) -> None:
    whole = lineage_of(epochs)
    assert whole.copy(runs).common(whole) in (whole.end, -1)
