"""Operator policies, and policies that are refused."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import pytest

from .policy_support import Policies
from .queue_support import (
    contents,
    numbered,
    publish,
)
from .support import ApiError, Broker, quote

Declare = Callable[..., str]


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
