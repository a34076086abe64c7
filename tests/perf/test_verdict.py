"""The judgement over a verified run."""

from __future__ import annotations

from dataclasses import replace

from mirrormq.cli.perf.address import parse_address
from mirrormq.cli.perf.hot.verify import Seen
from mirrormq.cli.perf.settings import Settings
from mirrormq.cli.perf.verdict import Evidence, gathered, judge

LOCAL = (parse_address("amqp://localhost"),)


def bits(*sequences: int) -> bytes:
    seen = Seen()
    for sequence in sequences:
        seen.mark(sequence)
    return bytes(seen.bits)


def test_everything_seen_once_is_good() -> None:
    settings = Settings(LOCAL, ("q",))
    verdict = judge(settings, Evidence({0: 3}, {0: []}, {("q", 0): bits(1, 2, 3)}))
    assert verdict.good
    assert str(verdict) == "verified 3 messages: none lost, none doubled, all in order"


def test_a_missing_message_is_named() -> None:
    settings = Settings(LOCAL, ("q",))
    verdict = judge(settings, Evidence({0: 9}, {0: []}, {("q", 0): bits(1, 2, 3, 5, 6, 7, 8)}))
    assert (verdict.lost, verdict.good) == (2, False)
    assert "number 4 of producer 0 in q, number 9 of producer 0 in q" in str(verdict)


def test_refused_and_unanswered_publishes_may_be_missing() -> None:
    settings = Settings(LOCAL, ("q",))
    assert judge(settings, Evidence({0: 20}, {0: [4, 20]}, {("q", 0): bits(*set(range(1, 20)) - {4})})).good


def test_every_queue_of_a_fanout_must_have_every_message() -> None:
    settings = Settings(LOCAL, ("a", "b"), exchange="fanout", exchange_type="fanout", consumers=2)
    verdict = judge(settings, Evidence({0: 2}, {}, {("a", 0): bits(1, 2), ("b", 0): bits(1)}))
    assert (verdict.checked, verdict.lost) == (4, 1)


def test_a_queue_without_a_consumer_is_not_judged() -> None:
    settings = Settings(LOCAL, ("a", "b"), exchange="fanout", exchange_type="fanout", consumers=1)
    assert judge(settings, Evidence({0: 2}, {}, {("a", 0): bits(1, 2)})).good


def test_where_only_the_broker_knows_the_route_one_queue_is_enough() -> None:
    settings = Settings(LOCAL, ("a", "b"), exchange="h", exchange_type="x-consistent-hash", consumers=2)
    assert judge(settings, Evidence({0: 3}, {}, {("a", 0): bits(1, 3), ("b", 0): bits(2)})).good


def test_a_message_that_two_processes_saw_was_doubled() -> None:
    one = Evidence({0: 3}, {0: []}, {("q", 0): bits(1, 2)})
    other = Evidence({}, {}, {("q", 0): bits(2, 3)}, disordered=1)
    verdict = judge(Settings(LOCAL, ("q",)), gathered([one, other]))
    assert (verdict.lost, verdict.duplicated, verdict.disordered) == (0, 1, 1)


AUDIT = Settings(LOCAL, ("q",), producers=0, verify=True)


def test_an_audit_of_another_run_finds_holes_and_doubles() -> None:
    verdict = judge(AUDIT, Evidence(seen={("q", 0): bits(1, 2, 4), ("q", 1): bits(1, 2)}, duplicated=1))
    assert (verdict.checked, verdict.lost, verdict.duplicated) == (6, 1, 1)
    assert "number 3 of producer 0 in q" in str(verdict)


def test_an_audit_knows_the_end_of_the_other_run_only_when_told() -> None:
    evidence = Evidence(seen={("q", 0): bits(1, 2, 3)})
    assert judge(AUDIT, evidence).good
    assert judge(replace(AUDIT, producer_messages=5), evidence).lost == 2
    assert judge(replace(AUDIT, consumer_messages=4), evidence).lost == 1


def test_an_audit_expects_a_message_only_in_queues_that_its_producer_reached() -> None:
    settings = replace(AUDIT, queues=("a", "b"), consumers=2)
    assert judge(settings, Evidence(seen={("a", 0): bits(1, 2), ("b", 1): bits(1, 2, 3)})).good
    assert judge(settings, Evidence(seen={("a", 0): bits(1, 2), ("b", 0): bits(1)})).lost == 1


def test_an_audit_that_saw_none_of_the_other_run_is_not_good() -> None:
    verdict = judge(AUDIT, Evidence(foreign=7))
    assert not verdict.good
    assert str(verdict) == "not verified: of the run with this name no message came, of others 7"


def test_a_bitmap_grows_with_its_numbers() -> None:
    seen = Seen()
    assert not seen.mark(1_000_000)
    assert seen.mark(1_000_000)
    assert not seen.mark(1_000_001)
