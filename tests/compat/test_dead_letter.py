"""Dead-lettering: why, what x-death tells, and where cycles end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    bodies,
    contents,
    death,
    deaths,
    drain,
    fetch,
    get,
    hold,
    numbered,
    place,
    publish,
    ready,
    reject,
    wait_ready,
)
from .support import unique

Declare = Callable[..., str]


def to(queue: str, **more: Any) -> dict[str, Any]:
    """Arguments that dead-letter into the queue."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue} | more


# reasons


def test_a_rejected_message_is_dead_lettered(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, b"bad")
    reject(channel, name)
    dead = fetch(channel, sink)
    assert (dead.body, dead.redelivered, dead.exchange, dead.key) == (b"bad", False, "", sink)
    assert death(dead)["reason"] == "rejected"


def test_a_nacked_message_is_dead_lettered(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, *numbered(3))
    last = hold(channel, name, 3)[-1]
    channel.basic_nack(last.tag, multiple=True, requeue=False)
    wait_ready(channel, sink, 3)
    dead = drain(channel, sink)
    assert bodies(dead) == numbered(3)
    assert {death(message)["reason"] for message in dead} == {"rejected"}


def test_an_expired_message_is_dead_lettered(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 20}))
    publish(channel, name)
    assert death(fetch(channel, sink))["reason"] == "expired"


def test_a_message_dropped_for_length_is_dead_lettered(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-max-length": 1}))
    publish(channel, name, *numbered(3))
    wait_ready(channel, sink, 2)
    dead = drain(channel, sink)
    assert bodies(dead) == [b"1", b"2"]
    assert {death(message)["reason"] for message in dead} == {"maxlen"}


@pytest.mark.parametrize("requeue", ["reject", "nack", "recover"])
def test_a_requeued_message_is_not_dead_lettered(channel: Any, queue: Declare, requeue: str) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name)
    (held,) = hold(channel, name, 1)
    if requeue == "recover":
        channel.basic_recover(requeue=True)
    else:
        getattr(channel, f"basic_{requeue}")(held.tag, requeue=True)
    wait_ready(channel, name, 1)
    assert ready(channel, sink) == 0


def test_purged_and_deleted_messages_are_not_dead_lettered(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, *numbered(3))
    channel.queue_purge(name)
    publish(channel, name, *numbered(3))
    channel.queue_delete(name)
    assert get(channel, sink) is None


def test_an_acknowledged_message_is_not_dead_lettered(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, *numbered(2))
    channel.basic_ack(hold(channel, name, 2)[-1].tag, multiple=True)
    assert contents(channel, sink) == []


def test_without_a_dead_letter_exchange_a_rejected_message_is_gone(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name)
    reject(channel, name)
    assert get(channel, name) is None


# x-death


def test_the_first_death_is_told_in_full(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    channel.queue_bind(name, "amq.topic", "a.*")
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    publish(channel, "a.b", exchange="amq.topic")
    reject(channel, name)
    entry = death(fetch(channel, sink))
    time = entry.pop("time")
    assert entry == {"count": 1, "reason": "rejected", "queue": name, "exchange": "amq.topic", "routing-keys": ["a.b"]}
    assert before <= time <= dt.datetime.now(dt.UTC)


def test_the_first_death_headers_are_set(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    channel.queue_bind(name, "amq.topic", "#")
    publish(channel, "a.b", exchange="amq.topic", expiration="20")
    headers = fetch(channel, sink).headers
    first = {key: value for key, value in headers.items() if key.startswith("x-first-death-")}
    assert first == {
        "x-first-death-reason": "expired",
        "x-first-death-queue": name,
        "x-first-death-exchange": "amq.topic",
    }


@pytest.mark.parametrize("reason", ["expired", "rejected", "maxlen"])
def test_the_expiration_moves_into_the_death_record(channel: Any, queue: Declare, reason: str) -> None:
    sink = queue()
    limit = {"x-max-length": 1} if reason == "maxlen" else {}
    name = queue(arguments=to(sink, **limit))
    publish(channel, name, b"1", expiration="30" if reason == "expired" else "60000")
    if reason == "rejected":
        reject(channel, name)
    if reason == "maxlen":
        publish(channel, name, b"2")
    dead = fetch(channel, sink)
    assert death(dead)["original-expiration"] == ("30" if reason == "expired" else "60000")
    assert death(dead)["reason"] == reason
    assert dead.properties.expiration is None


def test_a_dead_letter_does_not_expire_a_second_time_by_its_old_expiration(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, expiration="30")
    wait_ready(channel, sink, 1)
    connection.sleep(0.3)
    assert ready(channel, sink) == 1


def test_other_properties_and_headers_are_kept(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    given: dict[str, Any] = {
        "delivery_mode": 2,
        "priority": 4,
        "message_id": "id",
        "content_type": "text/plain",
        "reply_to": "back",
    }
    publish(channel, name, b"body", headers={"mine": "kept"}, **given)
    reject(channel, name)
    dead = fetch(channel, sink)
    assert dead.headers["mine"] == "kept"
    assert {key: getattr(dead.properties, key) for key in given} == given


def test_the_count_grows_each_time_a_message_dies_in_the_same_place(channel: Any, queue: Declare) -> None:
    name = queue(arguments=to("back"))
    channel.queue_declare("back", exclusive=True, arguments=to(name, **{"x-message-ttl": 20}))
    publish(channel, name)
    for round in range(1, 4):
        reject(channel, name)
        again = fetch(channel, name, auto_ack=False)
        assert deaths(again) == [("back", "expired", round), (name, "rejected", round)]
        assert again.headers["x-first-death-queue"] == name
        assert again.headers["x-first-death-reason"] == "rejected"
        channel.basic_reject(again.tag, requeue=True)


def test_the_latest_death_comes_first(channel: Any, queue: Declare) -> None:
    sink = queue()
    second = queue(arguments=to(sink))
    first = queue(arguments=to(second))
    publish(channel, first)
    reject(channel, first)
    reject(channel, second)
    dead = fetch(channel, sink)
    assert deaths(dead) == [(second, "rejected", 1), (first, "rejected", 1)]
    assert death(dead, 0)["routing-keys"] == [second]
    assert death(dead, 1)["routing-keys"] == [first]
    assert dead.headers["x-first-death-queue"] == first


def test_another_reason_in_the_same_queue_is_another_record(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name)
    reject(channel, name)
    publish(channel, name, headers=fetch(channel, sink).headers, expiration="20")
    again = fetch(channel, sink)
    assert deaths(again) == [(name, "expired", 1), (name, "rejected", 1)]
    assert again.headers["x-first-death-reason"] == "rejected"


def test_a_rejected_message_may_go_round_for_ever(channel: Any, queue: Declare) -> None:
    name = unique("q")
    queue(name, arguments=to(name))
    publish(channel, name)
    for _ in range(5):
        reject(channel, name)
    assert deaths(fetch(channel, name)) == [(name, "rejected", 5)]


def test_a_forged_death_record_is_replaced_when_it_is_no_list(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, headers={"x-death": "forged"})
    reject(channel, name)
    assert deaths(fetch(channel, sink)) == [(name, "rejected", 1)]


ONCE, FIVE = {"queue": "a", "reason": "expired"}, {"queue": "b", "reason": "maxlen", "count": 5}
OTHER = {"queue": "c", "reason": "expired"}


@pytest.mark.parametrize(
    ("forged", "rest"),
    [
        ([ONCE, OTHER], [("c", "expired", 1), ("a", "expired", 1)]),
        ([ONCE, OTHER, ONCE], [("c", "expired", 1), ("a", "expired", 2)]),
        ([FIVE, FIVE | {"count": 7}, ONCE], [("a", "expired", 1), ("b", "maxlen", 5)]),
        ([ONCE | {"count": 3}, ONCE], [("a", "expired", 3)]),
    ],
)
def test_death_records_are_folded_and_counted(channel: Any, queue: Declare, forged: list[Any], rest: list[Any]) -> None:
    """As brokers left them that did not count: one record for each time that a message died."""
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, headers={"x-death": forged})
    reject(channel, name)
    assert deaths(fetch(channel, sink)) == [(name, "rejected", 1), *rest]


def test_a_death_goes_on_with_the_count_of_its_folded_records(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    mine = {"queue": name, "reason": "rejected"}
    publish(channel, name, headers={"x-death": [mine, ONCE, mine]})
    reject(channel, name)
    assert deaths(fetch(channel, sink)) == [(name, "rejected", 3), ("a", "expired", 1)]


# cycles


def test_a_message_that_expires_back_into_its_own_queue_is_dropped(channel: Any, queue: Declare, connection: Any) -> None:
    name = unique("q")
    queue(name, arguments=to(name, **{"x-message-ttl": 100}))
    place(connection, name)
    wait_ready(channel, name, 0)
    connection.sleep(0.3)
    assert ready(channel, name) == 0


def test_a_cycle_of_expiries_over_two_queues_ends_after_one_round(channel: Any, queue: Declare, connection: Any) -> None:
    first, second, tap = unique("q"), unique("q"), queue()
    cycle = unique("x")
    channel.exchange_declare(cycle, "direct", auto_delete=True)
    queue(first, arguments={"x-message-ttl": 20, "x-dead-letter-exchange": cycle, "x-dead-letter-routing-key": "2"})
    queue(second, arguments={"x-message-ttl": 20, "x-dead-letter-exchange": cycle, "x-dead-letter-routing-key": "1"})
    for name, key in ((first, "1"), (second, "2"), (tap, "1"), (tap, "2")):
        channel.queue_bind(name, cycle, key)
    publish(channel, "1", exchange=cycle)
    wait_ready(channel, tap, 3)
    connection.sleep(0.3)
    assert [message.key for message in drain(channel, tap)] == ["1", "2", "1"]
    assert (ready(channel, first), ready(channel, second)) == (0, 0)


def test_only_the_queue_that_closes_the_cycle_is_left_out(channel: Any, queue: Declare, connection: Any) -> None:
    name, other, fanout = unique("q"), queue(), unique("x")
    channel.exchange_declare(fanout, "fanout", auto_delete=True)
    queue(name, arguments={"x-message-ttl": 20, "x-dead-letter-exchange": fanout})
    channel.queue_bind(name, fanout)
    channel.queue_bind(other, fanout)
    publish(channel, name)
    assert deaths(fetch(channel, other)) == [(name, "expired", 1)]
    connection.sleep(0.2)
    assert (ready(channel, name), ready(channel, other)) == (0, 0)


def test_a_cycle_by_length_is_dropped(channel: Any, queue: Declare, connection: Any) -> None:
    name = unique("q")
    queue(name, arguments=to(name, **{"x-max-length": 1}))
    place(connection, name, *numbered(3))
    connection.sleep(0.2)
    assert contents(channel, name) == [b"3"]


def test_a_rejection_within_the_cycle_lets_it_go_on(channel: Any, queue: Declare) -> None:
    waiting = unique("wait")
    work = queue(arguments=to(waiting))
    queue(waiting, arguments=to(work, **{"x-message-ttl": 20}))
    publish(channel, work, b"retry me")
    for _ in range(4):
        reject(channel, work)
    assert deaths(fetch(channel, work)) == [(waiting, "expired", 4), (work, "rejected", 4)]


# in company


def test_a_dead_letter_reaches_a_consumer(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    inbox = Inbox(connection.channel())
    inbox.consume(sink)
    publish(channel, name, b"bad")
    reject(channel, name)
    assert inbox.one().body == b"bad"


def test_a_full_target_queue_drops_dead_letters(channel: Any, queue: Declare) -> None:
    sink = queue(arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    name = queue(arguments=to(sink))
    publish(channel, name, *numbered(4))
    for _ in range(4):
        reject(channel, name)
    wait_ready(channel, sink, 2)
    assert contents(channel, sink) == [b"1", b"2"]
