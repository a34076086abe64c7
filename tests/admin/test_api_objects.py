"""Queues, exchanges, bindings, messages and connections by HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pika
import pika.exceptions
import pytest

from compat.support import eventually

from .conftest import Connect
from .support import NODE, NOT_FOUND, Node, quote, refusal

pytestmark = pytest.mark.live
GET = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"}


def publish(node: Node, vhost: str, key: str, payload: str = "x", **more: Any) -> Any:
    body = {"properties": {}, "routing_key": key, "payload": payload, "payload_encoding": "string"} | more
    return node.api("POST", f"/api/exchanges/{vhost}/amq.default/publish", body)


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


# --- queues ---------------------------------------------------------------------------------------------------------


def test_a_queue_is_made_once_and_gone_after_its_deletion(node: Node, vhost: str):
    path = f"/api/queues/{vhost}/q"
    body = {"durable": True, "arguments": {"x-max-length": 10, "x-dead-letter-exchange": "dead"}}
    assert [node.ask("PUT", path, body).status for _ in range(2)] == [201, 204]
    row = node.api("GET", path)
    assert (row["durable"], row["arguments"], row["messages"]) == (True, body["arguments"], 0)
    assert node.ask("DELETE", path).status == 204
    assert [node.ask(method, path).status for method in ("GET", "DELETE")] == [404, 404]


def test_no_body_is_an_empty_one_and_names_may_hold_anything(node: Node, vhost: str):
    path = f"/api/queues/{vhost}/{quote('a/b c?ü')}"
    assert node.ask("PUT", path).status == 201
    assert node.api("GET", path)["name"] == "a/b c?ü"
    assert node.api("GET", path)["durable"] is False


@pytest.mark.parametrize(("body", "reason"), [
    ({"durable": "maybe"}, ["not_boolean", "maybe"]),
    ({"node": "nope@localhost"}, "Node nope@localhost could not be contacted"),
    ({"arguments": {"x-expires": 0}}, "invalid arg 'x-expires' for queue 'q' in vhost 'VHOST': {value_zero,0}"),
    ({"arguments": {"x": None}}, "null_not_allowed"),
])  # fmt: skip
def test_a_queue_that_cannot_be_is_refused(node: Node, vhost: str, body: Any, reason: Any):
    reply = node.ask("PUT", f"/api/queues/{vhost}/q", body)
    expected = reason.replace("VHOST", vhost) if isinstance(reason, str) else reason
    assert (reply.status, reply.body) == (400, refusal(expected))


@pytest.mark.parametrize("raw", [b"{not json", b"[1]", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_refused(node: Node, vhost: str, raw: bytes):
    reply = node.ask("PUT", f"/api/queues/{vhost}/q", raw=raw)
    assert (reply.status, reply.body) == (400, refusal("not_json"))


def test_another_declaration_is_refused_in_amqp_words(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {"durable": True})
    reply = node.ask("PUT", f"/api/queues/{vhost}/q", {"durable": False})
    assert reply.body == refusal(
        f"inequivalent arg 'durable' for queue 'q' in vhost '{vhost}': received 'false' but current is 'true'")
    assert node.ask("PUT", f"/api/queues/{vhost}/amq.q", {}).status == 401


def test_conditions_keep_a_queue_from_being_deleted(node: Node, vhost: str, connect: Connect):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    publish(node, vhost, "q")
    reply = node.ask("DELETE", f"/api/queues/{vhost}/q?if-empty=true")
    assert (reply.status, reply.body) == (400, refusal(f"queue 'q' in vhost '{vhost}' not empty"))
    connect().channel().basic_consume("q", lambda *_: None)
    reply = node.ask("DELETE", f"/api/queues/{vhost}/q?if-unused=true")
    assert reply.body == refusal(f"queue 'q' in vhost '{vhost}' in use")


def test_an_unknown_vhost_is_named_differently_to_readers_and_writers(node: Node):
    assert node.ask("GET", "/api/queues/nope").body == NOT_FOUND
    reply = node.ask("PUT", "/api/queues/nope/q", {})
    assert (reply.status, reply.body) == (404, refusal("vhost_not_found", "not_found"))


def test_an_exclusive_queue_is_locked(node: Node, vhost: str, connect: Connect):
    name = connect().channel().queue_declare("", exclusive=True).method.queue
    path = f"/api/queues/{vhost}/{quote(name)}"
    assert node.api("GET", path)["owner_pid_details"]["peer_host"] == "127.0.0.1"
    for method, where in (("DELETE", path), ("DELETE", path + "/contents")):
        reply = node.ask(method, where)
        assert reply.status == 400
        assert reply.body["reason"].startswith("cannot obtain exclusive access to locked queue")
    assert node.ask("POST", path + "/get", GET).body["reason"].startswith("405 RESOURCE_LOCKED - cannot obtain")


def test_lists_are_paged_sorted_and_filtered(node: Node, vhost: str):
    for at in range(5):
        node.api("PUT", f"/api/queues/{vhost}/q{at}", {})
    for at in (1, 3, 3):
        publish(node, vhost, f"q{at}")
    path = f"/api/queues/{vhost}"
    assert names(node.api("GET", path)) == ["q0", "q1", "q2", "q3", "q4"]
    page = node.api("GET", path + "?page=2&page_size=2&sort=name&sort_reverse=true")
    assert names(page.pop("items")) == ["q2", "q1"]
    assert page == {"filtered_count": 5, "item_count": 2, "page": 2, "page_count": 3, "page_size": 2, "total_count": 5}
    found = node.api("GET", path + "?page=1&page_size=9&name=%5Eq%5B13%5D&use_regex=true&columns=name")
    assert (found["items"], found["filtered_count"], found["total_count"]) == ([{"name": "q1"}, {"name": "q3"}], 2, 5)
    busiest = node.api("GET", path + "?sort=messages&sort_reverse=true&columns=name,messages")
    assert busiest[:2] == [{"messages": 2, "name": "q3"}, {"messages": 1, "name": "q1"}]
    top = node.api("GET", path + "?sort=messages&sort_reverse=true&page=1&page_size=1&columns=name")
    assert top["items"] == [{"name": "q3"}]


# --- exchanges and bindings -------------------------------------------------------------------------------------------


def test_an_exchange_is_made_once_and_gone_after_its_deletion(node: Node, vhost: str):
    path = f"/api/exchanges/{vhost}/x"
    body = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}}
    assert [node.ask("PUT", path, body).status for _ in range(2)] == [201, 204]
    assert node.api("GET", path)["type"] == "topic"
    assert node.ask("PUT", path, {"type": "nope"}).body == refusal("unknown exchange type 'nope'")
    assert node.ask("DELETE", path).status == 204
    assert node.ask("GET", path).body == NOT_FOUND


def test_the_default_exchange_has_a_name_in_paths_and_cannot_be_changed(node: Node, vhost: str):
    path = f"/api/exchanges/{vhost}/amq.default"
    assert node.api("GET", path)["name"] == ""
    assert node.ask("DELETE", path).status == 401
    assert node.ask("DELETE", f"/api/exchanges/{vhost}/amq.direct").status == 401


def test_bindings_have_places_of_their_own(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    path = f"/api/bindings/{vhost}/e/amq.topic/q/q"
    reply = node.ask("POST", path, {"routing_key": "a.*"})
    assert (reply.status, reply.headers["location"]) == (201, "q/a.%252A")
    assert node.ask("POST", path, {}).headers["location"] == "q/~"
    with_arguments = node.ask("POST", path, {"routing_key": "b/c", "arguments": {"x": "y"}}).headers["location"]
    rows = node.api("GET", path)
    assert [row["routing_key"] for row in rows] == ["", "a.*", "b/c"]
    assert [row["properties_key"] for row in rows][:2] == ["~", "a.%2A"]
    assert node.api("GET", f"{path}/a.%252A")["routing_key"] == "a.*"
    for place in ("q/a.%252A", "q/~", with_arguments):
        assert node.ask("DELETE", f"/api/bindings/{vhost}/e/amq.topic/q/{place}").status == 204
    assert node.api("GET", path) == []
    assert node.ask("DELETE", f"{path}/~").body == NOT_FOUND


def test_every_queue_is_bound_to_the_default_exchange(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    implied = {"source": "", "vhost": vhost, "destination": "q", "destination_type": "queue", "routing_key": "q",
               "arguments": {}, "properties_key": "q"}
    for path in (f"queues/{vhost}/q/bindings", f"bindings/{vhost}", f"bindings/{vhost}/e/amq.default/q/q",
                 f"exchanges/{vhost}/amq.default/bindings/source"):
        assert node.api("GET", f"/api/{path}") == [implied]


def test_exchanges_are_bound_to_each_other(node: Node, vhost: str):
    reply = node.ask("POST", f"/api/bindings/{vhost}/e/amq.topic/e/amq.fanout", {"routing_key": "#"})
    assert (reply.status, reply.headers["location"]) == (201, "amq.fanout/%2523")
    assert len(node.api("GET", f"/api/exchanges/{vhost}/amq.topic/bindings/source")) == 1
    assert len(node.api("GET", f"/api/exchanges/{vhost}/amq.fanout/bindings/destination")) == 1
    assert node.ask("DELETE", f"/api/bindings/{vhost}/e/amq.topic/e/amq.fanout/%2523").status == 204


def test_a_binding_needs_both_ends(node: Node, vhost: str):
    reply = node.ask("POST", f"/api/bindings/{vhost}/e/nope/q/q", {})
    assert (reply.status, reply.body) == (404, refusal(f"no exchange 'nope' in vhost '{vhost}'", "not_found"))
    reply = node.ask("POST", f"/api/bindings/{vhost}/e/amq.topic/q/nope", {})
    assert reply.body == refusal(f"no queue 'nope' in vhost '{vhost}'", "not_found")


# --- messages -------------------------------------------------------------------------------------------------------


def test_a_message_goes_in_and_comes_out(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {"durable": True})
    properties = {"delivery_mode": 2, "content_type": "text/plain", "headers": {"a": 1, "b": [True, "x"]}, "nosuch": 1}
    assert publish(node, vhost, "q", "hällo", properties=properties) == {"routed": True}
    assert publish(node, vhost, "nowhere") == {"routed": False}
    [row] = node.api("POST", f"/api/queues/{vhost}/q/get", GET)
    assert row == {
        "payload": "hällo", "payload_bytes": 6, "payload_encoding": "string", "exchange": "", "routing_key": "q",
        "message_count": 0, "redelivered": False,
        "properties": {"delivery_mode": 2, "content_type": "text/plain", "headers": {"a": 1, "b": [True, "x"]}},
    }  # fmt: skip


@pytest.mark.parametrize(("mode", "left"), [
    ("ack_requeue_true", 3), ("reject_requeue_true", 3), ("ack_requeue_false", 1), ("reject_requeue_false", 1),
])  # fmt: skip
def test_getting_leaves_or_takes_messages(node: Node, vhost: str, mode: str, left: int):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    for text in "abc":
        publish(node, vhost, "q", text)
    rows = node.api("POST", f"/api/queues/{vhost}/q/get", GET | {"count": 2, "ackmode": mode})
    assert [(row["payload"], row["message_count"], row["properties"]) for row in rows] == [("a", 2, []), ("b", 1, [])]
    rest = node.api("POST", f"/api/queues/{vhost}/q/get", GET)
    assert (len(rest), rest[0]["redelivered"]) == (left, left == 3)


def test_bytes_that_are_no_text_travel_in_base64(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    payload = base64.b64encode(b"\xff\xfe\xfd\xfc").decode()
    publish(node, vhost, "q", payload, payload_encoding="base64")
    [row] = node.api("POST", f"/api/queues/{vhost}/q/get", GET | {"truncate": 2})
    assert (row["payload"], row["payload_encoding"], row["payload_bytes"]) == ("//4=", "base64", 4)


@pytest.mark.parametrize(("change", "reason"), [
    ({"payload_encoding": "rot13"}, ["unsupported_encoding", "rot13"]),
    ({"payload_encoding": "base64", "payload": "!!"}, ["not_base64", "!!"]),
    ({"properties": {"priority": "high"}}, ["not_int", "priority"]),
    ({"properties": {"headers": {"a": None}}}, "null_not_allowed"),
    ({"routing_key": None}, "[{key_missing,routing_key}]"),
])  # fmt: skip
def test_a_message_that_cannot_be_is_refused(node: Node, vhost: str, change: dict[str, Any], reason: Any):
    body = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"} | change
    body = {key: value for key, value in body.items() if value is not None}
    reply = node.ask("POST", f"/api/exchanges/{vhost}/amq.default/publish", body)
    assert (reply.status, reply.body) == (400, refusal(reason))


def test_publishing_where_nobody_may_is_refused_in_amqp_words(node: Node, vhost: str):
    node.api("PUT", f"/api/exchanges/{vhost}/inner", {"internal": True})
    body = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
    reply = node.ask("POST", f"/api/exchanges/{vhost}/nope/publish", body)
    assert reply.body == refusal(f"404 NOT_FOUND - no exchange 'nope' in vhost '{vhost}'")
    reply = node.ask("POST", f"/api/exchanges/{vhost}/inner/publish", body)
    assert reply.body["reason"].startswith("403 ACCESS_REFUSED - cannot publish to internal exchange 'inner'")


@pytest.mark.parametrize(("change", "reason"), [
    ({"count": None}, "[{key_missing,count}]"), ({"ackmode": None}, "[{key_missing,ackmode}]"),
    ({"count": "x"}, ["not_integer", "x"]), ({"count": "--5"}, ["not_integer", "--5"]),
    ({"ackmode": "keep"}, ["unknown_ackmode", "keep"]),
    ({"encoding": "bad"}, "Unsupported encoding. Please use auto or base64."),
])  # fmt: skip
def test_getting_in_ways_that_do_not_exist_is_refused(node: Node, vhost: str, change: dict[str, Any], reason: Any):
    body = {key: value for key, value in (GET | change).items() if value is not None}
    assert node.ask("POST", f"/api/queues/{vhost}/q/get", body).body == refusal(reason)


def test_a_queue_is_purged(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {"durable": True})
    publish(node, vhost, "q", properties={"delivery_mode": 2})
    assert node.ask("DELETE", f"/api/queues/{vhost}/q/contents").status == 204
    assert node.api("GET", f"/api/queues/{vhost}/q")["messages"] == 0
    assert node.ask("DELETE", f"/api/queues/{vhost}/nope/contents").body == NOT_FOUND


def test_the_aliveness_test_publishes_and_gets(node: Node, vhost: str):
    assert node.api("GET", f"/api/aliveness-test/{vhost}") == {"status": "ok"}
    assert node.api("GET", f"/api/queues/{vhost}/aliveness-test")["messages"] == 0


# --- connections and consumers ----------------------------------------------------------------------------------------


def test_a_connection_is_shown_and_closed_with_a_reason(node: Node, vhost: str, connect: Connect):
    connection = connect(client_properties={"connection_name": "mine"})
    channel = connection.channel()
    [row] = node.api("GET", f"/api/vhosts/{vhost}/connections")
    assert (row["user"], row["state"], row["user_provided_name"], row["channels"]) == ("guest", "running", "mine", 1)
    path = f"/api/connections/{quote(row['name'])}"
    assert node.api("GET", path)["name"] == row["name"]
    assert names(node.api("GET", path + "/channels")) == [f"{row['name']} (1)"]
    assert node.ask("DELETE", path, headers={"X-Reason": "because I say so"}).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.queue_declare("late")
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - because I say so")
    eventually(lambda: node.ask("GET", path).status == 404)


def test_consumers_show_whose_turn_it_is(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("q", arguments={"x-single-active-consumer": True})
    channel.basic_qos(prefetch_count=7)
    for tag in ("one", "two"):
        channel.basic_consume("q", lambda *_: None, consumer_tag=tag, arguments={"x-priority": 0})
    rows = {row["consumer_tag"]: row for row in node.api("GET", f"/api/consumers/{vhost}")}
    assert (rows["one"]["activity_status"], rows["two"]["activity_status"]) == ("single_active", "waiting")
    assert (rows["one"]["prefetch_count"], rows["one"]["channel_details"]["node"]) == (7, NODE)
    queue = node.api("GET", f"/api/queues/{vhost}/q")
    assert (queue["single_active_consumer_tag"], queue["consumers"]) == ("one", 2)
    [shown] = node.api("GET", f"/api/vhosts/{vhost}/channels")
    assert (shown["consumer_count"], shown["prefetch_count"]) == (2, 7)
    details = node.api("GET", f"/api/channels/{quote(shown['name'])}")["consumer_details"]
    assert {row["consumer_tag"] for row in details} == {"one", "two"}
