"""Single active consumer: one at a time, the next in line takes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    bodies,
    contents,
    exists,
    fetch,
    numbered,
    publish,
    ready,
    refused,
    wait_consumers,
    wait_gone,
    wait_ready,
)
from .support import eventually

Declare = Callable[..., str]
Connect = Callable[..., Any]
SINGLE = {"x-single-active-consumer": True}


@pytest.fixture
def inboxes(connection: Any) -> list[Inbox]:
    """Three, each on a channel of its own."""
    return [Inbox(connection.channel()) for _ in range(3)]


def test_only_the_first_consumer_is_served(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    for inbox in inboxes:
        inbox.consume(name)
    publish(channel, name, *numbered(6))
    assert bodies(inboxes[0].wait(6)) == numbered(6)
    assert all(inbox.quiet(0.1) for inbox in inboxes[1:])


def test_waiting_consumers_count_as_consumers(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    for inbox in inboxes:
        inbox.consume(name)
    wait_consumers(channel, name, 3)


def test_the_next_in_line_takes_over_after_a_cancel(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    tags = [inbox.consume(name, auto_ack=True) for inbox in inboxes]
    for number, inbox in enumerate(inboxes):
        publish(channel, name, str(number).encode())
        assert inbox.one().body == str(number).encode()
        inbox.channel.basic_cancel(tags[number])
    publish(channel, name, b"left")
    wait_ready(channel, name, 1)


def test_the_next_in_line_takes_over_after_a_closed_channel(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    first, second, _ = inboxes
    for inbox in inboxes:
        inbox.consume(name)
    publish(channel, name, *numbered(4))
    first.take(4)
    first.channel.close()
    again = second.take(4)
    assert [(delivery.body, delivery.redelivered) for delivery in again] == [(body, True) for body in numbered(4)]


def test_the_next_in_line_takes_over_after_a_closed_connection(
    channel: Any, queue: Declare, connect: Connect, inboxes: list[Inbox]
) -> None:
    name = queue(arguments=SINGLE)
    active, waiting = connect(), inboxes[0]
    Inbox(active.channel()).consume(name)
    waiting.consume(name)
    active.close()
    publish(channel, name, b"1")
    assert waiting.one().body == b"1"


def test_a_waiting_consumer_that_leaves_changes_nothing(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    active, leaver, third = inboxes
    active.consume(name)
    tag = leaver.consume(name)
    third.consume(name)
    leaver.channel.basic_cancel(tag)
    publish(channel, name, b"1")
    assert active.one().body == b"1"
    active.channel.close()
    assert third.one().body == b"1"


def test_a_consumer_that_returns_goes_to_the_end_of_the_line(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    first, second, _ = inboxes
    tag = first.consume(name, auto_ack=True)
    second.consume(name, auto_ack=True)
    first.channel.basic_cancel(tag)
    first.consume(name, auto_ack=True)
    publish(channel, name, b"1")
    assert second.one().body == b"1"


def test_a_full_active_consumer_is_not_relieved(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    active, waiting, _ = inboxes
    active.channel.basic_qos(prefetch_count=2)
    active.consume(name)
    waiting.consume(name)
    publish(channel, name, *numbered(5))
    assert bodies(active.take(2)) == [b"1", b"2"]
    assert waiting.quiet()
    assert ready(channel, name) == 3


def test_a_message_held_by_a_cancelled_consumer_stays_with_it(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    first, second, _ = inboxes
    tag = first.consume(name)
    second.consume(name)
    publish(channel, name, b"1")
    held = first.one()
    first.channel.basic_cancel(tag)
    publish(channel, name, b"2")
    assert second.one().body == b"2"
    first.channel.basic_reject(held.tag, requeue=True)
    again = second.one()
    assert (again.body, again.redelivered) == (b"1", True)


def test_an_exclusive_consumer_is_refused(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue(arguments=SINGLE)
    with refused(channel, 403, f"ACCESS_REFUSED - queue '{name}' in vhost '{vhost}' in exclusive use"):
        channel.basic_consume(name, print, exclusive=True)


def test_an_exclusive_queue_may_have_a_single_active_consumer(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(exclusive=True, arguments=SINGLE)
    for inbox in inboxes:
        inbox.consume(name)
    publish(channel, name, *numbered(3))
    assert bodies(inboxes[0].wait(3)) == numbered(3)


def test_the_argument_false_changes_nothing(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments={"x-single-active-consumer": False})
    for inbox in inboxes:
        inbox.consume(name)
    publish(channel, name, *numbered(6))
    assert [bodies(inbox.wait(2)) for inbox in inboxes] == [[b"1", b"4"], [b"2", b"5"], [b"3", b"6"]]


def test_two_consumers_of_one_channel_wait_in_line_too(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    inbox = inboxes[0]
    first, second = inbox.consume(name, auto_ack=True), inbox.consume(name, auto_ack=True)
    publish(channel, name, *numbered(2))
    assert {delivery.consumer for delivery in inbox.take(2)} == {first}
    inbox.channel.basic_cancel(first)
    publish(channel, name, b"3")
    assert inbox.one().consumer == second


def test_a_get_is_served_beside_the_active_consumer(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    inboxes[0].channel.basic_qos(prefetch_count=1)
    inboxes[0].consume(name)
    publish(channel, name, *numbered(2))
    inboxes[0].wait(1)
    assert fetch(channel, name).body == b"2"


def test_an_auto_delete_queue_goes_after_the_last_in_line(
    channel: Any, queue: Declare, connection: Any, inboxes: list[Inbox]
) -> None:
    name = queue(auto_delete=True, arguments=SINGLE)
    first, second, _ = inboxes
    first.consume(name)
    second.consume(name)
    first.channel.close()
    assert exists(connection, name)
    second.channel.close()
    wait_gone(connection, name)


def test_deleting_the_queue_cancels_waiting_consumers_too(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    tags = [inbox.consume(name) for inbox in inboxes]
    channel.queue_delete(name)
    for inbox, tag in zip(inboxes, tags, strict=True):
        inbox.wait_cancelled(tag)


def test_messages_wait_for_the_first_consumer(channel: Any, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    publish(channel, name, *numbered(3))
    inboxes[0].consume(name)
    inboxes[1].consume(name)
    assert bodies(inboxes[0].wait(3)) == numbered(3)
    assert contents(channel, name) == []


def test_the_management_api_names_the_active_consumer(broker: Any, vhost: str, queue: Declare, inboxes: list[Inbox]) -> None:
    name = queue(arguments=SINGLE)
    active, _ = [inbox.consume(name) for inbox in inboxes[:2]]

    def details() -> Any:
        found = broker.api("GET", f"/api/queues/{vhost}/{name}")["consumer_details"]
        return found if len(found) == 2 else None

    shown = eventually(details, every=0.2)
    assert {entry["consumer_tag"]: entry["active"] for entry in shown}[active] is True
    assert sorted(entry["active"] for entry in shown) == [False, True]
    assert sorted(entry["activity_status"] for entry in shown) == ["single_active", "waiting"]
