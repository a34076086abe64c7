"""Policies: the queue arguments' keys by policy, which one counts, and what follows when they change."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pika.exceptions import UnroutableError

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
    publish,
    ready,
    wait_ready,
)
from .support import ApiError, Broker, eventually, quote, unique

Declare = Callable[..., str]
Connect = Callable[..., Any]


class Policies:
    """Sets policies of the module's vhost and takes them away after the test."""

    def __init__(self, broker: Broker, vhost: str) -> None:
        self.broker = broker
        self.vhost = vhost
        self.made: list[str] = []

    def set(
        self,
        pattern: str,
        definition: dict[str, Any],
        *,
        operator: bool = False,
        name: str = "",
        priority: Any = 0,
        apply_to: str = "all",
    ) -> str:
        path = self._path(name or unique("p"), operator=operator)
        body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
        self.broker.api("PUT", path, body)
        self.made.append(path)
        return path.rpartition("/")[2]

    def clear(self, name: str, *, operator: bool = False) -> None:
        path = self._path(name, operator=operator)
        self.broker.api("DELETE", path)
        self.made.remove(path)

    def shown(self, queue: str) -> tuple[str | None, str | None, dict[str, Any]]:
        """Policy, operator policy and effective definition of a queue."""
        found = self.broker.api("GET", f"/api/queues/{quote(self.vhost)}/{quote(queue)}")
        definition = found.get("effective_policy_definition") or {}
        return found.get("policy"), found.get("operator_policy"), dict(definition)

    def wait(self, queue: str, definition: dict[str, Any]) -> None:
        """Until exactly this definition is in effect."""
        eventually(lambda: self.shown(queue)[2] == definition, within=15)

    def apply(self, queue: str, definition: dict[str, Any], **more: Any) -> str:
        """Set a policy for one queue and wait until it is in effect."""
        name = self.set(f"^{queue}$", definition, **more)
        self.wait(queue, definition)
        return name

    def end(self) -> None:
        for path in self.made:
            self.broker.api("DELETE", path)

    def _path(self, name: str, *, operator: bool) -> str:
        kind = "operator-policies" if operator else "policies"
        return f"/api/{kind}/{quote(self.vhost)}/{quote(name)}"


@pytest.fixture
def policies(broker: Broker, vhost: str) -> Iterator[Policies]:
    made = Policies(broker, vhost)
    yield made
    made.end()


def is_expired(connection: Any, queue: str) -> bool:
    """Looks by publishing: a passive declare would count as use of the queue."""
    try:
        confirming(connection).basic_publish("", queue, b"probe", mandatory=True)
    except UnroutableError:
        return True
    return False


# each key


def test_message_ttl_by_policy(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    policies.apply(name, {"message-ttl": 100})
    publish(channel, name)
    wait_ready(channel, name, 1)
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
def test_the_smaller_message_ttl_counts(channel: Any, queue: Declare, policies: Policies, argument: int, policy: int) -> None:
    name = queue(arguments={"x-message-ttl": argument})
    policies.apply(name, {"message-ttl": policy})
    publish(channel, name)
    wait_ready(channel, name, 1)
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
    policy = policies.set(f"^{name}$", {"expires": 1500, "max-length": 1})
    wait_ready(channel, name, 1)
    policies.clear(policy)
    connection.sleep(1.8)
    assert not is_expired(connection, name)


# operator policies


@pytest.mark.parametrize(("user", "operator"), [(5, 2), (2, 5)])
def test_the_smaller_of_policy_and_operator_policy_counts(
    channel: Any, queue: Declare, policies: Policies, user: int, operator: int
) -> None:
    name = queue()
    policies.set(f"^{name}$", {"max-length": user})
    policies.set(f"^{name}$", {"max-length": operator}, operator=True, apply_to="queues")
    policies.wait(name, {"max-length": 2})
    publish(channel, name, *numbered(9))
    assert contents(channel, name) == [b"8", b"9"]


def test_policy_and_operator_policy_are_merged(queue: Declare, policies: Policies) -> None:
    name = queue()
    user = policies.set(f"^{name}$", {"max-length": 5, "message-ttl": 60000})
    operator = policies.set(f"^{name}$", {"expires": 3600000, "message-ttl": 90000}, operator=True)
    policies.wait(name, {"max-length": 5, "message-ttl": 60000, "expires": 3600000})
    assert policies.shown(name)[:2] == (user, operator)


def test_an_operator_policy_counts_alone(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue()
    policies.set(f"^{name}$", {"max-length": 2}, operator=True)
    policies.wait(name, {"max-length": 2})
    publish(channel, name, *numbered(5))
    assert contents(channel, name) == [b"4", b"5"]


def test_the_smallest_of_all_three_counts(channel: Any, queue: Declare, policies: Policies) -> None:
    name = queue(arguments={"x-max-length": 3})
    policies.set(f"^{name}$", {"max-length": 9})
    policies.set(f"^{name}$", {"max-length": 7}, operator=True)
    policies.wait(name, {"max-length": 7})
    publish(channel, name, *numbered(12))
    assert contents(channel, name) == [b"10", b"11", b"12"]


def test_a_cleared_operator_policy_counts_no_more(queue: Declare, policies: Policies) -> None:
    name = queue()
    policies.set(f"^{name}$", {"max-length": 5})
    operator = policies.set(f"^{name}$", {"max-length": 2}, operator=True)
    policies.wait(name, {"max-length": 2})
    policies.clear(operator, operator=True)
    policies.wait(name, {"max-length": 5})


# refusals


def refusal(policies: Policies, definition: dict[str, Any], pattern: str = "^none$", **more: Any) -> str:
    """The reason of a 400; the markup of the web page that it is meant for is taken out."""
    with pytest.raises(ApiError) as caught:
        policies.set(pattern, definition, **more)
    assert caught.value.status == 400
    assert caught.value.body["error"] == "bad_request"
    return html.unescape(caught.value.body["reason"]).strip()


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ({}, "no policy provided"),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": "a"}, '<<"a">> is not a valid message TTL'),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": "1"}, '<<"1">> is not a valid maximum length'),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"overflow": "spill"}, '<<"spill">> is not a valid overflow value'),
        ({"dead-letter-exchange": 5}, "5 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": 5}, "5 is not a valid dead letter routing key"),
        ({"alternate-exchange": 5}, "5 is not a valid alternate exchange name"),
        ({"queue-mode": "fast"}, '<<"fast">> is not a valid queue-mode value'),
        ({"max-priority": 5}, '[{<<"max-priority">>,5}] are not recognised policy settings'),
        ({"single-active-consumer": True}, '[{<<"single-active-consumer">>,true}] are not recognised policy settings'),
        ({"unknown": "a"}, '[{<<"unknown">>,<<"a">>}] are not recognised policy settings'),
        ({"unknown": 1, "max-length": 5}, '[{<<"unknown">>,1}] are not recognised policy settings'),
    ],
    ids=str,
)
def test_a_bad_definition_is_refused(policies: Policies, definition: dict[str, Any], why: str) -> None:
    assert refusal(policies, definition) == f"Validation failed\n\n{why}"


def test_an_operator_policy_may_only_limit(policies: Policies) -> None:
    reason = refusal(policies, {"dead-letter-exchange": "x"}, operator=True)
    assert reason.endswith('[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings')


def test_a_bad_pattern_is_refused(policies: Policies) -> None:
    reason = refusal(policies, {"max-length": 1}, pattern="a(b")
    assert reason.startswith("Validation failed\n\npattern should be regular expression but is invalid:")


def test_a_bad_apply_to_is_refused(policies: Policies) -> None:
    reason = refusal(policies, {"max-length": 1}, apply_to="people")
    assert reason.startswith("Validation failed\n\napply-to 'people' unrecognised; should be ")


def test_a_bad_priority_is_refused(policies: Policies) -> None:
    reason = refusal(policies, {"max-length": 1}, priority="high")
    assert reason == 'Validation failed\n\npriority should be a number, actually was <<"high">>'


def test_clearing_a_missing_policy_is_not_found(broker: Broker, vhost: str) -> None:
    with pytest.raises(ApiError) as caught:
        broker.clear_policy(vhost, "nobody")
    assert caught.value.status == 404


def test_a_policy_is_shown_as_it_was_set(broker: Broker, vhost: str, policies: Policies) -> None:
    name = policies.set("^shown$", {"max-length": 5}, priority=3, apply_to="queues")
    assert broker.api("GET", f"/api/policies/{quote(vhost)}/{name}") == {
        "vhost": vhost,
        "name": name,
        "pattern": "^shown$",
        "apply-to": "queues",
        "definition": {"max-length": 5},
        "priority": 3,
    }
