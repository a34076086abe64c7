"""RangeSet against Python's own sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.log.ranges import RangeSet

RANGES = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
CHANGES = st.lists(st.tuples(st.booleans(), RANGES), max_size=30)


def build(changes: list[tuple[bool, tuple[int, int]]]) -> tuple[RangeSet, set[int]]:
    ranges, plain = RangeSet(), set[int]()
    for adding, (low, high) in changes:
        if adding:
            ranges.add(low, high)
            plain |= set(range(low, high + 1))
        else:
            ranges.discard(low, high)
            plain -= set(range(low, high + 1))
    return ranges, plain


@given(CHANGES)
def test_it_holds_what_a_set_would_hold(changes: list[tuple[bool, tuple[int, int]]]) -> None:
    ranges, plain = build(changes)
    assert list(ranges) == sorted(plain)
    assert len(ranges) == ranges.count() == len(plain)
    assert all((number in ranges) == (number in plain) for number in range(-1, 75))
    assert bool(ranges) == bool(plain)


@given(CHANGES)
def test_its_ranges_are_sorted_and_never_touch(changes: list[tuple[bool, tuple[int, int]]]) -> None:
    flat = build(changes)[0].flat()
    assert all(flat[at] <= flat[at + 1] for at in range(0, len(flat), 2))
    assert all(flat[at] + 1 < flat[at + 1] for at in range(1, len(flat) - 1, 2))


@given(CHANGES, RANGES)
def test_overlaps_and_covers(changes: list[tuple[bool, tuple[int, int]]], asked: tuple[int, int]) -> None:
    ranges, plain = build(changes)
    wanted = set(range(asked[0], asked[1] + 1))
    assert ranges.overlaps(*asked) == bool(wanted & plain)
    assert ranges.covers(*asked) == (wanted <= plain)


@given(CHANGES, st.integers(0, 70))
def test_take_from_moves_over_what_is_in_and_forgets_what_is_below(
    changes: list[tuple[bool, tuple[int, int]]], start: int
) -> None:
    ranges, plain = build(changes)
    found = ranges.take_from(start)
    assert found not in plain
    assert all(number in plain for number in range(start, found))
    assert list(ranges) == sorted(number for number in plain if number > found)


@given(CHANGES, CHANGES)
def test_around_cuts_each_range_to_its_core(
    changes: list[tuple[bool, tuple[int, int]]], core_changes: list[tuple[bool, tuple[int, int]]]
) -> None:
    ranges, _ = build(changes)
    core, plain = build(core_changes)
    expected = RangeSet()
    for low, high in ranges.ranges():
        inside = [number for number in plain if low <= number <= high]
        if inside:
            expected.add(min(inside), max(inside))
    assert ranges.around(core) == expected
