"""Prefetch: per consumer and shared by a channel, and what does not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    bodies,
    fetch,
    hold,
    numbered,
    publish,
    refused,
    wait_ready,
)

Declare = Callable[..., str]


@pytest.fixture
def inbox(connection: Any) -> Inbox:
    """On a channel of its own, beside `channel`."""
    return Inbox(connection.channel())


def limit(inbox: Inbox, count: int, *, shared: bool = False) -> None:
    inbox.channel.basic_qos(prefetch_count=count, global_qos=shared)


# per consumer


@pytest.mark.parametrize("count", [1, 3, 10])
def test_no_more_than_the_prefetch_is_delivered(channel: Any, queue: Declare, inbox: Inbox, count: int) -> None:
    name = queue()
    publish(channel, name, *numbered(20))
    limit(inbox, count)
    inbox.consume(name)
    assert bodies(inbox.take(count)) == numbered(count)
    assert inbox.quiet()


def test_each_ack_makes_room_for_one_more(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    publish(channel, name, *numbered(6))
    limit(inbox, 2)
    inbox.consume(name)
    first, second = inbox.take(2)
    inbox.ack(first)
    third = inbox.one()
    assert third.body == b"3"
    inbox.channel.basic_ack(third.tag, multiple=True)
    assert bodies(inbox.take(2)) == [b"4", b"5"]
    assert second.tag < third.tag


@pytest.mark.parametrize("how", ["reject", "nack"])
def test_a_refusal_makes_room_too(channel: Any, queue: Declare, inbox: Inbox, how: str) -> None:
    name = queue()
    publish(channel, name, *numbered(3))
    limit(inbox, 1)
    inbox.consume(name)
    getattr(inbox.channel, f"basic_{how}")(inbox.one().tag, requeue=False)
    assert inbox.one().body == b"2"


def test_a_prefetch_of_zero_is_no_limit(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    publish(channel, name, *numbered(500))
    limit(inbox, 1)
    limit(inbox, 0)
    inbox.consume(name)
    assert len(inbox.wait(500)) == 500


def test_each_consumer_has_its_own_limit(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    publish(channel, name, *numbered(10))
    limit(inbox, 2)
    tags = [inbox.consume(name), inbox.consume(name)]
    taken = inbox.take(4)
    assert sorted(delivery.consumer for delivery in taken) == sorted(tags * 2)
    assert inbox.quiet()


def test_a_new_limit_counts_for_new_consumers_only(channel: Any, queue: Declare, inbox: Inbox) -> None:
    first, second = queue(), queue()
    limit(inbox, 1)
    inbox.consume(first)
    limit(inbox, 3)
    inbox.consume(second)
    publish(channel, first, *numbered(5))
    publish(channel, second, *numbered(5))
    wait_ready(channel, first, 4)
    wait_ready(channel, second, 2)
    assert len(inbox.take(4)) == 4
    assert inbox.quiet()


def test_the_limit_belongs_to_the_channel_that_set_it(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    channel.basic_qos(prefetch_count=1)
    inbox.consume(name)
    publish(channel, name, *numbered(5))
    assert len(inbox.take(5)) == 5


def test_automatic_acks_know_no_limit(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    publish(channel, name, *numbered(50))
    limit(inbox, 1)
    inbox.consume(name, auto_ack=True)
    assert len(inbox.wait(50)) == 50


def test_gets_know_no_limit_and_do_not_count(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    publish(channel, name, *numbered(5))
    limit(inbox, 1)
    hold(inbox.channel, name, 3)
    inbox.consume(name)
    assert inbox.one().body == b"4"
    assert fetch(inbox.channel, name).body == b"5"


def test_the_largest_prefetch_is_accepted(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    limit(inbox, 65535)
    inbox.consume(name)
    publish(channel, name)
    assert inbox.one().body == b"m"


def test_a_prefetch_in_bytes_is_not_implemented(channel: Any) -> None:
    with refused(channel, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (1024)"):
        channel.basic_qos(prefetch_size=1024)


def test_a_cancelled_consumer_frees_nothing_for_others(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    limit(inbox, 1)
    first = inbox.consume(name)
    publish(channel, name, *numbered(3))
    held = inbox.one()
    assert held.consumer == first
    inbox.channel.basic_cancel(first)
    second = inbox.consume(name)
    assert inbox.one().consumer == second
    assert inbox.quiet()


def test_requeued_messages_come_back_within_the_limit(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    publish(channel, name, *numbered(4))
    limit(inbox, 2)
    inbox.consume(name)
    _, second = inbox.take(2)
    inbox.channel.basic_nack(second.tag, multiple=True, requeue=True)
    again = inbox.take(2)
    assert [(delivery.body, delivery.redelivered) for delivery in again] == [(b"1", True), (b"2", True)]
    assert inbox.quiet()


# shared by the channel


def test_a_shared_limit_counts_all_consumers_of_the_channel(channel: Any, queue: Declare, inbox: Inbox) -> None:
    first, second = queue(), queue()
    publish(channel, first, *numbered(5))
    publish(channel, second, *numbered(5))
    limit(inbox, 3, shared=True)
    inbox.consume(first)
    inbox.consume(second)
    taken = inbox.take(3)
    assert inbox.quiet()
    inbox.ack(taken[0])
    assert inbox.one()
    assert inbox.quiet()


def test_a_shared_limit_holds_for_consumers_that_exist(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    inbox.consume(name)
    limit(inbox, 2, shared=True)
    publish(channel, name, *numbered(5))
    assert bodies(inbox.take(2)) == [b"1", b"2"]
    assert inbox.quiet()


def test_raising_a_shared_limit_lets_more_through_at_once(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    limit(inbox, 1, shared=True)
    inbox.consume(name)
    publish(channel, name, *numbered(5))
    assert inbox.one().body == b"1"
    limit(inbox, 3, shared=True)
    assert bodies(inbox.take(2)) == [b"2", b"3"]
    assert inbox.quiet()


def test_lowering_a_shared_limit_waits_for_acks(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    limit(inbox, 3, shared=True)
    inbox.consume(name)
    publish(channel, name, *numbered(6))
    first, second, third = inbox.take(3)
    limit(inbox, 1, shared=True)
    inbox.ack(first, second)
    assert inbox.quiet()
    inbox.ack(third)
    assert inbox.one().body == b"4"
    assert inbox.quiet()


def test_taking_a_shared_limit_away_lets_everything_through(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    limit(inbox, 1, shared=True)
    inbox.consume(name)
    publish(channel, name, *numbered(5))
    inbox.one()
    limit(inbox, 0, shared=True)
    assert bodies(inbox.take(4)) == numbered(4, start=2)


def test_both_limits_hold_together(channel: Any, queue: Declare, inbox: Inbox) -> None:
    first, second = queue(), queue()
    publish(channel, first, *numbered(9))
    publish(channel, second, *numbered(9))
    limit(inbox, 4)
    limit(inbox, 6, shared=True)
    inbox.consume(first)
    assert len(inbox.take(4)) == 4
    assert inbox.quiet()
    inbox.consume(second)
    assert len(inbox.take(2)) == 2
    assert inbox.quiet()


def test_gets_do_not_count_for_a_shared_limit(channel: Any, queue: Declare, inbox: Inbox) -> None:
    name = queue()
    publish(channel, name, *numbered(5))
    limit(inbox, 1, shared=True)
    hold(inbox.channel, name, 3)
    inbox.consume(name)
    assert inbox.one().body == b"4"
    assert inbox.quiet()


def test_automatic_acks_do_not_count_for_a_shared_limit(channel: Any, queue: Declare, inbox: Inbox) -> None:
    free, bound = queue(), queue()
    publish(channel, free, *numbered(20))
    publish(channel, bound, *numbered(5))
    limit(inbox, 1, shared=True)
    inbox.consume(free, auto_ack=True)
    tag = inbox.consume(bound)
    taken = inbox.take(21)
    assert [delivery.body for delivery in taken if delivery.consumer == tag] == [b"1"]
    assert inbox.quiet()


def test_a_consumer_at_its_shared_limit_is_passed_over(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    full, free = Inbox(connection.channel()), Inbox(connection.channel())
    limit(full, 1, shared=True)
    full.consume(name)
    free.consume(name)
    publish(channel, name, *numbered(6))
    assert len(free.wait(5)) == 5
    assert len(full.take(1)) == 1
