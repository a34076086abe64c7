"""A paced producer keeps its average, catches up a little and never floods."""

from __future__ import annotations

import pytest

from mirrormq.cli.perf.hot.pacing import SECOND, Pacer


@pytest.mark.parametrize("rate", [0.5, 1.0, 333.0, 1000.0, 250_000.0])
def test_the_rate_holds_over_ten_seconds(rate: float) -> None:
    pacer = Pacer(rate, 0)
    sent = 0
    for now in range(0, 10 * SECOND + 1, SECOND // 500):
        due = pacer.due(now)
        pacer.took(due)
        sent += due
    assert sent == pytest.approx(rate * 10, abs=1)


def test_nothing_is_due_at_the_start() -> None:
    assert Pacer(1000.0, 5 * SECOND).due(5 * SECOND) == 0


def test_the_wait_ends_when_the_next_message_is_due() -> None:
    pacer = Pacer(100.0, 0)
    pacer.took(3)
    wait = pacer.wait(0)
    assert wait == pytest.approx(0.04)
    assert pacer.due(int(wait * SECOND)) == 1


def test_a_short_stall_is_caught_up() -> None:
    pacer = Pacer(1000.0, 0)
    assert pacer.due(SECOND // 2) == 500


def test_after_a_long_stall_one_second_is_caught_up_and_the_rest_given_up() -> None:
    pacer = Pacer(1000.0, 0)
    due = pacer.due(60 * SECOND)
    pacer.took(due)
    assert due == 1000
    assert pacer.due(60 * SECOND) == 0
    assert pacer.due(61 * SECOND) == 1000


def test_a_slow_producer_may_send_one_message_after_a_stall() -> None:
    pacer = Pacer(0.1, 0)
    assert pacer.due(3600 * SECOND) == 1
