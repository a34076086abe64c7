"""What callers get wrong is told to them, and is no fault of the node."""

from __future__ import annotations

from typing import Any

import pytest

from .support import Node, quote

pytestmark = pytest.mark.live
LONG = "x" * 256
LETTER = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
TOO_LONG = "a name, a routing key and the name of a header have at most 255 bytes"


@pytest.mark.parametrize(("method", "path", "body", "reason"), [
    ("PUT", f"/api/queues/{{vhost}}/{LONG}", {}, "queue should be less than 255 bytes, actually was 256\n"),
    ("PUT", f"/api/queues/{{vhost}}/{quote('ü' * 128)}", {}, "queue should be less than 255 bytes, actually was 256\n"),
    ("PUT", f"/api/exchanges/{{vhost}}/{LONG}", {"type": "fanout"}, TOO_LONG),
    ("PUT", "/api/queues/{vhost}/q", {"arguments": {LONG: 1}}, TOO_LONG),
    ("POST", "/api/exchanges/{vhost}/amq.default/publish", LETTER | {"routing_key": LONG}, TOO_LONG),
    ("POST", f"/api/exchanges/{{vhost}}/{LONG}/publish", LETTER, TOO_LONG),
    ("POST", "/api/exchanges/{vhost}/amq.default/publish", LETTER | {"properties": {"headers": {LONG: 1}}}, TOO_LONG),
    ("POST", f"/api/queues/{{vhost}}/{LONG}/get", GET, TOO_LONG),
    ("PUT", "/api/queues/{vhost}/q", {"arguments": {"a": float("inf")}}, "not_json"),
    ("PUT", "/api/lake-mirrors/{vhost}/lake", {"queues": [1]}, "queues are not a JSON object"),
    ("PUT", "/api/permissions/{vhost}/guest", {"configure": ".*"}, "[{key_missing,write},{key_missing,read}]"),
    ("PUT", "/api/policies/{vhost}/p", {}, "[{key_missing,pattern},{key_missing,definition}]"),
    ("POST", "/api/exchanges/{vhost}/amq.default/publish", {},
     "[{key_missing,routing_key},\n {key_missing,properties},\n {key_missing,payload},\n {key_missing,payload_encoding}]"),
])  # fmt: skip
def test_a_mistake_is_a_bad_request(node: Node, vhost: str, method: str, path: str, body: Any, reason: str):
    reply = node.ask(method, path.replace("{vhost}", quote(vhost)), body)
    assert (reply.status, reply.body) == (400, {"error": "bad_request", "reason": reason})


def test_a_number_without_end_is_no_json(node: Node, vhost: str):
    reply = node.ask("PUT", f"/api/queues/{quote(vhost)}/q", raw=b'{"arguments": {"a": 1e400}}')
    assert (reply.status, reply.body["reason"]) == (400, "not_json")


@pytest.mark.parametrize(("path", "body"), [
    ("/api/users/half", b'{"password": "\\ud800", "tags": ""}'),
    ("/api/users/half", b'{"password": "a", "tags": "\\udc80"}'),
    ("/api/policies/{vhost}/half", b'{"pattern": "a", "definition": {"\\uDBFF": 1}}'),
    ("/api/users/half", b'{"password": "\xed\xa0\x80", "tags": ""}'),
    ("/api/users/half", '{"password": "\\ud800", "tags": ""}'.encode("utf-16")),
])  # fmt: skip
def test_half_a_letter_is_no_json(node: Node, vhost: str, path: str, body: bytes):
    reply = node.ask("PUT", path.replace("{vhost}", quote(vhost)), raw=body)
    assert (reply.status, reply.body["reason"]) == (400, "not_json")


def test_a_letter_may_be_written_in_two_halves(node: Node, vhost: str):
    raw = b'{"value": "\\ud83d\\ude00 \\u00fc"}'
    assert node.ask("PUT", "/api/global-parameters/letters", raw=raw).status == 201
    assert node.ask("GET", "/api/global-parameters/letters").body["value"] == "\U0001f600 ü"
    node.ask("DELETE", "/api/global-parameters/letters")


@pytest.mark.parametrize(("kind", "body"), [("queues", {}), ("exchanges", {"type": "fanout"})])
def test_a_name_that_is_no_text_makes_nothing(node: Node, vhost: str, kind: str, body: Any):
    reply = node.ask("PUT", f"/api/{kind}/{quote(vhost)}/%FD%FE", body)
    assert (reply.status, reply.body["reason"]) == (400, "Malformed UTF-8 in shortstr")
    assert node.ask("GET", f"/api/{kind}/{quote(vhost)}/%FD%FE").status == 404
