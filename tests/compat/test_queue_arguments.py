"""Queue arguments: what is accepted, how they are compared on a second declare, and x-expires.

What the other arguments do is tested in their own modules (ttl, overflow, priority, single_active, dead_letter).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pika.exceptions
import pytest
from pika import spec

from .policy_support import Policies
from .queue_support import Inbox, confirming, contents, exists, get, hold, numbered, publish, refused
from .rawclient import field, method_frame, shortstr, table
from .support import eventually, unique

Declare = Callable[..., str]

GIVEN: dict[str, Any] = {
    "x-message-ttl": 60000,
    "x-expires": 3600000,
    "x-max-length": 5,
    "x-max-length-bytes": 500,
    "x-overflow": "drop-head",
    "x-dead-letter-exchange": "dlx",
    "x-dead-letter-routing-key": "key",
    "x-max-priority": 5,
    "x-single-active-consumer": True,
    "x-queue-mode": "lazy",
    "x-queue-master-locator": "min-masters",
}
OTHER: dict[str, Any] = {
    "x-overflow": "reject-publish",
    "x-dead-letter-exchange": "other",
    "x-dead-letter-routing-key": "other",
    "x-single-active-consumer": False,
    "x-queue-mode": "default",
    "x-queue-master-locator": "random",
}


def spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def described(value: Any) -> str:
    kind = {bool: "bool", int: "signedint", str: "longstr"}[type(value)]
    return f"the value '{spelled(value)}' of type '{kind}'"


def inequivalent(key: str, queue: str, vhost: str, received: str, current: str) -> str:
    where = f"inequivalent arg '{key}' for queue '{queue}' in vhost '{vhost}'"
    return f"PRECONDITION_FAILED - {where}: received {received} but current is {current}"


# equivalence


@pytest.mark.parametrize("key", GIVEN)
def test_a_missing_argument_is_inequivalent(channel: Any, queue: Declare, vhost: str, key: str) -> None:
    name = queue(arguments=GIVEN)
    rest = {other: value for other, value in GIVEN.items() if other != key}
    with refused(channel, 406, inequivalent(key, name, vhost, "none", described(GIVEN[key]))):
        channel.queue_declare(name, arguments=rest)


@pytest.mark.parametrize("key", GIVEN)
def test_an_additional_argument_is_inequivalent(channel: Any, queue: Declare, vhost: str, key: str) -> None:
    needed = {"x-dead-letter-exchange": "dlx"} if key == "x-dead-letter-routing-key" else {}
    name = queue(arguments=needed)
    with refused(channel, 406, inequivalent(key, name, vhost, described(GIVEN[key]), "none")):
        channel.queue_declare(name, arguments={**needed, key: GIVEN[key]})


@pytest.mark.parametrize("key", GIVEN)
def test_another_value_is_inequivalent(channel: Any, queue: Declare, vhost: str, key: str) -> None:
    name = queue(arguments=GIVEN)
    other = OTHER.get(key, 6)
    text = inequivalent(key, name, vhost, f"'{spelled(other)}'", f"'{spelled(GIVEN[key])}'")
    with refused(channel, 406, text):
        channel.queue_declare(name, arguments={**GIVEN, key: other})


def test_equal_arguments_are_equivalent(channel: Any, queue: Declare) -> None:
    name = queue(arguments=GIVEN)
    assert channel.queue_declare(name, arguments=dict(reversed(GIVEN.items()))).method.queue == name


def test_the_queue_type_classic_is_the_default(channel: Any, queue: Declare) -> None:
    plain, classic = queue(), queue(arguments={"x-queue-type": "classic"})
    assert channel.queue_declare(plain, arguments={"x-queue-type": "classic"}).method.queue == plain
    assert channel.queue_declare(classic).method.queue == classic


def test_unknown_arguments_are_accepted_and_not_compared(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-unknown": 1, "other": "a"})
    assert channel.queue_declare(name).method.queue == name
    assert channel.queue_declare(name, arguments={"x-unknown": "b"}).method.queue == name


def test_integers_of_different_types_are_equivalent(raw: Any) -> None:
    name = unique("q")
    kinds = [(b"b", ">b"), (b"s", ">h"), (b"I", ">i"), (b"l", ">q")]
    for kind, packing in kinds:
        arguments = table(field("x-max-length", kind, struct.pack(packing, 100)))
        raw.send_frame(1, 1, struct.pack(">IH", spec.Queue.Declare.INDEX, 0) + shortstr(name) + b"\x04" + arguments)
        assert raw.expect(spec.Queue.DeclareOk, 1).queue == name
    raw.send(method_frame(1, spec.Queue.Delete(queue=name)))
    raw.expect(spec.Queue.DeleteOk, 1)


# validation


def invalid(key: str, queue: str, vhost: str, why: str) -> str:
    return f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{queue}' in vhost '{vhost}': {why}"


NOT_AN_INTEGER = '"expected integer, got longstr"'


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "10", NOT_AN_INTEGER),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", None, '"expected integer, got void"'),
        ("x-message-ttl", 315360000001, "{value_too_large,315360000001}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", "10", NOT_AN_INTEGER),
        ("x-expires", 315360000001, "{value_too_large,315360000001}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length", "5", NOT_AN_INTEGER),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", "5", NOT_AN_INTEGER),
        ("x-overflow", "drop-tail", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "key", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", 5, "{unacceptable_type,signedint}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", "5", NOT_AN_INTEGER),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-queue-mode", "fast", "\"unsupported queue mode 'fast'\""),
        ("x-queue-mode", 5, "{unacceptable_type,signedint}"),
        ("x-queue-type", "heap", "\"unsupported queue type 'heap'\""),
        ("x-queue-type", 5, "{unacceptable_type,signedint}"),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "1", NOT_AN_INTEGER),
    ],
)
def test_a_bad_argument_is_refused(channel: Any, vhost: str, key: str, value: Any, why: str) -> None:
    name = unique("q")
    with refused(channel, 406, invalid(key, name, vhost, why)):
        channel.queue_declare(name, exclusive=True, arguments={key: value})


@pytest.mark.parametrize(("value", "kind"), [(5, "signedint"), (True, "bool")])
def test_a_dead_letter_exchange_must_be_a_string(channel: Any, vhost: str, value: Any, kind: str) -> None:
    name = unique("q")
    where = f"invalid type '{kind}' for arg 'x-dead-letter-exchange' in queue '{name}' in vhost '{vhost}'"
    with refused(channel, 406, f"PRECONDITION_FAILED - {where}"):
        channel.queue_declare(name, exclusive=True, arguments={"x-dead-letter-exchange": value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x-message-ttl", 0),
        ("x-message-ttl", 315360000000),
        ("x-expires", 315360000000),
        ("x-max-length", 0),
        ("x-max-length", 1 << 40),
        ("x-max-length-bytes", 0),
        ("x-overflow", "drop-head"),
        ("x-overflow", "reject-publish"),
        ("x-overflow", "reject-publish-dlx"),
        ("x-dead-letter-exchange", ""),
        ("x-dead-letter-exchange", "missing"),
        ("x-max-priority", 0),
        ("x-max-priority", 255),
        ("x-single-active-consumer", False),
        ("x-queue-mode", "lazy"),
        ("x-queue-mode", "default"),
        ("x-queue-type", "classic"),
        ("x-queue-version", 1),
        ("x-queue-version", 2),
        ("x-queue-master-locator", "client-local"),
        ("x-queue-master-locator", "min-masters"),
        ("x-queue-master-locator", "random"),
        ("x-ha-policy", "all"),
    ],
)
def test_a_good_argument_is_accepted(queue: Declare, key: str, value: Any) -> None:
    assert queue(exclusive=True, arguments={key: value})


def test_an_argument_of_an_existing_queue_is_compared_and_not_validated(channel: Any, queue: Declare, vhost: str) -> None:
    name = queue(arguments={"x-message-ttl": 1000})
    with refused(channel, 406, inequivalent("x-message-ttl", name, vhost, "'-1'", "'1000'")):
        channel.queue_declare(name, arguments={"x-message-ttl": -1})


def test_a_lazy_queue_works_as_any_other(channel: Any, queue: Declare) -> None:
    name = queue(durable=True, arguments={"x-queue-mode": "lazy"})
    publish(channel, name, *numbered(100), delivery_mode=2)
    assert contents(channel, name) == numbered(100)


# x-expires


def wait_expired(connection: Any, name: str) -> None:
    """Looks by publishing: a passive declare would count as use of the queue."""
    sender = confirming(connection)
    eventually(lambda: not routed(sender, name), every=0.05)
    assert not exists(connection, name)


def routed(sender: Any, name: str) -> bool:
    try:
        sender.basic_publish("", name, b"probe", mandatory=True)
    except pika.exceptions.UnroutableError:
        return False
    return True


def test_an_unused_queue_expires_although_messages_come_in(queue: Declare, connection: Any) -> None:
    wait_expired(connection, queue(arguments={"x-expires": 100}))


def test_an_expired_queue_takes_its_messages_with_it(channel: Any, queue: Declare, connection: Any) -> None:
    sink = queue()
    name = queue(arguments={"x-expires": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    publish(channel, name, *numbered(3))
    wait_expired(connection, name)
    assert contents(channel, sink) == []


def test_a_consumer_keeps_a_queue_from_expiring(
    channel: Any, queue: Declare, connection: Any, policies: Policies
) -> None:
    """The policy gives the same as the argument, but only when the consumer is there."""
    name = queue()
    inbox = Inbox(channel)
    tag = inbox.consume(name)
    policies.apply(name, {"expires": 200})
    inbox.quiet(0.6)
    assert routed(confirming(connection), name)
    channel.basic_cancel(tag)
    wait_expired(connection, name)


def test_gets_keep_a_queue_from_expiring(channel: Any, queue: Declare, connection: Any) -> None:
    name = queue(arguments={"x-expires": 2000})
    for _ in range(12):
        connection.sleep(0.2)
        assert get(channel, name) is None
    assert exists(connection, name)


@pytest.mark.parametrize("passive", [True, False])
def test_declaring_again_keeps_a_queue_from_expiring(channel: Any, queue: Declare, connection: Any, passive: bool) -> None:
    name = queue(arguments={"x-expires": 2000})
    for _ in range(12):
        connection.sleep(0.2)
        channel.queue_declare(name, passive=passive, arguments={"x-expires": 2000})
    assert exists(connection, name)


def test_an_unacknowledged_message_does_not_keep_a_queue_from_expiring(
    channel: Any, queue: Declare, connection: Any, policies: Policies
) -> None:
    name = queue()
    publish(channel, name)
    hold(channel, name, 1)
    policies.set(f"^{name}$", {"expires": 200})
    wait_expired(connection, name)


def test_a_queue_with_expiry_may_be_durable(queue: Declare, connection: Any) -> None:
    name = queue(durable=True, arguments={"x-expires": 100})
    wait_expired(connection, name)
