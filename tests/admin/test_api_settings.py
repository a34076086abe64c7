"""Virtual hosts, users, permissions, policies, parameters, limits and definitions by HTTP, and what a restart keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from compat.support import unique

from .conftest import Connect
from .support import NODE, NOT_FOUND, Node, quote, refusal

pytestmark = pytest.mark.live
MakeUser = Callable[..., str]
HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"        # of "test12"


# --- virtual hosts and users ----------------------------------------------------------------------------------------


def test_a_virtual_host_is_made_described_and_deleted(node: Node):
    path = f"/api/vhosts/{quote(unique('a/b'))}"
    assert node.ask("PUT", path, {"description": "one", "tags": "x, y"}).status == 201
    assert node.ask("PUT", path, {"description": "two"}).status == 204
    row = node.api("GET", path)
    assert (row["description"], row["tags"], row["tracing"]) == ("two", ["x", "y"], False)
    assert row["cluster_state"] == {NODE: "running"}
    assert node.ask("PUT", path, {"default_queue_type": "quorum"}).status == 400
    assert [node.ask("DELETE", path).status for _ in range(2)] == [204, 404]


def test_whoever_makes_a_virtual_host_by_http_may_use_it(node: Node, user: MakeUser):
    name, vhost = user("administrator"), unique("own")
    node.ask("PUT", f"/api/vhosts/{vhost}", {}, user=name)
    assert node.api("GET", f"/api/permissions/{vhost}/{name}") == {
        "user": name, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
    node.api("DELETE", f"/api/vhosts/{vhost}")


def test_a_deleted_virtual_host_closes_its_connections_and_leaves_nothing(node: Node, connect: Connect):
    vhost = unique("doomed")
    node.add_vhost(vhost)
    channel = connect(virtual_host=vhost).channel()
    channel.queue_declare("q", durable=True)
    channel.exchange_bind("amq.fanout", "amq.direct", "k")
    node.set_policy(vhost, "p", ".*", {"max-length": 1})
    node.api("DELETE", f"/api/vhosts/{vhost}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        channel.queue_declare("late")
    for path in ("queues", "policies", "permissions", "exchanges", "bindings"):
        assert vhost not in {row["vhost"] for row in node.api("GET", f"/api/{path}")}


def test_a_user_is_made_changed_and_deleted(node: Node):
    path = f"/api/users/{unique('u')}"
    assert node.ask("PUT", path, {"password": "a", "tags": "management, other"}).status == 201
    first = node.api("GET", path)
    assert (first["tags"], first["limits"]) == (["management", "other"], {})
    assert first["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert node.ask("PUT", path, {"password_hash": HASH, "tags": ["administrator"]}).status == 204
    assert node.ask("GET", "/api/whoami", user=path.rpartition("/")[2], password="test12").status == 200
    assert [node.ask("DELETE", path).status for _ in range(2)] == [204, 404]


@pytest.mark.parametrize(("body", "reason"), [
    ({"password": "x"}, "tags_not_present"),
    ({"password": "x", "password_hash": HASH, "tags": ""}, "both_password_and_password_hash_are_provided"),
    ({"password_hash": "!", "tags": ""}, ["not_base64", "!"]),
    ({"password_hash": HASH, "hashing_algorithm": "x", "tags": ""}, ["unsupported_hashing_algorithm", "x"]),
    ({"password": 5, "tags": ""}, ["not_string", 5]), ({"tags": [1]}, ["invalid_tags", [1]]),
])  # fmt: skip
def test_a_user_that_cannot_be_is_refused(node: Node, body: Any, reason: Any):
    assert node.ask("PUT", "/api/users/wrong", body).body == refusal(reason)


def test_users_are_deleted_in_bulk(node: Node, user: MakeUser):
    names = [user(), user()]
    assert {*names} <= {row["name"] for row in node.api("GET", "/api/users/without-permissions")}
    reply = node.ask("POST", "/api/users/bulk-delete", {"users": [*names, "nobody"]})
    assert (reply.status, reply.body) == (400, refusal(["no_such_user", "nobody"]))
    assert node.ask("GET", f"/api/users/{names[1]}").status == 404


def test_permissions_are_granted_and_revoked(node: Node, user: MakeUser, vhost: str):
    name = user()
    path = f"/api/permissions/{vhost}/{name}"
    body = {"configure": "^a", "write": ".*", "read": ""}
    assert [node.ask("PUT", path, body).status for _ in range(2)] == [201, 204]
    assert node.api("GET", path) == {"user": name, "vhost": vhost, **body}
    assert node.api("GET", f"/api/users/{name}/permissions") == [node.api("GET", path)]
    assert node.ask("PUT", path, {"configure": "", "write": ""}).body == refusal("[{key_missing,read}]")
    assert node.ask("PUT", path, body | {"read": "("}).body["reason"][0] == "invalid_regexp"
    assert node.ask("PUT", f"/api/permissions/nope/{name}", body).body == refusal("vhost_or_user_not_found")
    assert [node.ask("DELETE", path).status for _ in range(2)] == [204, 404]


def test_topic_permissions_are_kept_by_exchange(node: Node, user: MakeUser, vhost: str):
    path = f"/api/topic-permissions/{vhost}/{user()}"
    for exchange in ("amq.topic", "other"):
        node.api("PUT", path, {"exchange": exchange, "write": "^a", "read": "^b"})
    assert [row["exchange"] for row in node.api("GET", path)] == ["amq.topic", "other"]
    assert node.ask("DELETE", f"{path}/other").status == 204
    assert len(node.api("GET", f"/api/vhosts/{vhost}/topic-permissions")) == 1
    assert [node.ask("DELETE", path).status for _ in range(2)] == [204, 404]


# --- policies, parameters and limits ----------------------------------------------------------------------------------


def test_policies_and_operator_policies_meet_on_a_queue(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    policy = {"pattern": "^q", "definition": {"max-length": 10, "message-ttl": 5}, "priority": 2, "apply-to": "queues"}
    assert node.ask("PUT", f"/api/policies/{vhost}/p", policy).status == 201
    assert node.ask("PUT", f"/api/operator-policies/{vhost}/o",
                    {"pattern": ".*", "definition": {"max-length": 7}}).status == 201
    row = node.api("GET", f"/api/queues/{vhost}/q")
    assert (row["policy"], row["operator_policy"]) == ("p", "o")
    assert row["effective_policy_definition"] == {"max-length": 7, "message-ttl": 5}
    assert node.api("GET", f"/api/policies/{vhost}/p") == {"vhost": vhost, "name": "p", **policy}
    components = {item["component"] for item in node.api("GET", "/api/parameters") if item["vhost"] == vhost}
    assert components == {"operator_policy"}
    assert node.api("GET", f"/api/parameters/policy/{vhost}/p")["value"]["priority"] == 2
    assert [node.ask("DELETE", f"/api/policies/{vhost}/p").status for _ in range(2)] == [204, 404]
    assert node.api("GET", f"/api/queues/{vhost}/q")["policy"] is None


@pytest.mark.parametrize(("body", "reason"), [
    ({"definition": {"max-length": 1}}, "[{key_missing,pattern}]"),
    ({"pattern": "x"}, "[{key_missing,definition}]"),
    ({"pattern": "x", "definition": {}}, "Validation failed\n\nno policy provided\n"),
    ({"pattern": "x", "definition": {"nope": 1}},
     'Validation failed\n\n[{&lt;&lt;"nope"&gt;&gt;,1}] are not recognised policy settings\n'),
    ({"pattern": "x", "definition": {"max-length": -1}}, "Validation failed\n\n-1 is not a valid maximum length\n"),
])  # fmt: skip
def test_a_policy_that_cannot_be_is_refused(node: Node, vhost: str, body: Any, reason: str):
    assert node.ask("PUT", f"/api/policies/{vhost}/p", body).body == refusal(reason)


def test_limits_of_a_virtual_host_are_set_and_hold(node: Node, vhost: str):
    assert node.ask("PUT", f"/api/vhost-limits/{vhost}/max-queues", {"value": 1}).status == 204
    assert node.api("GET", f"/api/vhost-limits/{vhost}") == [{"vhost": vhost, "value": {"max-queues": 1}}]
    node.api("PUT", f"/api/queues/{vhost}/one", {})
    assert "queue limit in vhost" in node.ask("PUT", f"/api/queues/{vhost}/two", {}).body["reason"]
    value = node.api("GET", f"/api/parameters/vhost-limits/{vhost}/limits")["value"]
    assert value == {"max-queues": 1}
    reply = node.ask("PUT", f"/api/vhost-limits/{vhost}/nope", {"value": 1})
    assert reply.body == refusal('Validation failed\n\nUnrecognised terms [{<<"nope">>,1}] in limits\n')
    assert node.ask("DELETE", f"/api/vhost-limits/{vhost}/max-queues").status == 204
    assert node.api("GET", f"/api/vhost-limits/{vhost}") == []


def test_limits_of_a_user_are_set(node: Node, user: MakeUser):
    name = user()
    assert node.ask("PUT", f"/api/user-limits/{name}/max-channels", {"value": 2}).status == 204
    assert node.api("GET", f"/api/user-limits/{name}") == [{"user": name, "value": {"max-channels": 2}}]
    node.api("PUT", f"/api/users/{name}", {"password": "other", "tags": ""})
    assert node.api("GET", f"/api/users/{name}")["limits"] == {"max-channels": 2}
    assert node.ask("PUT", f"/api/user-limits/{name}/nope", {"value": 1}).body == refusal(
        'Unrecognised terms [{<<"nope">>,1}] in user-limits')
    assert node.ask("PUT", "/api/user-limits/nobody/max-channels", {"value": 1}).body == refusal(
        ["no_such_user", "nobody"])
    assert node.ask("DELETE", f"/api/user-limits/{name}/max-channels").status == 204


def test_parameters_go_to_their_components(node: Node, vhost: str):
    path = f"/api/parameters/federation-upstream/{vhost}/up"
    assert [node.ask("PUT", path, {"value": {"uri": "amqp://"}}).status for _ in range(2)] == [201, 204]
    assert node.api("GET", path)["value"] == {"uri": "amqp://"}
    assert node.ask("DELETE", path).status == 204
    assert node.ask("PUT", f"/api/parameters/nope/{vhost}/x", {"value": 1}).body == refusal(
        "Validation failed\n\ncomponent nope not found\n")
    assert node.ask("PUT", f"/api/parameters/policy/{vhost}/x", {"value": 1}).body == refusal(
        "policies may not be set using this method")


def test_global_parameters_are_set_and_cleared(node: Node):
    path = f"/api/global-parameters/{unique('g')}"
    assert [node.ask("PUT", path, {"value": [1]}).status for _ in range(2)] == [201, 204]
    assert node.api("GET", path)["value"] == [1]
    assert [node.ask("DELETE", path).status for _ in range(2)] == [204, 404]


# --- definitions ----------------------------------------------------------------------------------------------------


def definitions(vhost: str, user: str) -> dict[str, Any]:
    return {
        "rabbit_version": "3.8.0", "unknown": [], "vhosts": [{"name": vhost}],
        "users": [{"name": user, "password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_sha256",
                   "tags": "management"}],
        "permissions": [{"user": user, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}],
        "topic_permissions": [{"user": user, "vhost": vhost, "exchange": "amq.topic", "write": "a", "read": "b"}],
        "parameters": [{"component": "vhost-limits", "vhost": vhost, "name": "limits", "value": {"max-queues": 50}},
                       {"component": "operator_policy", "vhost": vhost, "name": "o",
                        "value": {"pattern": ".*", "definition": {"max-length": 9}}}],
        "policies": [{"vhost": vhost, "name": "p", "pattern": "^q", "apply-to": "queues",
                      "definition": {"max-length": 5}, "priority": 2}],
        "exchanges": [{"name": "x", "vhost": vhost, "type": "topic", "durable": True, "auto_delete": False,
                       "internal": False, "arguments": {}}],
        "queues": [{"name": "q", "vhost": vhost, "durable": True, "auto_delete": False,
                    "arguments": {"x-max-priority": 3}}],
        "bindings": [{"source": "x", "vhost": vhost, "destination": "q", "destination_type": "queue",
                      "routing_key": "k", "arguments": {}},
                     {"source": "nope", "vhost": vhost, "destination": "q", "destination_type": "queue",
                      "routing_key": "k", "arguments": {}}],
    }  # fmt: skip


def test_definitions_go_in_and_come_out_the_same(node: Node, vhost: str, user: MakeUser):
    name = user()
    document = definitions(vhost, name)
    for _ in range(2):
        assert node.ask("POST", "/api/definitions", document).status == 204
    found = node.api("GET", "/api/definitions")
    for section, rows in document.items():
        if section in ("queues", "exchanges", "policies", "permissions", "topic_permissions"):
            assert all(row in found[section] for row in rows)
    assert document["bindings"][0] in found["bindings"]
    of_vhost = node.api("GET", f"/api/definitions/{vhost}")
    assert [row["name"] for row in of_vhost["queues"]] == ["q"]
    assert "vhost" not in of_vhost["queues"][0]
    assert node.api("GET", f"/api/queues/{vhost}/q")["effective_policy_definition"] == {"max-length": 5}


def test_definitions_can_go_to_another_virtual_host_or_come_as_a_form(node: Node, vhost: str):
    body = {"queues": [{"name": "q", "vhost": "elsewhere", "durable": True, "auto_delete": False, "arguments": {}}]}
    assert node.ask("POST", f"/api/definitions/{vhost}", body).status == 204
    assert node.ask("GET", f"/api/queues/{vhost}/q").status == 200
    form = ('--XX\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n'
            + json.dumps({"queues": [{"name": "form", "vhost": vhost}]}) + "\r\n--XX--\r\n")
    headers = {"Content-Type": "multipart/form-data; boundary=XX"}
    assert node.ask("POST", "/api/definitions", raw=form.encode(), headers=headers).status == 204
    assert node.ask("GET", f"/api/queues/{vhost}/form").status == 200


@pytest.mark.parametrize(("change", "reason"), [
    ({"queues": [{"name": "q", "vhost": "nope"}]}, ["no_such_vhost", "nope"]),
    ({"queues": [{"name": "q"}]}, ["no_such_vhost", "undefined"]),
    ({"permissions": [{"user": "nobody", "vhost": "/"}]}, ["no_such_user", "nobody"]),
    ({"users": [{"name": "x"}]}, "tags_not_present"),
    ({"policies": [{"name": "p", "vhost": "/", "pattern": "x", "definition": {}}]},
     "Validation failed\n\nno policy provided\n (//p)"),
    ({"parameters": [{"component": "nope", "name": "p", "vhost": "/", "value": 1}]},
     "Validation failed\n\ncomponent nope not found\n (//nope/p)"),
    ({"queues": "x"}, "queues is not a list of objects"),
])  # fmt: skip
def test_definitions_with_a_fault_change_nothing(node: Node, change: dict[str, Any], reason: Any):
    vhost = unique("never")
    reply = node.ask("POST", "/api/definitions", {"vhosts": [{"name": vhost}], **change})
    assert (reply.status, reply.body) == (400, refusal(reason))
    assert node.ask("GET", f"/api/vhosts/{vhost}").body == NOT_FOUND


def test_definitions_that_are_no_json_are_refused(node: Node):
    assert node.ask("POST", "/api/definitions", raw=b"{bad").body == refusal("failed_to_parse_json")


def test_a_restart_keeps_what_was_set(run_directory: None, tmp_path: Path):
    server = Node(tmp_path, name="kept@localhost")
    server.start()
    server.api("POST", "/api/definitions", definitions("kept", "somebody"))
    server.api("PUT", "/api/cluster-name", {"name": "ours"})
    server.api("PUT", "/api/user-limits/somebody/max-channels", {"value": 2})
    server.api("PUT", "/api/vhosts/gone", {})
    server.api("POST", "/api/bindings/gone/e/amq.topic/e/amq.fanout", {})
    server.api("DELETE", "/api/vhosts/gone")
    before = server.api("GET", "/api/definitions")
    server.restart()
    after = server.api("GET", "/api/definitions")
    for document in (before, after):
        for rows in document.values():
            if isinstance(rows, list):
                rows.sort(key=json.dumps)
    assert before == after
    assert server.api("GET", "/api/cluster-name") == {"name": "ours"}
    server.stop()


def test_definitions_of_the_configuration_are_loaded_at_the_start(run_directory: None, tmp_path: Path):
    """And a blank node makes no default user and virtual host beside them, as RabbitMQ."""
    document = definitions("loaded", "somebody")
    document["users"].append({"name": "boss", "password": "boss", "tags": "administrator"})
    document["permissions"].append({"user": "boss", "vhost": "loaded", "configure": "", "write": "", "read": ""})
    (tmp_path / "defs.json").write_text(json.dumps(document))
    (tmp_path / "node.conf").write_text(f"load_definitions = {tmp_path / 'defs.json'}\n")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="load@localhost")
    server.user = server.password = "boss"
    server.start()
    for _ in range(2):
        assert server.api("GET", "/api/queues/loaded/q")["arguments"] == {"x-max-priority": 3}
        assert {user["name"] for user in server.api("GET", "/api/users")} == {"boss", "somebody"}
        assert [vhost["name"] for vhost in server.api("GET", "/api/vhosts")] == ["loaded"]
        server.restart()
    server.stop()


def test_definitions_leave_the_users_alone_that_are_there(run_directory: None, tmp_path: Path):
    (tmp_path / "node.conf").write_text("")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="load@localhost")
    server.start()
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "1.json").write_text(json.dumps(definitions("loaded", "somebody")))
    (tmp_path / "defs" / "README").write_text("not read")
    (tmp_path / "node.conf").write_text(f"load_definitions = {tmp_path / 'defs'}\n")
    server.restart()
    assert {user["name"] for user in server.api("GET", "/api/users")} == {"guest", "somebody"}
    assert [vhost["name"] for vhost in server.api("GET", "/api/vhosts")] == ["/", "loaded"]
    server.stop()


def test_definitions_with_a_fault_stop_the_start(run_directory: None, tmp_path: Path):
    (tmp_path / "defs.json").write_text('{"queues": [{"name": "q", "vhost": "nope"}]}')
    (tmp_path / "node.conf").write_text(f"load_definitions = {tmp_path / 'defs.json'}\n")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="load@localhost")
    with pytest.raises(RuntimeError, match=r"cannot be imported: .*no such vhost: "):
        server.start()
    assert "Traceback" not in server.log()


@pytest.mark.parametrize("text", [
    "[" * 200_000, '{"users": [{"name": "u", "password": "\\ud800", "tags": ""}]}', '{"users": NaN}',
], ids=["deep", "half a letter", "no number"])  # fmt: skip
def test_definitions_that_are_no_json_stop_the_start_with_a_sentence(run_directory: None, tmp_path: Path, text: str):
    (tmp_path / "defs.json").write_text(text)
    (tmp_path / "node.conf").write_text(f"load_definitions = {tmp_path / 'defs.json'}\n")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="load@localhost")
    with pytest.raises(RuntimeError, match="definitions cannot be read from"):
        server.start()
    assert "Traceback" not in server.log()
