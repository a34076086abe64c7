"""Length limits: by count and by bytes, and the three ways to overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    bodies,
    confirmed,
    confirming,
    contents,
    death,
    deaths,
    drain,
    fetch,
    get,
    hold,
    numbered,
    publish,
    ready,
    wait_ready,
)

Declare = Callable[..., str]


def limited(count: int, overflow: str | None = None, sink: str | None = None) -> dict[str, Any]:
    arguments: dict[str, Any] = {"x-max-length": count}
    if overflow:
        arguments["x-overflow"] = overflow
    if sink:
        arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink}
    return arguments


# drop-head


@pytest.mark.parametrize("overflow", [None, "drop-head"])
def test_the_oldest_messages_are_dropped(channel: Any, queue: Declare, overflow: str | None) -> None:
    name = queue(arguments=limited(3, overflow))
    publish(channel, name, *numbered(10))
    assert contents(channel, name) == [b"8", b"9", b"10"]


def test_dropped_messages_are_confirmed(queue: Declare, connection: Any) -> None:
    name = queue(arguments=limited(1))
    sender = confirming(connection)
    assert all(confirmed(sender, name, body) for body in numbered(5))
    assert contents(sender, name) == [b"5"]


def test_dropped_messages_are_dead_lettered_in_order(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=limited(2, "drop-head", sink))
    publish(channel, name, *numbered(6))
    wait_ready(channel, sink, 4)
    dead = drain(channel, sink)
    assert bodies(dead) == numbered(4)
    assert deaths(dead[0]) == [(name, "maxlen", 1)]
    assert contents(channel, name) == [b"5", b"6"]


def test_unacknowledged_messages_do_not_count(channel: Any, queue: Declare) -> None:
    name = queue(arguments=limited(2))
    publish(channel, name, *numbered(2))
    hold(channel, name, 2)
    publish(channel, name, *numbered(2, start=3))
    wait_ready(channel, name, 2)
    assert contents(channel, name) == [b"3", b"4"]


def test_a_requeued_message_may_be_dropped_at_once(channel: Any, queue: Declare) -> None:
    name = queue(arguments=limited(2))
    publish(channel, name, *numbered(2))
    last = hold(channel, name, 2)[-1]
    publish(channel, name, *numbered(2, start=3))
    channel.basic_nack(last.tag, multiple=True, requeue=True)
    wait_ready(channel, name, 2)
    assert contents(channel, name) == [b"3", b"4"]


def test_a_limit_of_zero_keeps_nothing(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=limited(0, "drop-head", sink))
    publish(channel, name, *numbered(2))
    wait_ready(channel, sink, 2)
    assert get(channel, name) is None


@pytest.mark.parametrize("persistent", [1, 2])
def test_a_limit_of_zero_still_serves_a_waiting_consumer(
    channel: Any, queue: Declare, connection: Any, persistent: int
) -> None:
    name = queue(durable=True, arguments=limited(0))
    inbox = Inbox(connection.channel())
    inbox.consume(name, auto_ack=True)
    publish(channel, name, *numbered(3), delivery_mode=persistent)
    assert bodies(inbox.wait(3)) == numbered(3)


@pytest.mark.parametrize("persistent", [1, 2])
def test_beyond_the_prefetch_a_limit_holds(channel: Any, queue: Declare, connection: Any, persistent: int) -> None:
    """What the consumer takes is the first; of the others the newest are kept."""
    name = queue(durable=True, arguments=limited(2))
    inbox = Inbox(connection.channel())
    inbox.channel.basic_qos(prefetch_count=3)
    inbox.consume(name)
    publish(channel, name, *numbered(9), delivery_mode=persistent)
    assert bodies(inbox.wait(3)) == numbered(3)
    wait_ready(channel, name, 2)
    inbox.channel.basic_ack(inbox.deliveries[-1].tag, multiple=True)
    assert bodies(inbox.wait(5)) == numbered(3) + numbered(2, start=8)


# bytes


def test_the_limit_in_bytes_counts_bodies(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-max-length-bytes": 100})
    publish(channel, name, *(letter * 40 for letter in (b"a", b"b", b"c", b"d")), headers={"not": "counted" * 50})
    assert contents(channel, name) == [b"c" * 40, b"d" * 40]


def test_a_message_larger_than_the_limit_pushes_everything_out(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-max-length-bytes": 100})
    publish(channel, name, b"small", b"x" * 101)
    wait_ready(channel, name, 0)
    publish(channel, name, b"y" * 100)
    assert contents(channel, name) == [b"y" * 100]


def test_empty_bodies_never_reach_the_limit_in_bytes(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-max-length-bytes": 1})
    publish(channel, name, b"", b"", b"", b"1")
    assert contents(channel, name) == [b"", b"", b"", b"1"]


def test_whichever_limit_is_reached_first_counts(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-max-length": 3, "x-max-length-bytes": 10})
    publish(channel, name, b"1", b"2", b"3", b"4")
    wait_ready(channel, name, 3)
    publish(channel, name, b"x" * 9)
    assert contents(channel, name) == [b"4", b"x" * 9]


def test_the_limit_in_bytes_refuses_publishes_too(queue: Declare, connection: Any) -> None:
    name = queue(arguments={"x-max-length-bytes": 100, "x-overflow": "reject-publish"})
    sender = confirming(connection)
    answers = [confirmed(sender, name, b"x" * size) for size in (60, 41, 40, 1, 0)]
    assert answers == [True, False, True, False, True]
    assert [len(body) for body in contents(sender, name)] == [60, 40, 0]


# reject-publish


def test_a_full_queue_refuses_publishes(queue: Declare, connection: Any) -> None:
    name = queue(arguments=limited(2, "reject-publish"))
    sender = confirming(connection)
    assert [confirmed(sender, name, body) for body in numbered(4)] == [True, True, False, False]
    assert contents(sender, name) == [b"1", b"2"]


def test_a_full_queue_accepts_again_after_a_get(queue: Declare, connection: Any) -> None:
    name = queue(arguments=limited(1, "reject-publish"))
    sender = confirming(connection)
    assert [confirmed(sender, name, b"1"), confirmed(sender, name, b"2")] == [True, False]
    assert fetch(sender, name).body == b"1"
    assert confirmed(sender, name, b"3")
    assert contents(sender, name) == [b"3"]


def test_publishes_without_confirms_are_dropped_by_a_full_queue(channel: Any, queue: Declare) -> None:
    name = queue(arguments=limited(2, "reject-publish"))
    publish(channel, name, *numbered(5))
    assert contents(channel, name) == [b"1", b"2"]


def test_a_refused_publish_is_not_dead_lettered(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=limited(1, "reject-publish", sink))
    sender = confirming(connection)
    assert [confirmed(sender, name, body) for body in numbered(3)] == [True, False, False]
    assert ready(channel, sink) == 0


def test_one_full_queue_of_many_makes_a_nack_and_the_others_keep_the_message(
    channel: Any, queue: Declare, connection: Any
) -> None:
    full, free = queue(arguments=limited(1, "reject-publish")), queue()
    for name in (full, free):
        channel.queue_bind(name, "amq.fanout")
    sender = confirming(connection)
    answers = [confirmed(sender, "", body, exchange="amq.fanout") for body in numbered(3)]
    assert answers == [True, False, False]
    assert contents(channel, full) == [b"1"]
    assert contents(channel, free) == numbered(3)


def test_a_refused_mandatory_publish_is_not_returned(queue: Declare, connection: Any) -> None:
    name = queue(arguments=limited(0, "reject-publish"))
    sender = connection.channel()
    returned: list[Any] = []
    sender.add_on_return_callback(lambda *what: returned.append(what))
    sender.basic_publish("", name, b"m", mandatory=True)
    connection.sleep(0.2)
    assert returned == []


def test_a_zero_length_queue_with_a_waiting_consumer_accepts_publishes(queue: Declare, connection: Any) -> None:
    name = queue(arguments=limited(1, "reject-publish"))
    inbox = Inbox(connection.channel())
    inbox.consume(name, auto_ack=True)
    sender = confirming(connection)
    assert all(confirmed(sender, name, body) for body in numbered(5))
    assert bodies(inbox.wait(5)) == numbered(5)


# reject-publish-dlx


def test_refused_publishes_go_to_the_dead_letter_exchange(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=limited(1, "reject-publish-dlx", sink))
    sender = confirming(connection)
    assert [confirmed(sender, name, body) for body in numbered(3)] == [True, False, False]
    wait_ready(channel, sink, 2)
    dead = drain(channel, sink)
    assert bodies(dead) == [b"2", b"3"]
    assert death(dead[0])["reason"] == "maxlen"
    assert death(dead[0])["queue"] == name
    assert contents(channel, name) == [b"1"]


def test_reject_publish_dlx_without_a_dead_letter_exchange_only_refuses(queue: Declare, connection: Any) -> None:
    name = queue(arguments=limited(1, "reject-publish-dlx"))
    sender = confirming(connection)
    assert [confirmed(sender, name, body) for body in numbered(3)] == [True, False, False]
    assert contents(sender, name) == [b"1"]


def test_a_requeue_into_a_full_refusing_queue_loses_nothing(channel: Any, queue: Declare) -> None:
    name = queue(arguments=limited(1, "reject-publish"))
    publish(channel, name, b"1")
    (held,) = hold(channel, name, 1)
    publish(channel, name, b"2")
    channel.basic_reject(held.tag, requeue=True)
    wait_ready(channel, name, 2)
    assert contents(channel, name) == [b"1", b"2"]


@pytest.mark.parametrize("persistent", [1, 2])
def test_limits_hold_for_durable_queues(queue: Declare, channel: Any, persistent: int) -> None:
    name = queue(durable=True, arguments=limited(10))
    publish(channel, name, *numbered(100), delivery_mode=persistent)
    assert contents(channel, name) == numbered(10, start=91)
