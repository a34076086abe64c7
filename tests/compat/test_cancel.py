"""Consumers that are cancelled, by their client or by the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika import spec

from .policy_support import Policies
from .queue_support import (
    Inbox,
    bodies,
    consumers,
    contents,
    numbered,
    publish,
    ready,
    wait_consumers,
    wait_ready,
)
from .rawclient import CLIENT_PROPERTIES, Frame
from .support import unique

Declare = Callable[..., str]


# cancelling


def test_a_cancelled_consumer_receives_nothing_more(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    inbox = Inbox(connection.channel())
    tag = inbox.consume(name)
    publish(channel, name, b"1")
    inbox.wait(1)
    inbox.channel.basic_cancel(tag)
    assert consumers(channel, name) == 0
    publish(channel, name, b"2")
    wait_ready(channel, name, 1)
    assert bodies(inbox.deliveries) == [b"1"]


def test_a_cancelled_consumer_may_still_acknowledge(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    tag = inbox.consume(name)
    publish(channel, name, *numbered(2))
    first, second = inbox.wait(2)
    channel.basic_cancel(tag)
    channel.basic_ack(first.tag)
    channel.basic_reject(second.tag, requeue=True)
    wait_ready(channel, name, 1)
    assert contents(channel, name) == [b"2"]


def test_cancel_does_not_requeue(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    inbox = Inbox(channel)
    tag = inbox.consume(name)
    publish(channel, name)
    inbox.wait(1)
    channel.basic_cancel(tag)
    connection.sleep(0.2)
    assert ready(channel, name) == 0


def test_cancelling_an_unknown_consumer_is_answered(raw: Any) -> None:
    answer = raw.call(1, spec.Basic.Cancel(consumer_tag="nobody"), spec.Basic.CancelOk)
    assert answer.consumer_tag == "nobody"


def test_cancel_without_wait_is_not_answered(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    raw.call(1, spec.Basic.Consume(queue=name, consumer_tag="c", arguments={}), spec.Basic.ConsumeOk)
    raw.send_method(1, spec.Basic.Cancel(consumer_tag="c", nowait=True))
    assert raw.alive()
    answer = raw.call(1, spec.Queue.Declare(queue=name, passive=True, arguments={}), spec.Queue.DeclareOk)
    assert answer.consumer_count == 0


def test_a_cancel_ends_the_deliveries(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    raw.call(1, spec.Basic.Consume(queue=name, consumer_tag="c", no_ack=True, arguments={}), spec.Basic.ConsumeOk)
    for body in numbered(50):
        raw.publish(1, "", name, body)
    raw.send_method(1, spec.Basic.Cancel(consumer_tag="c"))
    while not isinstance((method := raw.read()[1]), spec.Basic.CancelOk):
        assert isinstance(method, (spec.Basic.Deliver, Frame))
    assert raw.silent()


# being cancelled


def test_deleting_the_queue_cancels_its_consumers(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    inbox = Inbox(connection.channel())
    first, second = inbox.consume(name), inbox.consume(name)
    channel.queue_delete(name)
    inbox.wait_cancelled(first, second)
    assert inbox.channel.is_open


def test_the_channel_that_deletes_the_queue_is_told_too(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, arguments={}), spec.Queue.DeclareOk)
    raw.call(1, spec.Basic.Consume(queue=name, consumer_tag="c", arguments={}), spec.Basic.ConsumeOk)
    raw.send_method(1, spec.Queue.Delete(queue=name))
    kinds = {type(raw.read()[1]), type(raw.read()[1])}
    assert kinds == {spec.Basic.Cancel, spec.Queue.DeleteOk}
    assert raw.alive()


def test_a_notification_of_cancel_needs_no_answer(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, arguments={}), spec.Queue.DeclareOk)
    raw.open_channel(2)
    raw.call(2, spec.Basic.Consume(queue=name, consumer_tag="c", arguments={}), spec.Basic.ConsumeOk)
    raw.send_method(1, spec.Queue.Delete(queue=name))
    told = dict([raw.read(), raw.read()])
    cancel = told[2]
    assert isinstance(told[1], spec.Queue.DeleteOk)
    assert (cancel.consumer_tag, cancel.nowait) == ("c", True)
    assert raw.alive(2)


def test_a_client_without_the_capability_is_not_told(raw_connect: Any) -> None:
    capabilities = CLIENT_PROPERTIES["capabilities"] | {"consumer_cancel_notify": False}
    client = raw_connect(properties=CLIENT_PROPERTIES | {"capabilities": capabilities})
    client.open_channel(1)
    client.open_channel(2)
    name = unique("q")
    client.call(1, spec.Queue.Declare(queue=name, arguments={}), spec.Queue.DeclareOk)
    client.call(2, spec.Basic.Consume(queue=name, consumer_tag="c", arguments={}), spec.Basic.ConsumeOk)
    client.call(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)
    assert client.silent()
    assert client.alive(2)


def test_an_expiring_queue_takes_no_consumer_away(channel: Any, queue: Declare, policies: Policies) -> None:
    """It begins to expire when the consumer is there already."""
    name = queue()
    inbox = Inbox(channel)
    inbox.consume(name)
    policies.apply(name, {"expires": 100})
    assert inbox.quiet(0.4)
    assert inbox.cancelled == []


def test_a_consumer_of_a_deleted_queue_does_not_come_back_with_it(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    inbox = Inbox(connection.channel())
    tag = inbox.consume(name)
    channel.queue_delete(name)
    inbox.wait_cancelled(tag)
    queue(name)
    publish(channel, name, b"1")
    wait_ready(channel, name, 1)
    assert inbox.quiet(0.1)


def test_closing_a_channel_takes_its_consumers_away(channel: Any, queue: Declare, connection: Any) -> None:
    name, other = queue(), connection.channel()
    Inbox(other).consume(name)
    wait_consumers(channel, name, 1)
    other.close()
    wait_consumers(channel, name, 0)
