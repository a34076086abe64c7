"""Sums of several nodes' figures."""

from __future__ import annotations

from typing import Any

from mirrormq.admin.figures import add_fields


def samples(*values: int, newest: int = 100_000) -> list[dict[str, int]]:
    return [{"sample": value, "timestamp": newest - at * 5_000} for at, value in enumerate(values)]


def sampled(rate: float, *values: int, newest: int = 100_000) -> dict[str, Any]:
    return {"rate": rate, "samples": samples(*values, newest=newest), "avg": 0.0, "avg_rate": 0.0}


def test_counts_and_rates_are_added():
    parts = [{"ack": 3, "ack_details": {"rate": 0.1}}, {"ack": 4, "ack_details": {"rate": 0.2}}, {}]
    assert add_fields(parts) == {"ack": 7, "ack_details": {"rate": 0.3}}


def test_samples_are_added_by_their_moment():
    whole = add_fields([{"ack_details": sampled(1.0, 30, 20, 10)}, {"ack_details": sampled(1.0, 3, 2)}])
    assert whole["ack_details"] == {"rate": 2.0, "samples": samples(33, 22, 10), "avg": 65 / 3, "avg_rate": 2.3}


def test_a_moment_that_not_all_have_reached_is_left_out():
    whole = add_fields([{"ack_details": sampled(0.0, 9, 8, newest=105_000)}, {"ack_details": sampled(0.0, 5, 4)}])
    assert whole["ack_details"]["samples"] == samples(13, 4)


def test_a_node_without_samples_yet_takes_nothing_away():
    whole = add_fields([{"ack_details": sampled(0.0, 9, 8)}, {"ack_details": sampled(0.0)}])
    assert whole["ack_details"]["samples"] == samples(9, 8)


def test_nothing_from_nobody_is_nothing():
    assert add_fields([]) == {}
