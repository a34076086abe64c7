"""Percentiles are within the promised error; histograms add and subtract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.cli.perf.hot.histogram import BUCKETS, Histogram, bucket_of, value_of
from mirrormq.cli.perf.measure import latency_of

LATENCIES = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=200)


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value, 1)
    return histogram


@given(st.integers(0, (1 << 40) - 1))
def test_a_bucket_stands_for_its_values_within_a_sixtieth(value: int) -> None:
    assert abs(value_of(bucket_of(value)) - value) <= value / 60


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_a_larger_value_never_has_a_smaller_bucket(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert bucket_of(low) <= bucket_of(high) < BUCKETS


def test_a_clock_that_went_back_counts_as_no_time() -> None:
    assert bucket_of(-5) == 0


@given(LATENCIES, st.floats(0, 100))
def test_a_percentile_is_the_value_at_its_rank(values: list[int], percent: float) -> None:
    values.sort()
    rank = max(-(-len(values) * percent // 100), 1)
    exact = values[int(rank) - 1]
    found = histogram_of(values).percentile(percent)
    neighbours = values[max(int(rank) - 2, 0) : int(rank) + 1]
    assert min(neighbours) * 59 / 60 - 1 <= found <= max(neighbours) * 61 / 60 + 1, exact


def test_an_empty_histogram_has_no_latency() -> None:
    assert Histogram().percentile(99) == 0
    assert Histogram().mean() == 0.0
    assert latency_of(Histogram()) is None


@given(LATENCIES, LATENCIES)
def test_the_sum_minus_one_part_is_the_other_part(one: list[int], other: list[int]) -> None:
    first, second = histogram_of(one), histogram_of(other)
    rest = first.plus(second).minus(first)
    assert rest.counts == second.counts
    assert rest.total == second.total


def test_a_copy_does_not_grow_with_its_original() -> None:
    histogram = histogram_of([5])
    copy = histogram.copy()
    histogram.add(7, 3)
    assert copy.total == 1
    assert histogram.total == 4


def test_the_summary_of_latencies_names_the_usual_percentiles() -> None:
    summary = latency_of(histogram_of(list(range(1, 101))))
    assert summary is not None
    assert (summary["min"], summary["p50"], summary["p99"], summary["max"]) == (1, 50, 99, 100)
    assert summary["mean"] == pytest.approx(50.5, rel=0.02)
