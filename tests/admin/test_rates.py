"""Rates are worked out from looks."""

from __future__ import annotations

from mirrormq.admin.rates import FORGET_AFTER, Rates, Span

KEY = ("queue", "/", "q")


def test_a_first_look_knows_no_rate():
    assert Rates(5000).look(KEY, {"publish": 100}, 0).rates == {}


def test_the_rate_is_the_change_between_two_looks():
    rates = Rates(5000)
    rates.look(KEY, {"publish": 100}, 0)
    assert rates.look(KEY, {"publish": 150}, 10_000).rates == {"publish": 5.0}


def test_looks_within_the_interval_share_a_rate():
    rates = Rates(5000)
    rates.look(KEY, {"publish": 0}, 0)
    rates.look(KEY, {"publish": 50}, 5000)
    assert rates.look(KEY, {"publish": 500}, 6000).rates == {"publish": 10.0}
    assert rates.look(KEY, {"publish": 550}, 10_000).rates == {"publish": 100.0}


def test_a_first_rate_may_come_before_the_interval_is_over():
    rates = Rates(5000)
    rates.look(KEY, {"publish": 0}, 0)
    assert rates.look(KEY, {"publish": 30}, 2000).rates == {"publish": 15.0}


def test_a_counter_that_went_back_has_no_rate_but_a_gauge_may_fall():
    rates = Rates(5000)
    rates.look(KEY, {"publish": 100, "messages": 100}, 0)
    assert rates.look(KEY, {"publish": 1, "messages": 50}, 10_000).rates == {"publish": 0.0, "messages": -5.0}


def test_what_nobody_looks_at_is_forgotten():
    rates = Rates(5000)
    rates.look(KEY, {"publish": 100}, 0)
    rates.look(("other",), {"publish": 1}, FORGET_AFTER + 1)
    assert rates.look(KEY, {"publish": 200}, FORGET_AFTER + 2).rates == {}


def test_a_quiet_object_is_one_that_did_not_change():
    rates = Rates(5000)
    assert rates.is_quiet(KEY, {"publish": 0})
    assert not rates.is_quiet(KEY, {"publish": 1})
    rates.look(KEY, {"publish": 1}, 0)
    assert rates.is_quiet(KEY, {"publish": 1})
    assert not rates.is_quiet(KEY, {"publish": 2})


def test_samples_come_newest_first_at_whole_steps():
    rates = Rates(5000)
    for moment in range(0, 20_000, 5000):
        figures = rates.look(KEY, {"messages": moment // 1000}, moment + 100, keep=True)
    detail = figures.detail("messages", Span(10_000, 5000))
    assert detail["samples"][0] == {"sample": 10, "timestamp": 15_000}
    assert [sample["timestamp"] for sample in detail["samples"]] == [15_000, 10_000, 5000]
    assert detail["avg"] == 5.0


def test_without_a_span_only_the_rate_is_told():
    assert Rates(5000).look(KEY, {"messages": 1}, 0).fields(("messages",)) == {
        "messages": 1, "messages_details": {"rate": 0.0}}
