"""Policies: the queue arguments' keys by policy, which one counts, and what follows when they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .policy_support import Policies, is_expired
from .queue_support import (
    bodies,
    confirmed,
    confirming,
    contents,
    death,
    drain,
    exists,
    fetch,
    numbered,
    place,
    publish,
    ready,
    wait_ready,
)
from .support import Broker, eventually, unique

Declare = Callable[..., str]


# each key


def test_message_ttl_by_policy(channel: Any, queue: Declare, connection: Any, policies: Policies) -> None:
    name = queue()
    policies.apply(name, {"message-ttl": 100})
    place(connection, name)
    wait_ready(channel, name, 0)


def test_expires_by_policy(queue: Declare, connection: Any, policies: Policies) -> None:
    name = queue()
    policies.set(f"^{name}$", {"expires": 200})
    eventually(lambda: is_expired(connection, name), every=0.1)
    assert not exists(connection, name)


def test_max_length_by_policy(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    policies.apply(name, {"max-length": 2})
    publish(channel, name, *numbered(5))
    assert contents(channel, name) == [b"4", b"5"]


def test_max_length_bytes_by_policy(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    policies.apply(name, {"max-length-bytes": 10})
    publish(channel, name, b"a" * 6, b"b" * 6)
    assert contents(channel, name) == [b"b" * 6]


def test_overflow_by_policy(queue: Declare, connection: Any, policies: Policies) -> None:
    name = queue()
    policies.apply(name, {"max-length": 1, "overflow": "reject-publish"})
    sender = confirming(connection)
    assert [confirmed(sender, name, body) for body in numbered(3)] == [True, False, False]
    assert contents(sender, name) == [b"1"]


def test_overflow_with_dead_letters_by_policy(channel: Any, queue: Declare, connection: Any, policies: Policies) -> None:
    name, sink = queue(), queue()
    definition = {"max-length": 1, "overflow": "reject-publish-dlx"}
    policies.apply(name, definition | {"dead-letter-exchange": "", "dead-letter-routing-key": sink})
    sender = confirming(connection)
    assert [confirmed(sender, name, body) for body in numbered(2)] == [True, False]
    assert fetch(channel, sink).body == b"2"


def test_dead_letter_exchange_and_key_by_policy(channel: Any, queue: Declare, policies: Policies) -> None:
    name, sink = queue(), queue()
    policies.apply(name, {"dead-letter-exchange": "", "dead-letter-routing-key": sink})
    publish(channel, name, b"bad")
    channel.basic_reject(fetch(channel, name, auto_ack=False).tag, requeue=False)
    dead = fetch(channel, sink)
    assert (dead.body, death(dead)["queue"], death(dead)["reason"]) == (b"bad", name, "rejected")


def test_queue_mode_by_policy(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    publish(channel, name, *numbered(20))
    policies.apply(name, {"queue-mode": "lazy"})
    publish(channel, name, *numbered(20, start=21))
    assert contents(channel, name) == numbered(40)


# policy and argument


@pytest.mark.parametrize(("argument", "policy"), [(2, 5), (5, 2)])
def test_the_smaller_max_length_counts(channel: Any, queue: Declare, policies: Policies, argument: int, policy: int) -> None:
    name = queue(arguments={"x-max-length": argument})
    policies.apply(name, {"max-length": policy})
    publish(channel, name, *numbered(10))
    assert contents(channel, name) == [b"9", b"10"]


@pytest.mark.parametrize(("argument", "policy"), [(10, 50), (50, 10)])
def test_the_smaller_max_length_in_bytes_counts(
    channel: Any, queue: Declare, policies: Policies, argument: int, policy: int
) -> None:
    name = queue(arguments={"x-max-length-bytes": argument})
    policies.apply(name, {"max-length-bytes": policy})
    publish(channel, name, b"a" * 6, b"b" * 6)
    assert contents(channel, name) == [b"b" * 6]


@pytest.mark.parametrize(("argument", "policy"), [(100, 3600000), (3600000, 100)])
def test_the_smaller_message_ttl_counts(
    channel: Any, queue: Declare, connection: Any, policies: Policies, argument: int, policy: int
) -> None:
    name = queue(arguments={"x-message-ttl": argument})
    policies.apply(name, {"message-ttl": policy})
    place(connection, name)
    wait_ready(channel, name, 0)


def test_the_smaller_expiry_counts(queue: Declare, connection: Any, policies: Policies) -> None:
    name = queue(arguments={"x-expires": 3600000})
    policies.set(f"^{name}$", {"expires": 200})
    eventually(lambda: is_expired(connection, name), every=0.1)


def test_the_argument_overflow_counts_before_the_policy_s(queue: Declare, connection: Any, policies: Policies) -> None:
    name = queue(arguments={"x-overflow": "reject-publish"})
    policies.apply(name, {"max-length": 1, "overflow": "drop-head"})
    sender = confirming(connection)
    assert [confirmed(sender, name, body) for body in numbered(2)] == [True, False]


def test_the_argument_dead_letter_exchange_counts_before_the_policy_s(channel: Any, queue: Declare, policies: Policies) -> None:
    by_argument, by_policy = queue(), queue()
    name = queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": by_argument})
    policies.apply(name, {"dead-letter-exchange": "", "dead-letter-routing-key": by_policy})
    publish(channel, name, b"bad")
    channel.basic_reject(fetch(channel, name, auto_ack=False).tag, requeue=False)
    assert fetch(channel, by_argument).body == b"bad"
    assert ready(channel, by_policy) == 0


def test_policy_and_argument_of_different_keys_add_up(channel: Any, queue: Declare, policies: Policies) -> None:
    sink = queue()
    name = queue(arguments={"x-max-length": 2})
    policies.apply(name, {"dead-letter-exchange": "", "dead-letter-routing-key": sink})
    publish(channel, name, *numbered(4))
    wait_ready(channel, sink, 2)
    assert contents(channel, sink) == [b"1", b"2"]


def test_a_policy_does_not_count_for_equivalence(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue(arguments={"x-max-length": 5})
    policies.apply(name, {"max-length": 2, "message-ttl": 60000})
    assert channel.queue_declare(name, arguments={"x-max-length": 5}).method.queue == name


# which policy


def test_the_matching_policy_of_the_highest_priority_counts_alone(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    policies.set(f"^{name}$", {"max-length": 1, "message-ttl": 60000}, priority=1)
    winner = policies.set(f"^{name}$", {"max-length": 3}, priority=2)
    policies.wait(name, {"max-length": 3})
    assert policies.shown(name)[0] == winner
    publish(channel, name, *numbered(5))
    assert contents(channel, name) == [b"3", b"4", b"5"]


def test_a_pattern_is_searched_anywhere_in_the_name(queue: Declare, policies: Policies) -> None:
    core = unique("core")
    name, other = queue(f"before-{core}-after"), queue()
    policies.set(core, {"max-length": 3})
    policies.wait(name, {"max-length": 3})
    assert policies.shown(other)[2] == {}


def test_an_anchored_pattern_matches_from_the_start(queue: Declare, policies: Policies) -> None:
    core = unique("core")
    inside, start = queue(f"before-{core}"), queue(core)
    policies.set(f"^{core}", {"max-length": 3})
    policies.wait(start, {"max-length": 3})
    assert policies.shown(inside)[2] == {}


@pytest.mark.parametrize(("apply_to", "applies"), [("all", True), ("queues", True), ("exchanges", False)])
def test_apply_to_chooses_queues_or_exchanges(queue: Declare, policies: Policies, apply_to: str, applies: bool) -> None:
    name = queue()
    policies.set(f"^{name}$", {"max-length": 9}, priority=1)
    policies.set(f"^{name}$", {"max-length": 3}, priority=2, apply_to=apply_to)
    policies.wait(name, {"max-length": 3 if applies else 9})


def test_a_policy_counts_for_queues_declared_later(channel: Any, queue: Declare, policies: Policies) -> None:
    name = unique("later")
    policies.set(f"^{name}$", {"max-length": 2})
    queue(name)
    publish(channel, name, *numbered(5))
    assert contents(channel, name) == [b"4", b"5"]


def test_a_policy_counts_for_server_named_and_exclusive_queues(channel: Any, queue: Declare, policies: Policies) -> None:
    policies.set(r"^amq\.gen-", {"max-length": 2})
    name = queue("", exclusive=True)
    publish(channel, name, *numbered(5))
    assert contents(channel, name) == [b"4", b"5"]


def test_a_policy_of_another_vhost_does_not_count(broker: Broker, channel: Any, queue: Declare, policies: Policies) -> None:
    other = unique("other")
    broker.add_vhost(other)
    try:
        broker.set_policy(other, "p", ".*", {"max-length": 1})
        name = queue()
        publish(channel, name, *numbered(3))
        assert contents(channel, name) == numbered(3)
    finally:
        broker.delete_vhost(other)


# changes


def test_a_queue_without_a_policy_shows_none(queue: Declare, policies: Policies) -> None:
    assert policies.shown(queue()) == (None, None, {})


def test_a_new_max_length_drops_what_is_too_much(channel: Any, queue: Declare, policies: Policies) -> None:
    name, sink = queue(), queue()
    publish(channel, name, *numbered(10))
    wait_ready(channel, name, 10)
    policies.apply(name, {"max-length": 3, "dead-letter-exchange": "", "dead-letter-routing-key": sink})
    wait_ready(channel, name, 3)
    assert contents(channel, name) == [b"8", b"9", b"10"]
    assert bodies(drain(channel, sink)) == numbered(7)


def test_a_new_message_ttl_leaves_waiting_messages_alone(
    channel: Any, queue: Declare, connection: Any, policies: Policies
) -> None:
    name = queue()
    publish(channel, name, b"old")
    wait_ready(channel, name, 1)
    policies.apply(name, {"message-ttl": 50})
    connection.sleep(0.3)
    assert contents(channel, name) == [b"old"]


def test_a_cleared_policy_counts_no_more(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    policy = policies.apply(name, {"max-length": 2})
    policies.clear(policy)
    policies.wait(name, {})
    publish(channel, name, *numbered(5))
    assert contents(channel, name) == numbered(5)


def test_the_next_policy_counts_when_the_first_is_cleared(queue: Declare, policies: Policies) -> None:
    name = queue()
    policies.set(f"^{name}$", {"max-length": 9}, priority=1)
    policy = policies.set(f"^{name}$", {"max-length": 3}, priority=2)
    policies.wait(name, {"max-length": 3})
    policies.clear(policy)
    policies.wait(name, {"max-length": 9})


def test_a_policy_may_be_replaced(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    policy = policies.apply(name, {"max-length": 2})
    policies.set(f"^{name}$", {"max-length": 4}, name=policy)
    policies.made.pop()
    policies.wait(name, {"max-length": 4})
    publish(channel, name, *numbered(6))
    assert contents(channel, name) == numbered(4, start=3)


def test_a_cleared_expiry_saves_the_queue(channel: Any, queue: Declare, connection: Any, policies: Policies) -> None:
    name = queue()
    publish(channel, name, *numbered(3))
    policy = policies.set(f"^{name}$", {"expires": 3000, "max-length": 1})
    wait_ready(channel, name, 1)
    policies.clear(policy)
    connection.sleep(3.3)
    assert not is_expired(connection, name)
