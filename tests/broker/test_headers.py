from __future__ import annotations

from decimal import Decimal

import pytest

from mirrormq.broker.headers import HeaderMatch, check_match_argument
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.table import ByteArray, Table, Timestamp, Value


# Seen on RabbitMQ 3.10, but for the timestamp and the float.
@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all"}, {}, True),
        ({"x-match": "any"}, {}, False),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "all", "a": 1}, {"a": 1}, True),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"x-match": "all", "a": 1}, {"a": 1, "b": 3}, True),
        ({"x-match": "all", "a": 1}, {"a": "1"}, False),
        ({"x-match": "all", "a": None}, {"a": "anything"}, True),
        ({"x-match": "all", "a": None}, {"a": None}, True),
        ({"x-match": "any", "a": None}, {"b": 1}, False),
        ({"x-match": "all", "a": "x"}, {"a": None}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "all", "x-a": 1}, {}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        ({"x-match": "all", "a": True}, {"a": 1}, False),
        ({"x-match": "all", "a": 1}, {"a": True}, False),
        ({"x-match": "all", "a": 1}, {"a": 1.0}, True),
        ({"x-match": "all", "a": [1, 2]}, {"a": [1, 2]}, True),
        ({"x-match": "all", "a": {"b": 1}}, {"a": {"b": 1}}, True),
        ({"x-match": "all", "a": "s"}, {"a": ByteArray(b"s")}, True),
        ({"x-match": "all", "a": 5}, {"a": Timestamp(5)}, True),
        ({"x-match": "all", "a": Decimal("1.5")}, {"a": Decimal("1.5")}, True),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_headers_match_as_in_rabbitmq(arguments: Table, headers: Table, expected: bool) -> None:
    assert HeaderMatch(arguments).matches(headers) is expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("foo", 'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
    ],
)
def test_a_wrong_x_match_is_refused(value: Value, text: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        check_match_argument({"x-match": value})
    assert refusal.value.text == text


@pytest.mark.parametrize("kind", ["all", "any", "all-with-x", "any-with-x"])
def test_each_kind_of_match_is_accepted(kind: str) -> None:
    check_match_argument({"x-match": kind})
    check_match_argument({})
