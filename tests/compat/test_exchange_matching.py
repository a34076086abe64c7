"""What the patterns of topic exchanges and the arguments of headers exchanges match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika import spec

from .rawclient import RawClient
from .support import own_queue, taken

Declare = Callable[..., str]
Queue = spec.Queue


def publish(channel: Any, exchange: str, key: str = "", body: bytes = b"x", **properties: Any) -> None:
    channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))


# topic

MATCHES: list[tuple[str, list[str], list[str]]] = [
    ("#", ["", "a", "a.b.c", ".", "a..b"], []),
    ("*", ["a", "*", "#"], ["", "a.b", "."]),
    ("", [""], ["a", "."]),
    ("a.b", ["a.b"], ["a", "a.b.c", "A.b", "a.b."]),
    ("a.*", ["a.b", "a.", "a.*"], ["a", "a.b.c", "b.a"]),
    ("*.b", ["a.b", ".b"], ["b", "a.a.b"]),
    ("a.#", ["a", "a.b", "a.b.c", "a."], ["", "b.a", "ab"]),
    ("#.a", ["a", "b.a", "c.b.a"], ["a.b", ""]),
    ("#.a.#", ["a", "b.a", "a.b", "c.a.b.a"], ["b", "ba.c"]),
    ("#.#", ["", "a", "a.b"], []),
    ("*.#", ["a", "a.b", "a.b.c"], [""]),
    ("#.*", ["a", "a.b", "a.b.c"], [""]),
    ("*.*", ["a.b", "."], ["a", "a.b.c"]),
    ("a.*.c", ["a.b.c", "a..c"], ["a.c", "a.b.b.c"]),
    ("a.#.c", ["a.c", "a.b.c", "a.b.b.c", "a..c"], ["a.b", "c"]),
    ("*.a.#.b.*", ["x.a.b.y", "x.a.a.b.b.y"], ["a.b", "x.a.y", "x.a.b"]),
    ("a*", ["a*"], ["ab", "a"]),
    ("a#.b", ["a#.b"], ["a.b", "ax.b"]),
    ("a..b", ["a..b"], ["a.b", "a.x.b"]),
    (".", ["."], ["", "a.b"]),
]


@pytest.mark.parametrize(("pattern", "hits", "misses"), MATCHES, ids=[f"[{row[0]}]" for row in MATCHES])
def test_topic_patterns(channel: Any, exchange: Declare, pattern: str, hits: list[str], misses: list[str]) -> None:
    name = exchange("topic")
    queue = own_queue(channel, name, pattern)
    for key in hits + misses:
        publish(channel, name, key, key.encode())
    assert [body.decode() for body in taken(channel, queue)] == hits


def test_a_queue_that_matches_twice_gets_one_copy(channel: Any, exchange: Declare) -> None:
    name = exchange("topic")
    queue = own_queue(channel, name, "#", "a.#", "*.b", "a.b")
    publish(channel, name, "a.b")
    assert taken(channel, queue) == [b"x"]


def test_topic_bindings_can_be_taken_back_one_by_one(channel: Any, exchange: Declare) -> None:
    name = exchange("topic")
    queue = own_queue(channel, name, "a.#", "a.*", "a.b.c")
    got = []
    for pattern in ("a.#", "a.*", "a.b.c"):
        publish(channel, name, "a.b.c")
        channel.queue_unbind(queue, name, pattern)
        publish(channel, name, "a.b")
        got.append(len(taken(channel, queue)))
    assert got == [2, 1, 0 + 1]


# headers

HEADERS: list[tuple[dict[str, Any], dict[str, Any] | None, bool]] = [
    ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1, "b": "two", "c": 3}, True),
    ({"x-match": "all", "a": 1, "b": "two"}, {"a": 1}, False),
    ({"a": 1, "b": "two"}, {"a": 1}, False),
    ({"a": 1}, {"a": 1}, True),
    ({"x-match": "any", "a": 1, "b": "two"}, {"a": 1}, True),
    ({"x-match": "any", "a": 1, "b": "two"}, {"a": 2, "b": "one"}, False),
    ({"x-match": "all", "a": 1}, {"a": "1"}, False),
    ({"x-match": "all", "a": True}, {"a": True}, True),
    ({"x-match": "all", "a": None}, {"a": "anything"}, True),
    ({"x-match": "all", "a": None}, {"b": 1}, False),
    ({"x-match": "any", "a": None}, {"a": None}, True),
    ({"x-match": "all"}, {}, True),
    ({"x-match": "all"}, None, True),
    ({}, None, True),
    ({"x-match": "any"}, {"a": 1}, False),
    ({"x-match": "all", "x-a": 1}, {}, True),
    ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
    ({"x-match": "all-with-x", "x-a": 1}, {}, False),
    ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1, "b": 1}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 2}, False),
    ({"x-match": "all", "a": {"deep": [1, 2]}}, {"a": {"deep": [1, 2]}}, True),
    ({"x-match": "all", "a": {"deep": [1, 2]}}, {"a": {"deep": [1]}}, False),
]


@pytest.mark.parametrize(("arguments", "headers", "hit"), HEADERS, ids=[f"{a} {h}" for a, h, _ in HEADERS])
def test_headers_bindings(
    channel: Any, exchange: Declare, arguments: dict[str, Any], headers: dict[str, Any] | None, hit: bool
) -> None:
    name = exchange("headers")
    queue = own_queue(channel, name, "ignored", arguments=arguments)
    publish(channel, name, "also ignored", headers=headers)
    assert taken(channel, queue) == ([b"x"] if hit else [])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("bogus", 'Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x'),
        (5, "Invalid x-match field type signedint (value 5); expected longstr"),
    ],
    ids=["value", "type"],
)
def test_a_wrong_x_match_is_refused(raw: RawClient, value: Any, text: str) -> None:
    queue = raw.call(1, Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue
    raw.send_method(1, Queue.Bind(queue=queue, exchange="amq.headers", routing_key="", arguments={"x-match": value}))
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - {text}", Queue.Bind)


def test_unbinding_wants_the_same_arguments(channel: Any, exchange: Declare) -> None:
    name = exchange("headers")
    queue = own_queue(channel, name, "k", arguments={"a": 1})
    channel.queue_bind(queue, name, "k", {"b": 1})
    channel.queue_unbind(queue, name, "k", {"c": 1})
    channel.queue_unbind(queue, name, "k", {"a": 1})
    publish(channel, name, headers={"a": 1})
    publish(channel, name, headers={"b": 1}, body=b"b")
    assert taken(channel, queue) == [b"b"]
