"""Time to live: per queue, per message, the smaller of both, and expiry at the head only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    bodies,
    contents,
    death,
    fetch,
    get,
    numbered,
    place,
    publish,
    ready,
    refused,
    wait_ready,
)

Declare = Callable[..., str]


def to(queue: str, **more: Any) -> dict[str, Any]:
    """Arguments that dead-letter into the queue."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue} | more


# queue


def test_messages_expire_after_the_queue_ttl(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 50}))
    publish(channel, name, *numbered(3))
    wait_ready(channel, sink, 3)
    assert ready(channel, name) == 0
    assert contents(channel, sink) == numbered(3)


def test_messages_expire_without_a_dead_letter_exchange(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(arguments={"x-message-ttl": 300})
    place(connection, name, *numbered(3))
    wait_ready(channel, name, 0)
    assert get(channel, name) is None


def test_a_message_within_its_ttl_is_delivered(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-message-ttl": 60000})
    publish(channel, name)
    assert fetch(channel, name).properties.expiration is None


def test_a_ttl_of_zero_expires_what_no_consumer_takes_at_once(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 0}))
    publish(channel, name, *numbered(2))
    wait_ready(channel, sink, 2)
    assert get(channel, name) is None


@pytest.mark.parametrize("persistent", [1, 2])
def test_a_ttl_of_zero_still_delivers_to_a_waiting_consumer(
    channel: Any, queue: Declare, connection: Any, persistent: int
) -> None:
    name = queue(durable=True, arguments={"x-message-ttl": 0})
    inbox = Inbox(connection.channel())
    inbox.consume(name)
    publish(channel, name, *numbered(3), delivery_mode=persistent)
    assert bodies(inbox.wait(3)) == numbered(3)


@pytest.mark.parametrize("persistent", [1, 2])
def test_a_ttl_of_zero_expires_what_the_prefetch_holds_back(
    channel: Any, queue: Declare, connection: Any, persistent: int
) -> None:
    sink = queue()
    name = queue(durable=True, arguments=to(sink, **{"x-message-ttl": 0}))
    inbox = Inbox(connection.channel())
    inbox.channel.basic_qos(prefetch_count=1)
    inbox.consume(name)
    publish(channel, name, *numbered(3), delivery_mode=persistent)
    assert inbox.one().body == b"1"
    wait_ready(channel, sink, 2)
    assert contents(channel, sink) == [b"2", b"3"]


def test_a_delivered_message_does_not_expire_until_it_is_requeued(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 200}))
    inbox = Inbox(connection.channel())
    tag = inbox.consume(name)
    publish(channel, name)
    held = inbox.one()
    inbox.channel.basic_cancel(tag)
    connection.sleep(0.5)
    assert ready(channel, sink) == 0
    inbox.channel.basic_reject(held.tag, requeue=True)
    wait_ready(channel, sink, 1)
    assert death(fetch(channel, sink))["reason"] == "expired"


def test_a_requeued_message_keeps_its_deadline(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 600}))
    publish(channel, name)
    for _ in range(5):
        connection.sleep(0.2)
        if (message := get(channel, name)) is None:
            break
        channel.basic_reject(message.tag, requeue=True)
    else:
        raise AssertionError("requeueing has put off the expiry")
    assert fetch(channel, sink).body == b"m"


# message


def test_a_message_expires_after_its_own_expiration(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, b"short", expiration="50")
    assert fetch(channel, sink).body == b"short"
    assert get(channel, name) is None


def test_an_expiration_stays_on_a_delivered_message(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name, expiration="60000")
    assert fetch(channel, name).properties.expiration == "60000"


def test_an_expiration_of_zero_expires_at_once(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, expiration="0")
    assert fetch(channel, sink).body == b"m"


def test_an_expiration_of_zero_still_reaches_a_waiting_consumer(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    inbox = Inbox(connection.channel())
    inbox.consume(name)
    publish(channel, name, b"now", expiration="0")
    assert inbox.one().body == b"now"


def test_the_shorter_of_queue_and_message_ttl_counts_when_it_is_the_queue_s(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 50}))
    publish(channel, name, b"long", expiration="3600000")
    assert death(fetch(channel, sink))["original-expiration"] == "3600000"


def test_the_shorter_of_queue_and_message_ttl_counts_when_it_is_the_message_s(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 3600000}))
    publish(channel, name, b"short", expiration="50")
    assert fetch(channel, sink).body == b"short"


def test_a_message_behind_a_longer_lived_one_waits_for_the_head(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, b"first", expiration="60000")
    publish(channel, name, b"second", expiration="20")
    wait_ready(channel, name, 2)
    connection.sleep(0.3)
    assert ready(channel, name) == 2
    assert fetch(channel, name).body == b"first"
    assert fetch(channel, sink).body == b"second"


def test_expired_messages_at_the_head_are_passed_over_by_a_get(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    place(connection, name, b"1", b"2", expiration="10")
    place(connection, name, b"3")
    connection.sleep(0.1)
    assert contents(channel, name) == [b"3"]


def test_expired_messages_behind_the_head_are_not_counted_as_left_by_a_get(
    channel: Any, queue: Declare, connection: Any
) -> None:
    name = queue()
    place(connection, name, b"1", expiration="60000")
    place(connection, name, b"2", b"3", expiration="10")
    place(connection, name, b"4")
    connection.sleep(0.1)
    method, _, body = channel.basic_get(name)
    assert (body, method.message_count) == (b"1", 1)


def test_expired_messages_are_never_delivered_to_a_late_consumer(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    place(connection, name, b"kept")
    place(connection, name, b"gone", expiration="10")
    place(connection, name, b"kept too", expiration="60000")
    connection.sleep(0.1)
    inbox = Inbox(channel)
    inbox.consume(name)
    assert bodies(inbox.wait(2)) == [b"kept", b"kept too"]
    assert len(inbox.deliveries) == 2


@pytest.mark.parametrize(
    ("expiration", "why"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        (" 10", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("10 ", '{leftover_string," "}'),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_a_bad_expiration_is_refused(channel: Any, queue: Declare, expiration: str, why: str) -> None:
    name = queue()
    with refused(channel, 406, f"PRECONDITION_FAILED - invalid expiration '{expiration}': {why}"):
        publish(channel, name, expiration=expiration)


def test_a_bad_expiration_is_refused_even_if_nothing_is_routed(channel: Any) -> None:
    with refused(channel, 406, "PRECONDITION_FAILED - invalid expiration 'soon': no_integer"):
        publish(channel, "nowhere", expiration="soon")


@pytest.mark.parametrize("expiration", ["315360000000", "+60000", "0060000"])
def test_a_good_expiration_is_accepted(channel: Any, queue: Declare, expiration: str) -> None:
    name = queue()
    publish(channel, name, expiration=expiration)
    assert fetch(channel, name).properties.expiration == expiration


def test_many_messages_expire_in_order(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink, **{"x-message-ttl": 100}))
    publish(channel, name, *numbered(500))
    wait_ready(channel, sink, 500)
    assert contents(channel, sink) == numbered(500)
