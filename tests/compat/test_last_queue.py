"""An empty name stands for the queue that the channel declared last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    contents,
    fetch,
    numbered,
    publish,
    refused,
)

Declare = Callable[..., str]


# the last declared queue


def test_an_empty_name_means_the_last_declared_queue(channel: Any, queue: Declare) -> None:
    queue()
    last = queue()
    channel.queue_bind("", "amq.direct", last)
    publish(channel, last, *numbered(4))
    publish(channel, last, b"5", exchange="amq.direct")
    assert fetch(channel, "").body == b"1"
    assert channel.queue_purge("").method.message_count == 4
    channel.queue_unbind("", "amq.direct", last)
    assert channel.queue_delete("").method.message_count == 0


def test_consume_with_an_empty_name_uses_the_last_declared_queue(channel: Any, queue: Declare) -> None:
    last = queue()
    inbox = Inbox(channel)
    inbox.consume("", auto_ack=True)
    publish(channel, last, b"found")
    assert inbox.one().body == b"found"


def test_an_empty_routing_key_with_an_empty_name_means_the_last_declared_queue(channel: Any, queue: Declare) -> None:
    last = queue()
    channel.queue_bind("", "amq.direct", "")
    publish(channel, last, b"bound by its name", exchange="amq.direct")
    assert contents(channel, last) == [b"bound by its name"]


def test_an_empty_routing_key_means_the_last_declared_queue_when_unbinding_too(channel: Any, queue: Declare) -> None:
    last = queue()
    channel.queue_bind("", "amq.direct", "")
    channel.queue_unbind("", "amq.direct", "")
    publish(channel, last, b"not bound any more", exchange="amq.direct")
    assert contents(channel, last) == []


def test_a_passive_declare_also_sets_the_last_queue(channel: Any, queue: Declare) -> None:
    first = queue()
    queue()
    channel.queue_declare(first, passive=True)
    publish(channel, first, b"1")
    assert channel.queue_purge("").method.message_count == 1


def test_a_server_named_queue_is_the_last_declared_one(channel: Any, queue: Declare) -> None:
    name = queue("", exclusive=True)
    publish(channel, name, b"1", b"2")
    assert channel.queue_purge("").method.message_count == 2


def test_the_last_queue_belongs_to_the_channel(channel: Any, queue: Declare, connection: Any) -> None:
    queue()
    other = connection.channel()
    with refused(other, 404, "NOT_FOUND - no previously declared queue"):
        other.queue_purge("")


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda ch: ch.basic_consume("", print), id="consume"),
        pytest.param(lambda ch: ch.basic_get(""), id="get"),
        pytest.param(lambda ch: ch.queue_purge(""), id="purge"),
        pytest.param(lambda ch: ch.queue_delete(""), id="delete"),
        pytest.param(lambda ch: ch.queue_bind("", "amq.direct", "k"), id="bind"),
        pytest.param(lambda ch: ch.queue_unbind("", "amq.direct", "k"), id="unbind"),
    ],
)
def test_an_empty_name_without_a_declared_queue_is_not_found(channel: Any, act: Callable[[Any], Any]) -> None:
    with refused(channel, 404, "NOT_FOUND - no previously declared queue"):
        act(channel)


@pytest.mark.parametrize("declared", [True, False])
def test_a_passive_declare_never_means_the_last_queue(channel: Any, queue: Declare, vhost: str, declared: bool) -> None:
    if declared:
        queue()
    with refused(channel, 404, f"NOT_FOUND - no queue '' in vhost '{vhost}'"):
        channel.queue_declare("", passive=True)


def test_the_last_queue_stays_the_last_after_its_deletion(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue()
    channel.queue_delete(name)
    with refused(channel, 404, f"NOT_FOUND - no queue '{name}' in vhost '{vhost}'"):
        channel.queue_purge("")
