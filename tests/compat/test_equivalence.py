"""A queue that is declared again must be declared the same; the 406 says what differs, and how."""

from __future__ import annotations

from typing import Any

import pytest
from pika import spec

from .rawclient import RawClient
from .support import unique

Queue = spec.Queue


def declare(client: RawClient, **options: Any) -> str:
    return str(client.call(1, Queue.Declare(**options), Queue.DeclareOk).queue)


def inequivalent(kind: str, name: str, vhost: str, key: str, received: str, current: str) -> str:
    text = f"PRECONDITION_FAILED - inequivalent arg '{key}' for {kind} '{name}' in vhost '{vhost}': "
    return text + f"received {received} but current is {current}"


@pytest.mark.parametrize("key", ["durable", "auto_delete"])
@pytest.mark.parametrize("first", [True, False])
def test_a_queue_declared_again_with_another_flag(
    raw: RawClient, vhost: str, cleanup: Any, key: str, first: bool
) -> None:
    queue = cleanup(queue=declare(raw, queue=unique("q"), **{key: first}))
    raw.send_method(1, Queue.Declare(queue=queue, **{key: not first}))
    received, current = f"'{str(not first).lower()}'", f"'{str(first).lower()}'"
    raw.expect_channel_close(406, inequivalent("queue", queue, vhost, key, received, current), Queue.Declare)


ARGUMENTS: list[tuple[str, Any, Any]] = [
    ("x-message-ttl", 1000, 2000),
    ("x-expires", 100_000, 200_000),
    ("x-max-length", 10, 20),
    ("x-max-length-bytes", 10, 20),
    ("x-max-priority", 3, 4),
    ("x-dead-letter-exchange", "a", "b"),
    ("x-dead-letter-routing-key", "a", "b"),
    ("x-overflow", "drop-head", "reject-publish"),
    ("x-single-active-consumer", True, False),
]


def spoken(value: Any) -> str:
    kind = "bool" if isinstance(value, bool) else "longstr" if isinstance(value, str) else "signedint"
    return f"the value '{str(value).lower() if isinstance(value, bool) else value}' of type '{kind}'"


@pytest.mark.parametrize(("key", "one", "two"), ARGUMENTS, ids=[key for key, _, _ in ARGUMENTS])
def test_a_queue_declared_again_with_another_argument(raw: RawClient, vhost: str, key: str, one: Any, two: Any) -> None:
    """x-dead-letter-routing-key needs its exchange; it is there in every declaration."""
    always = {"x-dead-letter-exchange": "dlx"} if key == "x-dead-letter-routing-key" else {}

    def again(first: dict[str, Any], then: dict[str, Any]) -> str:
        queue = declare(raw, queue=unique("q"), exclusive=True, arguments=always | first)
        raw.send_method(1, Queue.Declare(queue=queue, exclusive=True, arguments=always | then))
        return queue

    def expect(queue: str, received: str, current: str) -> None:
        raw.expect_channel_close(406, inequivalent("queue", queue, vhost, key, received, current), Queue.Declare)
        raw.open_channel(1)

    expect(again({key: one}, {}), "none", spoken(one))
    expect(again({}, {key: one}), spoken(one), "none")
    plain = [str(value).lower() if isinstance(value, bool) else str(value) for value in (one, two)]
    expect(again({key: one}, {key: two}), f"'{plain[1]}'", f"'{plain[0]}'")


def test_unknown_arguments_are_not_compared(raw: RawClient) -> None:
    queue = declare(raw, queue=unique("q"), exclusive=True, arguments={"x-mine": 1})
    assert declare(raw, queue=queue, exclusive=True, arguments={"x-mine": 2, "other": "x"}) == queue


def test_a_passive_declare_compares_nothing(raw: RawClient) -> None:
    queue = declare(raw, queue=unique("q"), exclusive=True, arguments={"x-message-ttl": 1})
    assert declare(raw, queue=queue, passive=True, durable=True, arguments={"x-message-ttl": 2}) == queue
