"""Priority queues: higher first, first in first out within a priority, and what other features make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    bodies,
    contents,
    drain,
    fetch,
    hold,
    numbered,
    publish,
    ready,
    wait_ready,
)

Declare = Callable[..., str]
FIVE = {"x-max-priority": 5}


def test_higher_priorities_come_first(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    for priority in (1, 3, 5, 2, 4, 0):
        publish(channel, name, str(priority).encode(), priority=priority)
    assert contents(channel, name) == [b"5", b"4", b"3", b"2", b"1", b"0"]


def test_messages_of_one_priority_keep_their_order(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    for number in range(10):
        publish(channel, name, f"low {number}".encode(), priority=1)
        publish(channel, name, f"high {number}".encode(), priority=4)
    expected = [f"{kind} {number}".encode() for kind in ("high", "low") for number in range(10)]
    assert contents(channel, name) == expected


def test_no_priority_is_the_lowest(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    publish(channel, name, b"none")
    publish(channel, name, b"zero", priority=0)
    publish(channel, name, b"one", priority=1)
    assert contents(channel, name) == [b"one", b"none", b"zero"]


def test_a_priority_above_the_maximum_counts_as_the_maximum(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    publish(channel, name, b"five", priority=5)
    publish(channel, name, b"two hundred", priority=200)
    publish(channel, name, b"six", priority=6)
    publish(channel, name, b"four", priority=4)
    assert contents(channel, name) == [b"five", b"two hundred", b"six", b"four"]


def test_the_priority_property_is_delivered_as_published(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    publish(channel, name, priority=200)
    assert fetch(channel, name).properties.priority == 200


def test_without_the_argument_priorities_mean_nothing(channel: Any, queue: Declare) -> None:
    name = queue()
    for priority in (1, 9, 5):
        publish(channel, name, str(priority).encode(), priority=priority)
    assert contents(channel, name) == [b"1", b"9", b"5"]


def test_a_maximum_of_255_is_obeyed(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-max-priority": 255})
    for priority in (0, 254, 255, 10, 100):
        publish(channel, name, str(priority).encode(), priority=priority)
    assert contents(channel, name) == [b"255", b"254", b"100", b"10", b"0"]


def test_a_maximum_of_zero_is_a_queue_with_one_priority(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-max-priority": 0})
    for priority in (0, 9, 3):
        publish(channel, name, str(priority).encode(), priority=priority)
    assert contents(channel, name) == [b"0", b"9", b"3"]


def test_a_higher_priority_overtakes_what_the_prefetch_holds_back(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(arguments=FIVE)
    inbox = Inbox(connection.channel())
    inbox.channel.basic_qos(prefetch_count=1)
    inbox.consume(name)
    publish(channel, name, b"first", b"second", priority=1)
    first = inbox.one()
    publish(channel, name, b"urgent", priority=5)
    wait_ready(channel, name, 2)
    inbox.ack(first)
    urgent = inbox.one()
    inbox.ack(urgent)
    second = inbox.one()
    assert bodies([first, urgent, second]) == [b"first", b"urgent", b"second"]


def test_a_requeued_message_returns_to_its_priority_and_place(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    publish(channel, name, b"high 1", b"high 2", priority=5)
    publish(channel, name, b"low 1", b"low 2", priority=1)
    held = hold(channel, name, 3)
    channel.basic_nack(held[-1].tag, multiple=True, requeue=True)
    wait_ready(channel, name, 4)
    assert contents(channel, name) == [b"high 1", b"high 2", b"low 1", b"low 2"]


def test_a_requeued_low_priority_message_waits_behind_new_urgent_ones(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    publish(channel, name, b"low", priority=1)
    (held,) = hold(channel, name, 1)
    publish(channel, name, b"high", priority=5)
    channel.basic_reject(held.tag, requeue=True)
    wait_ready(channel, name, 2)
    assert [(message.body, message.redelivered) for message in drain(channel, name)] == [
        (b"high", False),
        (b"low", True),
    ]


def test_an_overfull_priority_queue_drops_its_head_which_is_the_most_urgent(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE | {"x-max-length": 2})
    publish(channel, name, b"low 1", b"low 2", priority=1)
    publish(channel, name, b"high", priority=5)
    assert contents(channel, name) == [b"low 1", b"low 2"]


def test_messages_of_each_priority_expire(channel: Any, queue: Declare) -> None:
    sink = queue()
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink}
    name = queue(arguments=FIVE | dead | {"x-message-ttl": 50})
    for priority in (1, 5, 3):
        publish(channel, name, str(priority).encode(), priority=priority)
    wait_ready(channel, sink, 3)
    assert sorted(contents(channel, sink)) == [b"1", b"3", b"5"]
    assert ready(channel, name) == 0


def test_a_low_priority_message_does_not_expire_behind_a_higher_one(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments=FIVE | {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    publish(channel, name, b"high", priority=5)
    publish(channel, name, b"low", priority=1, expiration="50")
    connection.sleep(0.3)
    assert ready(channel, name) == 2
    assert fetch(channel, name).body == b"high"
    assert fetch(channel, sink).body == b"low"


def test_purge_empties_every_priority(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    for priority in range(6):
        publish(channel, name, *numbered(2), priority=priority)
    assert channel.queue_purge(name).method.message_count == 12
    assert contents(channel, name) == []


def test_delete_counts_every_priority(channel: Any, queue: Declare) -> None:
    name = queue(arguments=FIVE)
    for priority in range(6):
        publish(channel, name, priority=priority)
    assert channel.queue_delete(name).method.message_count == 6


@pytest.mark.parametrize("mode", [1, 2])
def test_a_durable_priority_queue_keeps_the_order_too(channel: Any, queue: Declare, mode: int) -> None:
    name = queue(durable=True, arguments=FIVE)
    for priority in (0, 5, 2):
        publish(channel, name, str(priority).encode(), priority=priority, delivery_mode=mode)
    assert contents(channel, name) == [b"5", b"2", b"0"]


def test_a_waiting_consumer_gets_low_priorities_at_once(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(arguments=FIVE)
    inbox = Inbox(connection.channel())
    inbox.consume(name, auto_ack=True)
    for priority in (0, 1, 5, 0):
        publish(channel, name, str(priority).encode(), priority=priority)
        assert inbox.one().body == str(priority).encode()
