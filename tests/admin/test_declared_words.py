"""Words of tutorials that declare queues with mirrors and copies: by HTTP, and by `add_queue` and `list_queues`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat.support import eventually

from .support import Node, refusal

pytestmark = pytest.mark.live
MakeUser = Callable[..., str]


def publish(node: Node, vhost: str, key: str) -> None:
    body = {"properties": {}, "routing_key": key, "payload": "x", "payload_encoding": "string"}
    assert node.api("POST", f"/api/exchanges/{vhost}/amq.default/publish", body) == {"routed": True}


def ready(node: Node, vhost: str, name: str) -> Any:
    return node.api("GET", f"/api/queues/{vhost}/{name}")["messages"]


def declare(node: Node, vhost: str, name: str, **body: Any) -> int:
    return node.ask("PUT", f"/api/queues/{vhost}/{name}", body).status


def test_a_queue_with_copy_from_gets_what_enters_the_other(node: Node, vhost: str):
    assert declare(node, vhost, "first", durable="true", mirrored="false") == 201
    assert declare(node, vhost, "backup", durable="true", copy_from="first", routing_key="#") == 201
    assert declare(node, vhost, "other", durable="true", copy_from="first", routing_key="other.#") == 201
    publish(node, vhost, "first")
    eventually(lambda: (ready(node, vhost, "first"), ready(node, vhost, "backup")) == (1, 1))
    assert ready(node, vhost, "other") == 0
    assert node.api("GET", f"/api/queues/{vhost}/backup")["arguments"] == {"x-copy-from": "first", "x-copy-routing-key": "#"}


@pytest.mark.parametrize(("body", "reason"), [
    ({"copy_from": 1}, "copy_from is no text"),
    ({"copy_from": "a", "arguments": {"x-copy-from": "b"}}, "copy_from and the argument x-copy-from differ"),
    ({"routing_key": "#"}, "routing_key says which messages are copied: copy_from is missing, which says from where"),
    ({"mirrored": "perhaps"}, ["not_boolean", "perhaps"]),
])  # fmt: skip
def test_words_that_make_no_sense_are_refused(node: Node, vhost: str, body: Any, reason: Any):
    reply = node.ask("PUT", f"/api/queues/{vhost}/q", body)
    assert (reply.status, reply.body) == (400, refusal(reason))
    assert node.ask("GET", f"/api/queues/{vhost}/q").status == 404


def test_a_mirrored_queue_gets_a_policy_that_keeps_what_was_said(node: Node, vhost: str):
    node.set_policy(vhost, "limits", ".*", {"max-length": 9}, priority=4)
    assert declare(node, vhost, "a.b", mirrored=True) == 201
    eventually(lambda: node.api("GET", f"/api/queues/{vhost}/a.b").get("policy") == "mirrored-a.b")
    row = node.api("GET", f"/api/queues/{vhost}/a.b")
    assert row["slave_nodes"] == []
    assert row["effective_policy_definition"] == {"ha-mode": "all", "ha-sync-mode": "automatic", "max-length": 9}
    policy = node.api("GET", f"/api/policies/{vhost}/mirrored-a.b")
    assert (policy["pattern"], policy["priority"], policy["apply-to"]) == (r"^a\.b$", 5, "queues")
    assert declare(node, vhost, "a.b", mirrored=True) == 204
    assert declare(node, vhost, "a.b") == 204
    assert len(node.api("GET", f"/api/policies/{vhost}")) == 2
    assert declare(node, vhost, "a.b", mirrored=False) == 204
    eventually(lambda: node.api("GET", f"/api/queues/{vhost}/a.b").get("policy") == "limits")


def test_a_queue_that_a_policy_mirrors_is_not_declared_as_not_mirrored(node: Node, vhost: str):
    node.set_policy(vhost, "ha", ".*", {"ha-mode": "all"})
    eventually(lambda: node.api("GET", f"/api/policies/{vhost}"))
    reply = node.ask("PUT", f"/api/queues/{vhost}/q", {"mirrored": False})
    assert (reply.status, reply.body) == (400, refusal("queue 'q' is mirrored by policy 'ha', whatever is declared"))
    assert node.ask("GET", f"/api/queues/{vhost}/q").status == 404


def test_mirrors_need_the_right_to_make_policies(node: Node, vhost: str, user: MakeUser):
    name = user("management", vhost)
    reply = node.ask("PUT", f"/api/queues/{vhost}/q", {"mirrored": True}, user=name)
    assert (reply.status, reply.body["reason"]) == (401, "User not authorised to access object")
    assert node.ask("GET", f"/api/queues/{vhost}/q").status == 404


def test_add_queue_makes_the_queue_and_its_copies(node: Node, vhost: str):
    done = node.ctl("add_queue", "-p", vhost, "first", 'mirroring={"copies": [{"src_name": "other", "dst_tag": ""}]}')
    assert (done.code, done.err) == (0, "")
    publish(node, vhost, "first")
    eventually(lambda: [ready(node, vhost, name) for name in ("first", "other")] == [1, 1])
    assert node.api("GET", f"/api/queues/{vhost}/other")["durable"] is True
    assert node.ctl("add_queue", "-p", vhost, "third", "mirrored=true", "durable=false").code == 0
    eventually(lambda: node.api("GET", f"/api/queues/{vhost}/third").get("policy") == "mirrored-third")


@pytest.mark.parametrize(("word", "told"), [
    ("colour=red", "'colour=red' is not one of durable=…"),
    ("mirroring=all", "mirroring is not JSON"),
    ('mirroring={"copies": [{}]}', "for mirrors on other nodes use mirrored=true, or set_policy"),
    ('mirroring={"copies": [{"src_name": "o", "dst_tag": "t"}]}', "a dst_tag has no meaning here"),
])  # fmt: skip
def test_add_queue_says_what_it_does_not_know(node: Node, vhost: str, word: str, told: str):
    done = node.ctl("add_queue", "-p", vhost, "q", word)
    assert done.code == 64
    assert told in done.err
    assert node.ask("GET", f"/api/queues/{vhost}/q").status == 404


def test_list_queues_takes_the_name_of_a_queue_before_the_columns(node: Node, vhost: str):
    node.set_policy(vhost, "ha", "^first$", {"ha-mode": "all"})
    for name in ("first", "second"):
        assert declare(node, vhost, name) == 201
    eventually(lambda: node.api("GET", f"/api/queues/{vhost}/first").get("slave_nodes") == [])
    words = ("list_queues", "-q", "-p", vhost)
    assert node.ctl(*words, "first", "slave_pids", "synchronised_slave_pids").lines == ["slave_pids\tsynchronised_slave_pids",
                                                                                      "[]\t[]"]
    assert node.ctl(*words, "second").lines == ["name\tmessages", "second\t0"]
    done = node.ctl(*words, "third", "name")
    assert done.code == 64
    assert f"Info key(s) third are not supported, and there is no queue 'third' in vhost '{vhost}'" in done.err
    done = node.ctl(*words, "first", "nope")
    assert done.code == 64
    assert "Info key(s) nope are not supported\n" in done.err


def test_round_robin_is_written_in_two_ways(node: Node):
    for word in ("round_robin", "round-robin"):
        assert node.ask("POST", "/api/rebalance/queues", {"strategy": word}).status == 204
