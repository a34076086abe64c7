"""The judgement over a verified run."""

from __future__ import annotations

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


def test_a_bitmap_grows_with_its_numbers() -> None:
    seen = Seen()
    assert not seen.mark(1_000_000)
    assert seen.mark(1_000_000)
    assert not seen.mark(1_000_001)
