"""Get, ack, nack and reject: what is settled, what comes back, where, and marked how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pika import spec

from .queue_support import (
    Inbox,
    bodies,
    contents,
    drain,
    fetch,
    get,
    hold,
    marks,
    numbered,
    publish,
    ready,
    refused,
    unknown_tag,
    wait_ready,
)
from .support import unique

Declare = Callable[..., str]



# get


def test_get_tells_how_many_messages_are_left(channel: Any, filled: str) -> None:
    counts = [channel.basic_get(filled, auto_ack=True)[0].message_count for _ in range(6)]
    assert counts == [5, 4, 3, 2, 1, 0]


def test_get_from_an_empty_queue_is_answered_empty(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    assert raw.call(1, spec.Basic.Get(queue=name), spec.Basic.GetEmpty).cluster_id == ""


def test_a_message_got_with_automatic_ack_is_gone(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    assert get(other, filled, auto_ack=True)
    other.close()
    assert contents(channel, filled) == numbered(5, start=2)


def test_a_message_got_without_ack_comes_back_when_the_channel_closes(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    hold(other, filled, 1)
    other.close()
    wait_ready(channel, filled, 6)
    assert marks(drain(channel, filled))[:2] == [(b"1", True), (b"2", False)]


def test_a_get_names_exchange_key_and_properties(channel: Any, queue: Declare) -> None:
    name, key = queue(), unique("key")
    channel.queue_bind(name, "amq.direct", key)
    publish(channel, key, b"body", exchange="amq.direct", app_id="app")
    got = fetch(channel, name)
    assert (got.exchange, got.key, got.body, got.properties.app_id) == ("amq.direct", key, b"body", "app")


def test_gets_and_deliveries_share_the_tags_of_a_channel(channel: Any, filled: str, queue: Declare) -> None:
    other = queue()
    (first,) = hold(channel, filled, 1)
    inbox = Inbox(channel)
    inbox.consume(other)
    publish(channel, other)
    second = inbox.one()
    (third,) = hold(channel, filled, 1)
    assert (first.tag, second.tag, third.tag) == (1, 2, 3)


# ack


def test_an_acknowledged_message_is_gone(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    for message in hold(other, filled, 3):
        other.basic_ack(message.tag)
    other.close()
    assert contents(channel, filled) == numbered(3, start=4)


def test_one_ack_settles_one_message(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    held = hold(other, filled, 3)
    other.basic_ack(held[1].tag)
    other.close()
    wait_ready(channel, filled, 5)
    assert marks(drain(channel, filled))[:3] == [(b"1", True), (b"3", True), (b"4", False)]


def test_a_multiple_ack_settles_everything_up_to_its_tag(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    held = hold(other, filled, 5)
    other.basic_ack(held[2].tag, multiple=True)
    other.close()
    wait_ready(channel, filled, 3)
    assert contents(channel, filled) == numbered(3, start=4)


def test_a_multiple_ack_reaches_across_queues(channel: Any, queue: Declare, connection: Any) -> None:
    first, second, other = queue(), queue(), connection.channel()
    publish(channel, first, b"1")
    publish(channel, second, b"2")
    hold(other, first, 1)
    other.basic_ack(hold(other, second, 1)[0].tag, multiple=True)
    other.close()
    connection.sleep(0.1)
    assert (ready(channel, first), ready(channel, second)) == (0, 0)


def test_a_multiple_ack_of_zero_settles_everything(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    hold(other, filled, 5)
    other.basic_ack(0, multiple=True)
    other.close()
    assert contents(channel, filled) == [b"6"]


@pytest.mark.parametrize("how", ["ack", "nack"])
def test_a_multiple_zero_with_nothing_outstanding_is_fine(channel: Any, how: str) -> None:
    getattr(channel, f"basic_{how}")(0, multiple=True)
    channel.basic_qos(prefetch_count=0)
    assert channel.is_open


def test_acks_may_come_in_any_order(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    held = hold(other, filled, 6)
    for index in (4, 0, 5, 2, 1, 3):
        other.basic_ack(held[index].tag)
    other.close()
    assert get(channel, filled) is None


@pytest.mark.parametrize(
    ("act", "tag"),
    [
        pytest.param(lambda ch: ch.basic_ack(7), 7, id="ack"),
        pytest.param(lambda ch: ch.basic_ack(0), 0, id="ack 0"),
        pytest.param(lambda ch: ch.basic_ack(7, multiple=True), 7, id="ack multiple"),
        pytest.param(lambda ch: ch.basic_ack(1 << 62), 1 << 62, id="ack large"),
        pytest.param(lambda ch: ch.basic_nack(7), 7, id="nack"),
        pytest.param(lambda ch: ch.basic_nack(0), 0, id="nack 0"),
        pytest.param(lambda ch: ch.basic_nack(7, multiple=True), 7, id="nack multiple"),
        pytest.param(lambda ch: ch.basic_reject(7), 7, id="reject"),
        pytest.param(lambda ch: ch.basic_reject(0), 0, id="reject 0"),
    ],
)
def test_an_unknown_tag_closes_the_channel(channel: Any, act: Callable[[Any], None], tag: int) -> None:
    with refused(channel, 406, unknown_tag(tag)):
        act(channel)


@pytest.mark.parametrize("first", ["ack", "nack", "reject"])
@pytest.mark.parametrize("second", ["ack", "nack", "reject"])
def test_a_message_is_settled_once(channel: Any, filled: str, first: str, second: str) -> None:
    (held,) = hold(channel, filled, 1)
    getattr(channel, f"basic_{first}")(held.tag)
    with refused(channel, 406, unknown_tag(held.tag)):
        getattr(channel, f"basic_{second}")(held.tag)


def test_a_single_ack_after_a_multiple_one_is_unknown(channel: Any, filled: str) -> None:
    hold(channel, filled, 3)
    channel.basic_ack(2, multiple=True)
    with refused(channel, 406, unknown_tag(1)):
        channel.basic_ack(1)


def test_a_multiple_ack_needs_an_outstanding_tag(channel: Any, filled: str) -> None:
    hold(channel, filled, 3)
    channel.basic_ack(2)
    with refused(channel, 406, unknown_tag(2)):
        channel.basic_ack(2, multiple=True)


def test_the_tag_of_an_automatic_ack_is_unknown(channel: Any, filled: str) -> None:
    got = get(channel, filled, auto_ack=True)
    assert got is not None
    with refused(channel, 406, unknown_tag(got.tag)):
        channel.basic_ack(got.tag)


def test_the_tag_of_another_channel_is_unknown(channel: Any, filled: str, connection: Any) -> None:
    (held,) = hold(channel, filled, 1)
    other = connection.channel()
    with refused(other, 406, unknown_tag(held.tag)):
        other.basic_ack(held.tag)


def test_the_channel_closed_by_a_bad_ack_gives_its_messages_back(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    hold(other, filled, 4)
    with refused(other, 406, unknown_tag(99)):
        other.basic_ack(99)
    wait_ready(channel, filled, 6)
    assert contents(channel, filled) == numbered(6)


# nack and reject


@pytest.mark.parametrize("how", ["nack", "reject"])
def test_a_requeued_message_comes_back_in_its_place(channel: Any, filled: str, how: str) -> None:
    held = hold(channel, filled, 3)
    getattr(channel, f"basic_{how}")(held[1].tag, requeue=True)
    wait_ready(channel, filled, 4)
    assert marks(drain(channel, filled)) == [(b"2", True), (b"4", False), (b"5", False), (b"6", False)]


@pytest.mark.parametrize("how", ["nack", "reject"])
def test_a_message_refused_for_good_is_gone(channel: Any, filled: str, how: str) -> None:
    held = hold(channel, filled, 2)
    getattr(channel, f"basic_{how}")(held[0].tag, requeue=False)
    getattr(channel, f"basic_{how}")(held[1].tag, requeue=True)
    wait_ready(channel, filled, 5)
    assert contents(channel, filled) == numbered(5, start=2)


def test_a_multiple_nack_requeues_everything_up_to_its_tag(channel: Any, filled: str) -> None:
    held = hold(channel, filled, 5)
    channel.basic_nack(held[2].tag, multiple=True, requeue=True)
    wait_ready(channel, filled, 4)
    assert marks(drain(channel, filled)) == [(b"1", True), (b"2", True), (b"3", True), (b"6", False)]


def test_a_multiple_nack_of_zero_requeues_everything(channel: Any, filled: str) -> None:
    hold(channel, filled, 5)
    channel.basic_nack(0, multiple=True, requeue=True)
    wait_ready(channel, filled, 6)
    assert contents(channel, filled) == numbered(6)


def test_a_multiple_nack_may_drop_everything(channel: Any, filled: str) -> None:
    hold(channel, filled, 5)
    channel.basic_nack(0, multiple=True, requeue=False)
    assert contents(channel, filled) == [b"6"]


def test_messages_requeued_in_any_order_come_back_in_the_old_order(channel: Any, filled: str) -> None:
    held = hold(channel, filled, 6)
    for index in (3, 0, 5, 1, 4, 2):
        channel.basic_reject(held[index].tag, requeue=True)
    wait_ready(channel, filled, 6)
    assert marks(drain(channel, filled)) == [(body, True) for body in numbered(6)]


def test_a_requeued_message_comes_before_younger_ones_that_were_never_delivered(channel: Any, filled: str) -> None:
    held = hold(channel, filled, 6)
    publish(channel, filled, b"7")
    channel.basic_reject(held[5].tag, requeue=True)
    channel.basic_reject(held[0].tag, requeue=True)
    wait_ready(channel, filled, 3)
    assert marks(drain(channel, filled)) == [(b"1", True), (b"6", True), (b"7", False)]


def test_a_message_stays_marked_as_redelivered(channel: Any, filled: str) -> None:
    for redelivered in (False, True, True):
        (held,) = hold(channel, filled, 1)
        assert (held.body, held.redelivered) == (b"1", redelivered)
        channel.basic_reject(held.tag, requeue=True)
        wait_ready(channel, filled, 6)


def test_a_requeued_message_is_delivered_again_to_the_only_consumer(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    inbox.consume(name)
    publish(channel, name, b"1")
    first = inbox.one()
    channel.basic_nack(first.tag, requeue=True)
    second = inbox.one()
    assert (second.body, second.redelivered, second.tag) == (b"1", True, first.tag + 1)


def test_a_requeued_message_may_go_to_the_next_consumer(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    tags = {inbox.consume(name), inbox.consume(name)}
    publish(channel, name, b"1")
    first = inbox.one()
    channel.basic_nack(first.tag, requeue=True)
    second = inbox.one()
    assert {first.consumer, second.consumer} == tags


# many


def test_a_thousand_messages_requeued_by_turns_keep_their_order(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    publish(channel, name, *numbered(1000))
    inbox = Inbox(connection.channel())
    inbox.consume(name)
    deliveries = inbox.wait(1000)
    for delivery in deliveries[::2]:
        inbox.channel.basic_ack(delivery.tag)
    inbox.channel.close()
    wait_ready(channel, name, 500)
    assert bodies(drain(channel, name)) == numbered(1000)[1::2]
