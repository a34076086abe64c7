"""Queues: declaring, names, equivalence, and what passes through them."""

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
    wait_ready,
)
from .support import unique

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


def test_a_name_of_line_ends_only_is_empty(raw: Any) -> None:
    declare = spec.Queue.Declare(queue="\r\n", exclusive=True, arguments={})
    assert raw.call(1, declare, spec.Queue.DeclareOk).queue.startswith("amq.gen-")


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


# counts and contents


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
