"""Consumers: sharing a queue, priorities, exclusive ones, tags, automatic acknowledgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pika import spec

from .queue_support import (
    Inbox,
    bodies,
    fetch,
    locked,
    numbered,
    publish,
    ready,
    refused,
    wait_consumers,
)
from .support import eventually, unique

Declare = Callable[..., str]
Connect = Callable[..., Any]


# delivery


def test_waiting_messages_are_delivered_in_order(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name, *numbered(300))
    inbox = Inbox(channel)
    inbox.consume(name)
    assert bodies(inbox.wait(300)) == numbered(300)


def test_new_messages_are_delivered_in_order(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    inbox = Inbox(connection.channel())
    inbox.consume(name, auto_ack=True)
    publish(channel, name, *numbered(300))
    assert bodies(inbox.wait(300)) == numbered(300)


def test_a_delivery_names_its_consumer_exchange_and_key(channel: Any, queue: Declare) -> None:
    name, key = queue(), unique("key")
    channel.queue_bind(name, "amq.topic", key)
    inbox = Inbox(channel)
    tag = inbox.consume(name)
    publish(channel, key, b"body", exchange="amq.topic", message_id="7")
    delivery = inbox.one()
    assert (delivery.consumer, delivery.exchange, delivery.key) == (tag, "amq.topic", key)
    assert (delivery.body, delivery.redelivered, delivery.properties.message_id) == (b"body", False, "7")


def test_delivery_tags_count_up_per_channel(channel: Any, queue: Declare) -> None:
    first, second = queue(), queue()
    inbox = Inbox(channel)
    inbox.consume(first)
    inbox.consume(second, auto_ack=True)
    for number in range(6):
        publish(channel, (first, second)[number % 2])
        inbox.wait(number + 1)
    assert [delivery.tag for delivery in inbox.deliveries] == [1, 2, 3, 4, 5, 6]


def test_messages_are_dealt_out_in_turn(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    tags = [inbox.consume(name) for _ in range(3)]
    publish(channel, name, *numbered(9))
    assert [delivery.consumer for delivery in inbox.wait(9)] == tags * 3


def test_messages_are_dealt_out_in_turn_among_connections(channel: Any, queue: Declare, connect: Connect) -> None:
    name = queue()
    inboxes = [Inbox(connect().channel()) for _ in range(3)]
    for inbox in inboxes:
        inbox.consume(name)
    publish(channel, name, *numbered(9))
    received = [bodies(inbox.wait(3)) for inbox in inboxes]
    assert received == [[b"1", b"4", b"7"], [b"2", b"5", b"8"], [b"3", b"6", b"9"]]


def test_a_busy_consumer_is_passed_over(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue()
    busy, idle = Inbox(connection.channel()), Inbox(connection.channel())
    busy.channel.basic_qos(prefetch_count=1)
    busy.consume(name)
    idle.consume(name)
    publish(channel, name, *numbered(6))
    assert len(idle.wait(5)) == 5
    assert len(busy.wait(1)) == 1


def test_a_message_is_delivered_to_one_consumer_only(channel: Any, queue: Declare, connect: Connect) -> None:
    name = queue()
    inboxes = [Inbox(connect().channel()) for _ in range(4)]
    for inbox in inboxes:
        inbox.consume(name, auto_ack=True)
    publish(channel, name, *numbered(100))
    received = [body for inbox in inboxes for body in bodies(inbox.wait(25))]
    assert Counter(received) == Counter(numbered(100))


def test_consumers_of_two_queues_share_a_channel(channel: Any, queue: Declare) -> None:
    first, second = queue(), queue()
    inbox = Inbox(channel)
    tags = {inbox.consume(first): first, inbox.consume(second): second}
    publish(channel, first, first.encode())
    publish(channel, second, second.encode())
    assert all(tags[delivery.consumer].encode() == delivery.body for delivery in inbox.wait(2))


def test_no_local_is_ignored(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    raw.call(1, spec.Basic.Consume(queue=name, no_local=True, no_ack=True, arguments={}), spec.Basic.ConsumeOk)
    raw.publish(1, "", name, b"my own")
    assert raw.expect_message(spec.Basic.Deliver).body == b"my own"


def test_consume_ok_comes_before_the_first_delivery(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    raw.publish(1, "", name, b"1")
    raw.send_method(1, spec.Basic.Consume(queue=name, consumer_tag="c", arguments={}))
    assert raw.expect(spec.Basic.ConsumeOk, 1).consumer_tag == "c"
    assert raw.expect_message(spec.Basic.Deliver).body == b"1"


def test_consume_without_wait_is_not_answered(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    raw.publish(1, "", name, b"1")
    raw.send_method(1, spec.Basic.Consume(queue=name, consumer_tag="c", nowait=True, arguments={}))
    assert raw.expect_message(spec.Basic.Deliver).method.consumer_tag == "c"


# tags


def test_an_empty_tag_gets_a_tag_from_the_server(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    answers = [raw.call(1, spec.Basic.Consume(queue=name, arguments={}), spec.Basic.ConsumeOk) for _ in range(2)]
    first, second = (answer.consumer_tag for answer in answers)
    assert first != second
    assert first.startswith("amq.ctag-")
    assert len(first) == len("amq.ctag-") + 22


def test_a_tag_used_twice_on_a_channel_closes_the_connection(raw: Any) -> None:
    name = unique("q")
    raw.call(1, spec.Queue.Declare(queue=name, exclusive=True, arguments={}), spec.Queue.DeclareOk)
    raw.call(1, spec.Basic.Consume(queue=name, consumer_tag="twice", arguments={}), spec.Basic.ConsumeOk)
    raw.send_method(1, spec.Basic.Consume(queue=name, consumer_tag="twice", arguments={}))
    raw.expect_connection_close(530, "NOT_ALLOWED - attempt to reuse consumer tag 'twice'", spec.Basic.Consume)


def test_one_tag_may_be_used_on_two_channels(channel: Any, queue: Declare, connection: Any) -> None:
    name, other = queue(), connection.channel()
    Inbox(channel).consume(name, consumer_tag="same")
    Inbox(other).consume(name, consumer_tag="same")
    wait_consumers(channel, name, 2)


def test_a_tag_is_free_again_after_cancel(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    inbox.consume(name, consumer_tag="again")
    channel.basic_cancel("again")
    inbox.consume(name, consumer_tag="again")
    publish(channel, name, b"1")
    assert inbox.one().consumer == "again"


@pytest.mark.parametrize("tag", ["x" * 255, "тэг-☃"])
def test_a_tag_may_be_long_and_in_any_script(channel: Any, queue: Declare, tag: str) -> None:
    name = queue()
    inbox = Inbox(channel)
    assert inbox.consume(name, consumer_tag=tag) == tag
    publish(channel, name)
    assert inbox.one().consumer == tag


# priorities


def consume_with(inbox: Inbox, queue: str, priority: int | None, **options: Any) -> str:
    arguments = {} if priority is None else {"x-priority": priority}
    return inbox.consume(queue, arguments=arguments, **options)


def test_the_consumer_of_the_highest_priority_gets_everything(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    consume_with(inbox, name, None)
    high = consume_with(inbox, name, 10)
    consume_with(inbox, name, -5)
    publish(channel, name, *numbered(5))
    assert {delivery.consumer for delivery in inbox.wait(5)} == {high}


def test_lower_priorities_get_what_the_higher_ones_cannot_take(channel: Any, queue: Declare) -> None:
    name = queue()
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel)
    low = consume_with(inbox, name, -1)
    default = consume_with(inbox, name, None)
    high = consume_with(inbox, name, 1)
    publish(channel, name, *numbered(6))
    assert [delivery.consumer for delivery in inbox.wait(6)] == [high, high, default, default, low, low]


def test_consumers_of_one_priority_take_turns(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    tags = [consume_with(inbox, name, 3) for _ in range(2)]
    consume_with(inbox, name, 1)
    publish(channel, name, *numbered(4))
    assert [delivery.consumer for delivery in inbox.wait(4)] == tags * 2


def test_a_consumer_priority_must_be_an_integer(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue()
    where = f"invalid arg 'x-priority' for queue '{name}' in vhost '{vhost}'"
    with refused(channel, 406, f'PRECONDITION_FAILED - {where}: "expected integer, got longstr"'):
        channel.basic_consume(name, print, arguments={"x-priority": "high"})


def test_cancel_on_failover_must_be_a_boolean(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue()
    where = f"invalid arg 'x-cancel-on-ha-failover' for queue '{name}' in vhost '{vhost}'"
    with refused(channel, 406, f"PRECONDITION_FAILED - {where}: {{unacceptable_type,longstr}}"):
        channel.basic_consume(name, print, arguments={"x-cancel-on-ha-failover": "yes"})


def test_unknown_consumer_arguments_are_accepted(channel: Any, queue: Declare) -> None:
    name = queue()
    inbox = Inbox(channel)
    inbox.consume(name, arguments={"x-unknown": "a", "x-cancel-on-ha-failover": True})
    publish(channel, name, b"1")
    assert inbox.one().body == b"1"


# exclusive consumers


def in_exclusive_use(queue: str, vhost: str) -> str:
    return f"ACCESS_REFUSED - queue '{queue}' in vhost '{vhost}' in exclusive use"


@pytest.mark.parametrize("second_exclusive", [True, False])
def test_an_exclusive_consumer_shuts_others_out(
    channel: Any, queue: Declare, vhost: str, connection: Any, second_exclusive: bool
) -> None:
    name, other = queue(), connection.channel()
    Inbox(channel).consume(name, exclusive=True)
    with refused(other, 403, in_exclusive_use(name, vhost)):
        other.basic_consume(name, print, exclusive=second_exclusive)


def test_a_consumer_cannot_be_exclusive_beside_another(channel: Any, queue: Declare, vhost: str, connection: Any) -> None:
    name, other = queue(), connection.channel()
    Inbox(channel).consume(name)
    with refused(other, 403, in_exclusive_use(name, vhost)):
        other.basic_consume(name, print, exclusive=True)


def test_the_queue_is_open_again_after_an_exclusive_consumer(channel: Any, queue: Declare, connection: Any) -> None:
    name, other = queue(), connection.channel()
    tag = Inbox(channel).consume(name, exclusive=True)
    channel.basic_cancel(tag)
    Inbox(other).consume(name, exclusive=True)
    wait_consumers(channel, name, 1)


def test_an_exclusive_consumer_does_not_shut_out_gets(channel: Any, queue: Declare, connection: Any) -> None:
    name, other = queue(), connection.channel()
    other.basic_qos(prefetch_count=1)
    inbox = Inbox(other)
    inbox.consume(name, exclusive=True)
    publish(channel, name, *numbered(2))
    inbox.wait(1)
    assert fetch(channel, name).body == b"2"


def test_another_s_exclusive_queue_cannot_be_consumed(queue: Declare, vhost: str, connect: Connect) -> None:
    name = queue(exclusive=True)
    other = connect().channel()
    with refused(other, 405, locked(name, vhost)):
        other.basic_consume(name, print)


# automatic acknowledgement


def test_an_automatically_acknowledged_message_is_gone(channel: Any, queue: Declare, connection: Any) -> None:
    name, other = queue(), connection.channel()
    inbox = Inbox(other)
    inbox.consume(name, auto_ack=True)
    publish(channel, name, *numbered(3))
    inbox.wait(3)
    other.close()
    connection.sleep(0.1)
    assert ready(channel, name) == 0


def test_the_management_api_lists_the_consumer(broker: Any, vhost: str, channel: Any, queue: Declare) -> None:
    name = queue()
    tag = Inbox(channel).consume(name, exclusive=True, arguments={"x-priority": 3})

    def listed() -> Any:
        found = broker.api("GET", f"/api/queues/{vhost}/{name}")["consumer_details"]
        return found[0] if found else None

    shown = eventually(listed, every=0.2)
    assert (shown["consumer_tag"], shown["exclusive"], shown["ack_required"]) == (tag, True, True)
    assert shown["arguments"] == {"x-priority": 3}
