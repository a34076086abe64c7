"""Purging and deleting queues, and what a missing queue answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    contents,
    exists,
    hold,
    numbered,
    publish,
    refused,
    wait_ready,
)

Declare = Callable[..., str]


# a missing queue


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda ch: ch.basic_consume("nowhere", print), id="consume"),
        pytest.param(lambda ch: ch.basic_get("nowhere"), id="get"),
        pytest.param(lambda ch: ch.queue_purge("nowhere"), id="purge"),
        pytest.param(lambda ch: ch.queue_bind("nowhere", "amq.direct", "k"), id="bind"),
    ],
)
def test_a_missing_queue_is_not_found(channel: Any, vhost: str, act: Callable[[Any], Any]) -> None:
    with refused(channel, 404, f"NOT_FOUND - no queue 'nowhere' in vhost '{vhost}'"):
        act(channel)


@pytest.mark.parametrize("condition", [{}, {"if_unused": True}, {"if_empty": True}], ids=str)
def test_deleting_a_missing_queue_is_fine(channel: Any, condition: dict[str, bool]) -> None:
    assert channel.queue_delete("nowhere", **condition).method.message_count == 0


def test_unbinding_a_missing_queue_is_fine(channel: Any) -> None:
    channel.queue_unbind("nowhere", "amq.direct", "k")
    assert channel.is_open


# purge and delete


def test_purge_answers_the_number_of_ready_messages(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name, *numbered(7))
    assert channel.queue_purge(name).method.message_count == 7
    assert channel.queue_purge(name).method.message_count == 0


def test_purge_leaves_unacknowledged_messages_alone(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name, *numbered(5))
    held = hold(channel, name, 2)
    assert channel.queue_purge(name).method.message_count == 3
    for message in held:
        channel.basic_reject(message.tag, requeue=True)
    wait_ready(channel, name, 2)
    assert contents(channel, name) == [b"1", b"2"]


def test_delete_answers_the_number_of_ready_messages(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name, *numbered(5))
    hold(channel, name, 2)
    assert channel.queue_delete(name).method.message_count == 3


def test_a_deleted_queue_is_gone_with_its_bindings(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    channel.queue_bind(name, "amq.direct", name)
    channel.queue_delete(name)
    assert not exists(connection, name)
    queue(name)
    publish(channel, name, b"no longer bound", exchange="amq.direct")
    assert contents(channel, name) == []


def test_a_queue_declared_again_after_delete_is_empty(channel: Any, queue: Declare) -> None:
    name = queue(durable=True)
    publish(channel, name, *numbered(3), delivery_mode=2)
    channel.queue_delete(name)
    assert channel.queue_declare(name, durable=True).method.message_count == 0


def test_an_ack_after_the_queue_was_deleted_is_fine(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name)
    (held,) = hold(channel, name, 1)
    channel.queue_delete(name)
    channel.basic_ack(held.tag)
    channel.basic_qos(prefetch_count=0)
    assert channel.is_open


def test_delete_if_empty_refuses_a_queue_with_messages(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue()
    publish(channel, name)
    with refused(channel, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '{vhost}' not empty"):
        channel.queue_delete(name, if_empty=True)


def test_delete_if_empty_counts_only_ready_messages(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    publish(channel, name)
    hold(channel, name, 1)
    channel.queue_delete(name, if_empty=True)
    assert not exists(connection, name)


def test_delete_if_unused_refuses_a_queue_with_consumers(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue()
    Inbox(channel).consume(name)
    with refused(channel, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '{vhost}' in use"):
        channel.queue_delete(name, if_unused=True)


def test_not_empty_is_said_before_in_use(channel: Any, queue: Declare, vhost: str, connection: Any) -> None:
    name = queue()
    other = connection.channel()
    other.basic_qos(prefetch_count=1)
    inbox = Inbox(other)
    inbox.consume(name)
    publish(channel, name, *numbered(3))
    inbox.wait(1)
    with refused(channel, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '{vhost}' not empty"):
        channel.queue_delete(name, if_unused=True, if_empty=True)


def test_delete_with_both_conditions_met_deletes(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    channel.queue_delete(name, if_unused=True, if_empty=True)
    assert not exists(connection, name)


def test_a_queue_with_consumers_can_be_deleted(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    Inbox(channel).consume(name)
    channel.queue_delete(name)
    assert not exists(connection, name)
