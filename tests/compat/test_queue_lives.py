"""Exclusive queues belong to their connection; auto-delete queues go with their last consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .queue_support import (
    Inbox,
    contents,
    exists,
    fetch,
    locked,
    numbered,
    publish,
    refused,
    wait_gone,
)
from .support import Broker, eventually, quote, unique

Declare = Callable[..., str]
Connect = Callable[..., Any]


# exclusive


OTHERS = [
    pytest.param(lambda ch, name: ch.queue_declare(name, exclusive=True), id="declare"),
    pytest.param(lambda ch, name: ch.queue_declare(name), id="declare shared"),
    pytest.param(lambda ch, name: ch.queue_declare(name, passive=True), id="declare passive"),
    pytest.param(lambda ch, name: ch.basic_consume(name, print), id="consume"),
    pytest.param(lambda ch, name: ch.basic_get(name), id="get"),
    pytest.param(lambda ch, name: ch.queue_purge(name), id="purge"),
    pytest.param(lambda ch, name: ch.queue_delete(name), id="delete"),
    pytest.param(lambda ch, name: ch.queue_bind(name, "amq.direct", "k"), id="bind"),
]


@pytest.mark.parametrize("act", OTHERS)
def test_an_exclusive_queue_is_locked_for_other_connections(
    queue: Declare, connect: Connect, vhost: str, act: Callable[[Any, str], Any]
) -> None:
    name = queue(exclusive=True)
    other = connect().channel()
    with refused(other, 405, locked(name, vhost)):
        act(other, name)


def test_an_exclusive_queue_is_not_unbound_by_other_connections(
    channel: Any, queue: Declare, connect: Connect, vhost: str
) -> None:
    name = queue(exclusive=True)
    channel.queue_bind(name, "amq.direct", name)
    other = connect().channel()
    other.queue_unbind(name, "amq.direct", "never bound")
    with refused(other, 405, locked(name, vhost)):
        other.queue_unbind(name, "amq.direct", name)
    publish(channel, name, b"still bound", exchange="amq.direct")
    assert fetch(channel, name).body == b"still bound"


def test_an_exclusive_queue_is_never_durable(channel: Any, queue: Declare, broker: Broker, vhost: str) -> None:
    name = queue(exclusive=True, durable=True)
    for durable in (True, False):
        channel.queue_declare(name, exclusive=True, durable=durable)
    shown = eventually(lambda: broker.api("GET", f"/api/queues/{quote(vhost)}/{name}"))
    assert (shown["durable"], shown["exclusive"]) == (False, True)


def test_anyone_may_publish_to_an_exclusive_queue(channel: Any, queue: Declare, connect: Connect) -> None:
    name = queue(exclusive=True)
    publish(connect().channel(), name, b"from outside")
    assert fetch(channel, name).body == b"from outside"


def test_other_channels_of_the_owner_may_use_an_exclusive_queue(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(exclusive=True)
    publish(channel, name, b"1")
    assert contents(connection.channel(), name) == [b"1"]


def test_an_exclusive_queue_outlives_its_channel(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(exclusive=True)
    channel.close()
    assert exists(connection, name)


@pytest.mark.parametrize("durable", [True, False])
def test_an_exclusive_queue_dies_with_its_connection(connect: Connect, connection: Any, durable: bool) -> None:
    owner = connect()
    name = unique("q")
    owner.channel().queue_declare(name, exclusive=True, durable=durable)
    owner.close()
    wait_gone(connection, name)


def test_an_exclusive_queue_dies_with_a_dropped_connection(raw_connect: Any, connection: Any) -> None:
    owner, name = raw_connect(), unique("q")
    owner.open_channel(1)
    owner.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    owner.close()
    wait_gone_or_locked(connection, name)


def wait_gone_or_locked(connection: Any, name: str) -> None:
    def gone() -> bool:
        try:
            return not exists(connection, name)
        except pika.exceptions.ChannelClosedByBroker:
            return False

    eventually(gone)


def test_the_name_of_a_dead_exclusive_queue_is_free_again(connect: Connect, channel: Any, queue: Declare) -> None:
    owner, name = connect(), unique("q")
    owner.channel().queue_declare(name, exclusive=True)
    owner.close()
    assert queue(name) == name


# auto-delete


def test_an_auto_delete_queue_goes_when_its_last_consumer_is_cancelled(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(auto_delete=True)
    inbox = Inbox(channel)
    first, second = inbox.consume(name), inbox.consume(name)
    channel.basic_cancel(first)
    assert exists(connection, name)
    channel.basic_cancel(second)
    wait_gone(connection, name)


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(auto_delete=True)
    publish(channel, name)
    assert contents(channel, name) == [b"m"]
    assert exists(connection, name)


@pytest.mark.parametrize("durable", [True, False])
def test_an_auto_delete_queue_goes_when_the_channel_of_its_consumer_closes(
    queue: Declare, connection: Any, durable: bool
) -> None:
    name = queue(auto_delete=True, durable=durable)
    other = connection.channel()
    Inbox(other).consume(name)
    other.close()
    wait_gone(connection, name)


def test_an_auto_delete_queue_goes_when_the_connection_of_its_consumer_closes(
    queue: Declare, connection: Any, connect: Connect, channel: Any
) -> None:
    name = queue(auto_delete=True)
    other = connect()
    Inbox(other.channel()).consume(name)
    other.close()
    wait_gone(connection, name)


def test_an_auto_delete_queue_goes_with_the_messages_it_holds(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(auto_delete=True)
    inbox = Inbox(connection.channel())
    tag = inbox.consume(name)
    publish(channel, name, *numbered(3))
    inbox.wait(3)
    inbox.channel.basic_cancel(tag)
    wait_gone(connection, name)
