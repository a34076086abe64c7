"""Queues: kinds, equivalence, the last declared queue, purge and delete, names, exclusive and auto-delete lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .queue_support import (
    Inbox,
    consumers,
    contents,
    exists,
    fetch,
    hold,
    locked,
    numbered,
    publish,
    refused,
    wait_consumers,
    wait_gone,
    wait_ready,
)
from .support import eventually, unique

Declare = Callable[..., str]
Connect = Callable[..., Any]


def inequivalent(arg: str, queue: str, vhost: str, received: str, current: str) -> str:
    where = f"inequivalent arg '{arg}' for queue '{queue}' in vhost '{vhost}'"
    return f"PRECONDITION_FAILED - {where}: received '{received}' but current is '{current}'"


# declaring


def test_a_declare_answers_with_the_name_and_both_counts(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name, *numbered(3))
    wait_ready(channel, name, 3)
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel)
    inbox.consume(name)
    inbox.wait(1)
    answer = channel.queue_declare(name).method
    assert (answer.queue, answer.message_count, answer.consumer_count) == (name, 2, 1)


def test_the_message_count_is_that_of_ready_messages(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, name, *numbered(5))
    hold(channel, name, 2)
    wait_ready(channel, name, 3)


def test_declaring_again_with_the_same_properties_is_fine(channel: Any, queue: Declare) -> None:
    name = queue(durable=True, auto_delete=True, arguments={"x-max-length": 5})
    publish(channel, name)
    wait_ready(channel, name, 1)
    again = channel.queue_declare(name, durable=True, auto_delete=True, arguments={"x-max-length": 5})
    assert (again.method.queue, again.method.message_count) == (name, 1)


def test_an_empty_name_gets_a_name_from_the_server(channel: Any, queue: Declare) -> None:
    first, second = queue(""), queue("")
    assert first.startswith("amq.gen-")
    assert len(first) == len("amq.gen-") + 22
    assert first != second


@pytest.mark.parametrize(
    "options",
    [{}, {"durable": True}, {"exclusive": True}, {"auto_delete": True}, {"durable": True, "auto_delete": True}],
    ids=str,
)
def test_a_queue_of_each_kind_passes_messages(channel: Any, queue: Declare, options: dict[str, bool]) -> None:
    name = queue(**options)
    publish(channel, name, *numbered(3))
    assert contents(channel, name) == numbered(3)


def test_the_management_api_shows_the_kind_of_a_queue(broker: Any, vhost: str, queue: Declare) -> None:
    name = queue(durable=True, arguments={"x-max-length": 7, "x-custom": "kept"})
    shown = broker.api("GET", f"/api/queues/{vhost}/{name}")
    assert (shown["durable"], shown["auto_delete"], shown["exclusive"]) == (True, False, False)
    assert shown["arguments"] == {"x-max-length": 7, "x-custom": "kept"}


def test_a_reserved_name_is_refused(channel: Any) -> None:
    with refused(channel, 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"):
        channel.queue_declare("amq.mine")


def test_a_server_named_queue_cannot_be_declared_by_its_name_again(channel: Any, queue: Declare) -> None:
    name = queue("", exclusive=True)
    with refused(channel, 403, f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'"):
        channel.queue_declare(name, exclusive=True)


def test_a_server_named_queue_is_found_passively(channel: Any, queue: Declare) -> None:
    name = queue("", exclusive=True)
    assert channel.queue_declare(name, passive=True).method.queue == name


def test_a_passive_declare_of_a_reserved_name_only_looks(channel: Any, vhost: str) -> None:
    with refused(channel, 404, f"NOT_FOUND - no queue 'amq.mine' in vhost '{vhost}'"):
        channel.queue_declare("amq.mine", passive=True)


def test_a_passive_declare_of_a_missing_queue_is_not_found(channel: Any, vhost: str) -> None:
    with refused(channel, 404, f"NOT_FOUND - no queue 'nowhere' in vhost '{vhost}'"):
        channel.queue_declare("nowhere", passive=True)


def test_a_passive_declare_creates_nothing(channel: Any, connection: Any, vhost: str) -> None:
    name = unique("q")
    with refused(channel, 404, f"NOT_FOUND - no queue '{name}' in vhost '{vhost}'"):
        channel.queue_declare(name, passive=True)
    assert not exists(connection, name)


def test_a_passive_declare_does_not_compare_properties(channel: Any, queue: Declare) -> None:
    name = queue(durable=True, arguments={"x-max-length": 5})
    answer = channel.queue_declare(name, passive=True, durable=False, auto_delete=True, arguments={"x-expires": 9})
    assert answer.method.queue == name


@pytest.mark.parametrize("name", ["очередь-☃-队列", "with space", "a/b%2F#*", "emoji-🐇", "x"])
def test_a_name_may_hold_any_characters(channel: Any, queue: Declare, name: str) -> None:
    assert queue(name, exclusive=True) == name
    publish(channel, name, b"to it")
    assert contents(channel, name) == [b"to it"]


def test_a_name_may_have_255_bytes(channel: Any, queue: Declare) -> None:
    name = unique("n").ljust(255, "n")
    assert queue(name) == name
    publish(channel, name, b"to it")
    assert contents(channel, name) == [b"to it"]


def test_line_ends_are_taken_out_of_a_declared_name(raw: Any) -> None:
    name = unique("q")
    declare = spec.Queue.Declare(queue=f"{name}\r\n-tail\n", exclusive=True, arguments={})
    assert raw.call(1, declare, spec.Queue.DeclareOk).queue == f"{name}-tail"


def test_names_are_case_sensitive(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(unique("lower"))
    assert not exists(connection, name.upper())


def test_the_same_name_in_another_vhost_is_another_queue(broker: Any, connect: Connect, channel: Any, queue: Declare) -> None:
    name, other = queue(), unique("other")
    broker.add_vhost(other)
    try:
        there = connect(vhost=other)
        assert not exists(there, name)
        there.close()
    finally:
        broker.delete_vhost(other)


# equivalence


@pytest.mark.parametrize("current", [True, False])
def test_another_durable_flag_is_refused(channel: Any, queue: Declare, vhost: str, current: bool) -> None:
    name = queue(durable=current)
    text = inequivalent("durable", name, vhost, str(not current).lower(), str(current).lower())
    with refused(channel, 406, text):
        channel.queue_declare(name, durable=not current)


@pytest.mark.parametrize("current", [True, False])
def test_another_auto_delete_flag_is_refused(channel: Any, queue: Declare, vhost: str, current: bool) -> None:
    name = queue(auto_delete=current)
    text = inequivalent("auto_delete", name, vhost, str(not current).lower(), str(current).lower())
    with refused(channel, 406, text):
        channel.queue_declare(name, auto_delete=not current)


@pytest.mark.parametrize("current", [True, False])
def test_another_exclusive_flag_is_a_locked_resource_even_for_the_owner(
    channel: Any, queue: Declare, vhost: str, current: bool
) -> None:
    name = queue(exclusive=current)
    with refused(channel, 405, locked(name, vhost)):
        channel.queue_declare(name, exclusive=not current)


def test_durable_is_compared_before_auto_delete(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue()
    with refused(channel, 406, inequivalent("durable", name, vhost, "true", "false")):
        channel.queue_declare(name, durable=True, auto_delete=True, arguments={"x-max-length": 1})


def test_auto_delete_is_compared_before_the_arguments(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue()
    with refused(channel, 406, inequivalent("auto_delete", name, vhost, "true", "false")):
        channel.queue_declare(name, auto_delete=True, arguments={"x-max-length": 1})


def test_a_refused_declare_changes_nothing(channel: Any, queue: Declare, vhost: str, connection: Any) -> None:
    name = queue()
    publish(channel, name, b"kept")
    with refused(channel, 406, inequivalent("durable", name, vhost, "true", "false")):
        channel.queue_declare(name, durable=True)
    assert contents(connection.channel(), name) == [b"kept"]


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


# no-wait


def test_no_wait_methods_are_obeyed_and_not_answered(raw: Any, vhost: str) -> None:
    name = unique("q")
    raw.send_method(1, spec.Queue.Declare(queue=name, exclusive=True, nowait=True, arguments={}))
    raw.send_method(1, spec.Queue.Bind(queue=name, exchange="amq.direct", routing_key=name, nowait=True, arguments={}))
    raw.publish(1, "amq.direct", name, b"1")
    raw.publish(1, "amq.direct", name, b"2")
    assert raw.call(1, spec.Basic.Get(queue=name, no_ack=True), spec.Basic.GetOk).message_count == 1
    raw.read_content(1)
    raw.send_method(1, spec.Queue.Purge(queue=name, nowait=True))
    raw.call(1, spec.Basic.Get(queue=name), spec.Basic.GetEmpty)
    raw.send_method(1, spec.Queue.Delete(queue=name, nowait=True))
    raw.send_method(1, spec.Queue.Declare(queue=name, passive=True, arguments={}))
    raw.expect_channel_close(404, f"NOT_FOUND - no queue '{name}' in vhost '{vhost}'", spec.Queue.Declare)


def test_a_refused_no_wait_declare_still_closes_the_channel(raw: Any) -> None:
    raw.send_method(1, spec.Queue.Declare(queue="amq.mine", nowait=True, arguments={}))
    text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    raw.expect_channel_close(403, text, spec.Queue.Declare)


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


def test_a_passive_declare_counts_consumers_of_all_connections(channel: Any, queue: Declare, connect: Connect) -> None:
    name = queue()
    Inbox(channel).consume(name)
    other = connect()
    tag = Inbox(other.channel()).consume(name)
    wait_consumers(channel, name, 2)
    assert tag
    other.close()
    wait_consumers(channel, name, 1)
    assert consumers(channel, name) == 1


def test_a_message_larger_than_a_frame_passes(channel: Any, queue: Declare) -> None:
    name = queue()
    body = bytes(range(256)) * 2048
    publish(channel, name, body)
    assert contents(channel, name) == [body]


def test_properties_pass_unchanged(channel: Any, queue: Declare) -> None:
    name = queue()
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "ü", "int": 7, "big": 1 << 40, "yes": True, "list": [1, "a"], "table": {"k": None}},
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1700000000,
        type="t",
        app_id="a",
    )
    channel.basic_publish("", name, b"", sent)
    assert fetch(channel, name).properties == sent
