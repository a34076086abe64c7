"""Where dead letters go: exchanges, routing keys, permissions, and the copies that CC and BCC asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    Inbox,
    contents,
    death,
    deaths,
    fetch,
    get,
    numbered,
    publish,
    ready,
    refused,
    reject,
    wait_ready,
)
from .support import unique

Declare = Callable[..., str]


def to(queue: str, **more: Any) -> dict[str, Any]:
    """Arguments that dead-letter into the queue."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue} | more


# where to


def test_a_missing_dead_letter_exchange_drops_the_message(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-dead-letter-exchange": "missing"})
    publish(channel, name, *numbered(2))
    reject(channel, name)
    assert contents(channel, name) == [b"2"]


def test_a_dead_letter_exchange_may_be_declared_later(channel: Any, queue: Declare, exchange: Declare) -> None:
    later, sink = unique("x"), queue()
    name = queue(arguments={"x-dead-letter-exchange": later})
    exchange("fanout", later)
    channel.queue_bind(sink, later)
    publish(channel, name)
    reject(channel, name)
    assert fetch(channel, sink).exchange == later


def test_a_dead_letter_that_routes_nowhere_is_dropped(channel: Any, queue: Declare) -> None:
    name = queue(arguments=to("nowhere"))
    publish(channel, name)
    reject(channel, name)
    assert get(channel, name) is None


def test_without_a_key_of_its_own_the_original_key_is_used(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments={"x-dead-letter-exchange": "amq.topic"})
    channel.queue_bind(name, "amq.direct", "orders.eu")
    channel.queue_bind(sink, "amq.topic", "orders.*")
    publish(channel, "orders.eu", exchange="amq.direct")
    reject(channel, name)
    dead = fetch(channel, sink)
    assert (dead.exchange, dead.key) == ("amq.topic", "orders.eu")
    channel.queue_unbind(sink, "amq.topic", "orders.*")


def test_a_dead_letter_key_replaces_the_original_key(channel: Any, queue: Declare) -> None:
    sink, key = queue(), unique("key")
    name = queue(arguments={"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": key})
    channel.queue_bind(sink, "amq.direct", key)
    publish(channel, name)
    reject(channel, name)
    dead = fetch(channel, sink)
    assert (dead.exchange, dead.key, death(dead)["routing-keys"]) == ("amq.direct", key, [name])


def test_a_dead_letter_reaches_every_bound_queue(channel: Any, queue: Declare, exchange: Declare) -> None:
    fanout, first, second = exchange("fanout"), queue(), queue()
    name = queue(arguments={"x-dead-letter-exchange": fanout})
    channel.queue_bind(first, fanout)
    channel.queue_bind(second, fanout)
    publish(channel, name)
    reject(channel, name)
    assert deaths(fetch(channel, first)) == deaths(fetch(channel, second)) == [(name, "rejected", 1)]


def test_an_alternate_exchange_catches_a_dead_letter(channel: Any, queue: Declare, exchange: Declare) -> None:
    sink, alternate = queue(), exchange("fanout")
    dlx = exchange("direct", arguments={"alternate-exchange": alternate})
    name = queue(arguments={"x-dead-letter-exchange": dlx})
    channel.queue_bind(sink, alternate)
    publish(channel, name)
    reject(channel, name)
    assert fetch(channel, sink).exchange == dlx


def test_an_internal_exchange_may_be_the_dead_letter_exchange(channel: Any, queue: Declare, exchange: Declare) -> None:
    sink, dlx = queue(), exchange("fanout", internal=True)
    name = queue(arguments={"x-dead-letter-exchange": dlx})
    channel.queue_bind(sink, dlx)
    publish(channel, name)
    reject(channel, name)
    assert fetch(channel, sink).body == b"m"


def test_the_order_of_rejected_messages_is_kept(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, *numbered(200))
    inbox = Inbox(channel)
    inbox.consume(name)
    for delivery in inbox.wait(200):
        channel.basic_reject(delivery.tag, requeue=False)
    wait_ready(channel, sink, 200)
    assert contents(channel, sink) == numbered(200)


# CC and BCC


@pytest.mark.parametrize("mode", ["plain", "tx"])
def test_a_dead_letter_comes_behind_its_message(
    channel: Any, connection: Any, queue: Declare, exchange: Declare, mode: str
) -> None:
    """In a queue that gets both."""
    fanout, both = exchange("fanout"), queue()
    for name in (queue(arguments=to(both) | {"x-max-length": 0}), both):
        channel.queue_bind(name, fanout)
    publisher = connection.channel()
    if mode == "tx":
        publisher.tx_select()
    publish(publisher, "", b"m", exchange=fanout)
    if mode == "tx":
        publisher.tx_commit()
    assert [fetch(channel, both).exchange for _ in range(2)] == [fanout, ""]


def test_copies_are_named_in_the_record_but_blind_copies_are_not(channel: Any, queue: Declare) -> None:
    sink = queue()
    name = queue(arguments=to(sink))
    publish(channel, name, headers={"CC": ["copy"], "BCC": ["blind"]})
    reject(channel, name)
    assert death(fetch(channel, sink))["routing-keys"] == [name, "copy"]


def test_with_a_dead_letter_key_the_copies_are_dropped(channel: Any, queue: Declare) -> None:
    sink, copy = queue(), queue()
    name = queue(arguments=to(sink))
    publish(channel, name, headers={"CC": [copy], "mine": 1})
    assert fetch(channel, copy).headers["CC"] == [copy]
    reject(channel, name)
    dead = fetch(channel, sink)
    assert "CC" not in dead.headers
    assert dead.headers["mine"] == 1
    assert ready(channel, copy) == 0


def test_without_a_dead_letter_key_the_copies_are_sent_again(channel: Any, queue: Declare) -> None:
    sink, key, copy = queue(), unique("key"), unique("copy")
    name = queue(arguments={"x-dead-letter-exchange": "amq.direct"})
    channel.queue_bind(name, "amq.direct", key)
    channel.queue_bind(sink, "amq.direct", copy)
    publish(channel, key, exchange="amq.direct", headers={"CC": [copy]})
    assert fetch(channel, sink).headers["CC"] == [copy]
    channel.queue_unbind(name, "amq.direct", key)
    reject(channel, name)
    again = fetch(channel, sink)
    assert again.headers["CC"] == [copy]
    assert death(again)["routing-keys"] == [key, copy]


def test_without_a_dead_letter_key_the_blind_copies_are_sent_again_too(channel: Any, queue: Declare) -> None:
    sink, key, blind = queue(), unique("key"), unique("blind")
    name = queue(arguments={"x-dead-letter-exchange": "amq.direct"})
    channel.queue_bind(name, "amq.direct", key)
    channel.queue_bind(sink, "amq.direct", blind)
    publish(channel, key, exchange="amq.direct", headers={"BCC": [blind]})
    assert "BCC" not in fetch(channel, sink).headers
    channel.queue_unbind(name, "amq.direct", key)
    reject(channel, name)
    again = fetch(channel, sink)
    assert "BCC" not in again.headers
    assert death(again)["routing-keys"] == [key]


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_must_be_a_list(channel: Any, queue: Declare, header: str) -> None:
    name = queue()
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",longstr}}'
    with refused(channel, 406, text):
        publish(channel, name, headers={header: "copy"})
