"""What unacknowledged deliveries become when channels and connections end, and by recover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika import spec

from .queue_support import (
    Inbox,
    contents,
    drain,
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



# channels and connections that end


def test_a_closed_channel_gives_its_messages_back_in_order(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    inbox = Inbox(other)
    inbox.consume(filled)
    inbox.wait(6)
    publish(channel, filled, b"7")
    inbox.wait(7)
    other.close()
    wait_ready(channel, filled, 7)
    assert marks(drain(channel, filled)) == [(body, True) for body in numbered(7)]


def test_a_dropped_connection_gives_its_messages_back_in_order(channel: Any, filled: str, raw_connect: Any) -> None:
    client = raw_connect()
    client.open_channel(1)
    client.call(1, spec.Basic.Consume(queue=filled, arguments={}), spec.Basic.ConsumeOk)
    for _ in range(6):
        client.expect_message(spec.Basic.Deliver)
    client.close()
    wait_ready(channel, filled, 6)
    assert contents(channel, filled) == numbered(6)


def test_the_messages_of_two_closed_channels_are_in_order_again(channel: Any, filled: str, connection: Any) -> None:
    first, second = connection.channel(), connection.channel()
    for index in range(6):
        hold((first, second)[index % 2], filled, 1)
    second.close()
    first.close()
    wait_ready(channel, filled, 6)
    assert contents(channel, filled) == numbered(6)


def test_acks_sent_before_a_close_count(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    other.basic_ack(hold(other, filled, 4)[-1].tag, multiple=True)
    hold(other, filled, 1)
    other.close()
    wait_ready(channel, filled, 2)
    assert contents(channel, filled) == [b"5", b"6"]


def test_tags_start_anew_on_a_new_channel(channel: Any, filled: str, connection: Any) -> None:
    hold(channel, filled, 3)
    assert hold(connection.channel(), filled, 1)[0].tag == 1


# recover


def test_recover_gives_every_unacknowledged_message_back(channel: Any, filled: str) -> None:
    hold(channel, filled, 4)
    channel.basic_recover(requeue=True)
    wait_ready(channel, filled, 6)
    expected = [(body, True) for body in numbered(4)] + [(b"5", False), (b"6", False)]
    assert marks(drain(channel, filled)) == expected


def test_recover_makes_the_old_tags_unknown(channel: Any, filled: str) -> None:
    (held,) = hold(channel, filled, 1)
    channel.basic_recover(requeue=True)
    with refused(channel, 406, unknown_tag(held.tag)):
        channel.basic_ack(held.tag)


def test_recover_delivers_to_the_consumer_again(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    inbox.consume(name)
    publish(channel, name, *numbered(3))
    inbox.take(3)
    channel.basic_recover(requeue=True)
    again = inbox.take(3)
    assert marks(again) == [(body, True) for body in numbered(3)]
    assert [delivery.tag for delivery in again] == [4, 5, 6]


def test_recover_leaves_other_channels_alone(channel: Any, filled: str, connection: Any) -> None:
    other = connection.channel()
    hold(other, filled, 2)
    channel.basic_recover(requeue=True)
    assert ready(channel, filled) == 4


def test_recover_with_nothing_outstanding_is_answered(raw: Any) -> None:
    raw.call(1, spec.Basic.Recover(requeue=True), spec.Basic.RecoverOk)


def test_recover_to_the_same_consumer_is_not_implemented(raw: Any) -> None:
    raw.send_method(1, spec.Basic.Recover(requeue=False))
    raw.expect_connection_close(540, "NOT_IMPLEMENTED - requeue=false", spec.Basic.Recover)


def test_recover_async_works_and_is_not_answered(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    raw.publish(1, "", name, b"1")
    raw.call(1, spec.Basic.Consume(queue=name, arguments={}), spec.Basic.ConsumeOk)
    assert not raw.expect_message(spec.Basic.Deliver).method.redelivered
    raw.send_method(1, spec.Basic.RecoverAsync(requeue=True))
    again = raw.expect_message(spec.Basic.Deliver)
    assert (again.method.redelivered, again.method.delivery_tag) == (True, 2)


def test_recover_async_to_the_same_consumer_is_not_implemented(raw: Any) -> None:
    raw.send_method(1, spec.Basic.RecoverAsync(requeue=False))
    raw.expect_connection_close(540, "NOT_IMPLEMENTED - requeue=false", spec.Basic.RecoverAsync)
