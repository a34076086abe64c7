"""Browsing, searching and biographies through the API: what is seen, in which order, and that nothing changes by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from admin.support import Node, quote
from mirror.live.rings import eventually

Channel = pika.adapters.blocking_connection.BlockingChannel
Ask = Callable[..., Any]


@pytest.fixture
def browse(node: Node, vhost: str) -> Ask:
    """browse("q", count=3) gives the answer of the node."""

    def ask(name: str, **query: object) -> Any:
        words = "&".join(f"{key.rstrip('_')}={quote(str(value))}" for key, value in query.items())
        reply = node.ask("GET", f"/api/queues/{quote(vhost)}/{quote(name)}/messages?{words}")
        assert reply.status == 200, reply
        return reply.body

    return ask


@pytest.fixture
def biography(node: Node, vhost: str) -> Ask:
    def ask(name: str, index: int) -> Any:
        reply = node.ask("GET", f"/api/queues/{quote(vhost)}/{quote(name)}/messages/{index}")
        assert reply.status == 200, reply
        return reply.body

    return ask


def publish(channel: Channel, name: str, *bodies: str, **properties: Any) -> None:
    for body in bodies:
        channel.basic_publish("", name, body.encode(), pika.BasicProperties(**{"delivery_mode": 2} | properties))


def bodies(told: Any) -> list[str]:
    return [row["payload"] for row in told["messages"]]


def pages(browse: Ask, name: str, **query: object) -> Iterator[Any]:
    after = ""
    while after is not None:
        told = browse(name, after=after, **query)
        yield told
        after = told["next"]


def test_ready_messages_are_seen_in_the_order_of_delivery_and_stay(browse: Ask, channel: Channel):
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "a", "b")
    publish(channel, "q", "c", delivery_mode=1)
    told = browse("q")
    assert bodies(told) == ["a", "b", "c"]
    assert [row["persistent"] for row in told["messages"]] == [True, True, False]
    assert (told["messages_ready"], told["next"]) == (3, None)
    assert bodies(browse("q")) == ["a", "b", "c"]
    method, _, body = channel.basic_get("q")
    assert (body, method.redelivered) == (b"a", False)


def test_what_came_back_is_in_its_place_again(browse: Ask, channel: Channel):
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "a", "b", "c")
    tags = [channel.basic_get("q")[0].delivery_tag for _ in range(2)]
    channel.basic_nack(tags[1], requeue=True)
    told = eventually(lambda: (told := browse("q"))["messages_ready"] == 2 and told)
    assert bodies(told) == ["b", "c"]
    assert [row["redelivered"] for row in told["messages"]] == [True, False]
    held = browse("q", state="unacknowledged")
    assert (bodies(held), held["messages_unacknowledged"], held["hidden"]) == (["a"], 1, 0)


def test_transient_messages_with_a_client_are_counted_and_not_shown(browse: Ask, channel: Channel):
    channel.queue_declare("q")
    publish(channel, "q", "a", delivery_mode=1)
    channel.basic_get("q")
    told = browse("q", state="unacknowledged")
    assert (bodies(told), told["hidden"]) == ([], 1)


def test_higher_priorities_come_first_over_all_pages(browse: Ask, channel: Channel):
    channel.queue_declare("q", durable=True, arguments={"x-max-priority": 3})
    for number in range(20):
        publish(channel, "q", f"{number % 5}.{number:02}", priority=number % 5)
    seen = [body for told in pages(browse, "q", count=3) for body in bodies(told)]
    expected = sorted((f"{number % 5}.{number:02}" for number in range(20)), key=lambda body: (-min(int(body[0]), 3), body[2:]))
    assert seen == expected


def test_a_long_backlog_of_which_the_end_is_on_disk_alone_is_seen_whole(browse: Ask, channel: Channel, node: Node, vhost: str):
    channel.queue_declare("q", durable=True)
    quick = channel.connection.channel()        # which does not wait for a confirm of each
    for number in range(9000):
        quick.basic_publish("", "q", f"m{number:05}".encode(), pika.BasicProperties(delivery_mode=2))
    row = eventually(lambda: (row := node.api("GET", f"/api/queues/{quote(vhost)}/q"))["messages"] == 9000 and row)
    assert row["messages_paged_out"] > 0
    seen = [body for told in pages(browse, "q", count=200) for body in bodies(told)]
    assert seen == [f"m{number:05}" for number in range(9000)]
    found = [body for told in pages(browse, "q", text="M0899", count=200) for body in bodies(told)]
    assert found == [f"m{number:05}" for number in range(8990, 9000)]


@pytest.mark.parametrize(("where", "found"), [
    ("any", ["Payload", "by key", "by header", "by property"]), ("payload", ["Payload"]), ("routing_key", ["by key"]),
    ("properties", ["by header", "by property"])])
def test_a_search_looks_where_it_is_told_to(browse: Ask, channel: Channel, where: str, found: list[str]):
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "#")
    sent: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("k", "no", {}), ("k", "Payload of pAyLoAd", {}), ("payload.key", "by key", {}),
        ("k", "by header", {"headers": {"x": "Payload"}}), ("k", "by property", {"message_id": "payload-7"}))
    for key, body, properties in sent:
        channel.basic_publish("amq.topic", key, body.encode(), pika.BasicProperties(delivery_mode=2, **properties))
    told = browse("q", text="payload", in_=where)
    assert [body.partition(" of")[0] for body in bodies(told)] == found
    assert told["scanned"] == 5


def test_a_search_is_bounded_and_goes_on_where_it_stopped(browse: Ask, channel: Channel):
    channel.queue_declare("q", durable=True)
    for number in range(20):
        publish(channel, "q", "x" * (1 << 20) + str(number))
    first = browse("q", text="x19")
    assert (first["messages"], first["scanned"] < 20) == ([], True)
    assert [len(told["messages"]) for told in pages(browse, "q", text="x19")][-1] == 1


def test_payloads_are_cut_and_binary_ones_are_encoded(browse: Ask, channel: Channel):
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "é" * 10)
    channel.basic_publish("", "q", b"\xff\x00", pika.BasicProperties(delivery_mode=2))
    cut, binary = browse("q", truncate=5)["messages"]
    assert (cut["payload"], cut["payload_encoding"], cut["payload_bytes"]) == ("éé", "string", 20)
    assert (binary["payload"], binary["payload_encoding"]) == ("/wA=", "base64")


@pytest.mark.parametrize("query", [
    "count=201", "count=x", "truncate=70000", "after=1", "after=a.b", "in=body", "state=gone", f"text={'x' * 1025}"])
def test_what_makes_no_sense_is_refused(node: Node, vhost: str, channel: Channel, query: str):
    channel.queue_declare("q")
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/q/messages?{query}").status == 400


def test_an_exclusive_queue_is_its_owners_alone(node: Node, vhost: str, channel: Channel):
    channel.queue_declare("q", exclusive=True)
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/q/messages").status == 400


def test_browsing_needs_the_permission_to_read(node: Node, vhost: str, channel: Channel, user: Callable[..., str]):
    channel.queue_declare("q")
    name = user("management")
    node.grant(vhost, name, read="^other")
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/q/messages", user=name).status == 401
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/q/messages/1", user=name).status == 401
    node.grant(vhost, name, read="^q")
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/q/messages", user=name).status == 200


# --- biographies ----------------------------------------------------------------------------------------------------


def kinds(told: Any) -> list[str]:
    return [entry["kind"] for entry in told["entries"]]


def test_a_life_with_a_delivery_and_an_ack(biography: Ask, channel: Channel):
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "body")
    assert (biography("q", 1)["now"], kinds(biography("q", 1))) == ("ready", ["enqueue"])
    method, _, _ = channel.basic_get("q")
    held = biography("q", 1)
    assert (held["now"], kinds(held)) == ("unacknowledged", ["enqueue", "reserve"])
    channel.basic_ack(method.delivery_tag)
    ended = eventually(lambda: (told := biography("q", 1))["now"] == "gone" and told)
    assert kinds(ended) == ["enqueue", "reserve", "ack"]
    assert ended["message"]["payload"] == "body"


def test_the_consumer_that_holds_a_message_is_named(biography: Ask, channel: Channel):
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "body")
    channel.basic_consume("q", lambda *_: None, consumer_tag="the holder")
    held = eventually(lambda: (told := biography("q", 1))["now"] == "unacknowledged" and told)
    assert held["held_by"]["consumer_tag"] == "the holder"


@pytest.mark.parametrize(("arguments", "end", "words"), [
    ({"x-message-ttl": 0}, None, "expired"), ({"x-max-length": 0}, None, "length limit"), ({}, "purge", "purged"),
    ({}, "reject", "rejected")])
def test_every_other_end_is_told(biography: Ask, channel: Channel, arguments: dict[str, Any], end: str | None, words: str):
    channel.queue_declare("q", durable=True, arguments=arguments)
    publish(channel, "q", "body")
    if end == "purge":
        channel.queue_purge("q")
    elif end == "reject":
        channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=False)
    told = eventually(lambda: (told := biography("q", 1))["now"] == "gone" and told)
    assert (told["entries"][-1]["kind"], words in told["entries"][-1]["sentence"]) == ("drop", True)


def test_a_transient_message_has_no_more_than_its_index(biography: Ask, channel: Channel):
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "t", delivery_mode=1)
    publish(channel, "q", "p")
    told = biography("q", 1)
    assert (told["now"], kinds(told), told["message"]["payload"]) == ("ready", ["skip"], "t")


def test_an_index_that_was_never_given_is_told_as_such(node: Node, biography: Ask, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    told = biography("q", 7)
    assert (told["now"], told["entries"], "no index above 0" in told["note"]) == ("gone", [], True)
    for index in ("0", "x", "9" * 30):
        assert node.ask("GET", f"/api/queues/{quote(vhost)}/q/messages/{index}").status == 400
