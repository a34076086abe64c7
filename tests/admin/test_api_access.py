"""Who gets in, and what their tags let them see and do."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from compat.support import PATIENCE
from mirrormq.admin import rendezvous

from .conftest import Connect
from .support import NODE, NOT_FOUND, Node, quote, refusal

pytestmark = pytest.mark.live
MakeUser = Callable[..., str]

NOT_MANAGEMENT = refusal("Not management user", "not_authorised")
NOT_MONITOR = refusal("Not monitor user", "not_authorised")
NOT_ADMINISTRATOR = refusal("Not administrator user", "not_authorised")
NOT_OBJECT = refusal("User not authorised to access object", "not_authorised")
NOT_VHOST = refusal("User not authorised to access virtual host", "not_authorised")
ACCESS_REFUSED = refusal("Access refused.", "not_authorised")


def test_without_a_login_the_answer_is_empty_and_asks_for_one(node: Node):
    reply = node.ask("GET", "/api/overview", user=None)
    assert (reply.status, reply.body) == (401, None)
    assert reply.headers["www-authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize("login", ["guest:wrong", "nobody:guest", "guest:", ":"])
def test_a_wrong_login_is_refused(node: Node, login: str):
    header = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    reply = node.ask("GET", "/api/overview", user=None, headers=header)
    assert (reply.status, reply.body) == (401, refusal("Login failed", "not_authorized"))


@pytest.mark.parametrize(("header", "status"), [
    ("Basic !!!", 400), ("Basic " + base64.b64encode(b"nocolon").decode(), 400), ("Digest x", 401), ("Bearer x", 401),
])  # fmt: skip
def test_a_login_that_cannot_be_read_is_refused(node: Node, header: str, status: int):
    assert node.ask("GET", "/api/overview", user=None, headers={"Authorization": header}).status == status


def test_a_user_without_a_tag_does_not_get_in(node: Node, user: MakeUser, vhost: str):
    reply = node.ask("GET", "/api/whoami", user=user("", vhost))
    assert (reply.status, reply.body) == (401, NOT_MANAGEMENT)


def test_the_token_of_the_node_opens_the_door_without_a_user(node: Node):
    place = rendezvous.read(NODE, os.environ)
    assert place is not None
    reply = node.ask("GET", "/api/whoami", user=None, headers={"Authorization": f"Bearer {place.token}"})
    assert (reply.status, reply.body["tags"]) == (200, ["administrator"])


@pytest.mark.parametrize(("tag", "path", "status", "body"), [
    ("management", "/api/nodes", 401, NOT_MONITOR), ("policymaker", "/api/nodes", 401, NOT_MONITOR),
    ("monitoring", "/api/nodes", 200, None), ("administrator", "/api/nodes", 200, None),
    ("management", "/api/users", 401, NOT_ADMINISTRATOR), ("monitoring", "/api/definitions", 401, NOT_ADMINISTRATOR),
    ("monitoring", "/api/parameters", 401, NOT_OBJECT), ("policymaker", "/api/parameters", 200, None),
    ("management", "/api/global-parameters", 401, NOT_OBJECT), ("management", "/api/health/checks/alarms", 200, None),
    ("management", "/api/policies", 200, None), ("monitoring", "/api/feature-flags", 401, NOT_ADMINISTRATOR),
    ("management", "/api/vhosts/%2F", 401, NOT_ADMINISTRATOR), ("management", "/api/queues/%2F", 401, NOT_VHOST),
    ("monitoring", "/api/exchanges/%2F", 401, NOT_VHOST), ("administrator", "/api/exchanges/%2F", 200, None),
])  # fmt: skip
def test_tags_decide_what_can_be_read(
    node: Node, user: MakeUser, vhost: str, tag: str, path: str, status: int, body: object
):
    reply = node.ask("GET", path, user=user(tag, vhost))
    assert reply.status == status
    if body is not None:
        assert reply.body == body


def test_tags_decide_what_can_be_changed(node: Node, user: MakeUser, vhost: str):
    policy = {"pattern": "x", "definition": {"max-length": 1}}
    for tag, status in (("management", 401), ("monitoring", 401), ("policymaker", 201), ("administrator", 204)):
        assert node.ask("PUT", f"/api/policies/{vhost}/p", policy, user=user(tag, vhost)).status == status
    assert node.ask("PUT", f"/api/operator-policies/{vhost}/p", policy, user=user("policymaker", vhost)).status == 401
    assert node.ask("PUT", "/api/vhosts/new", {}, user=user("policymaker", vhost)).body == NOT_ADMINISTRATOR


def test_an_administrator_reads_everywhere_but_acts_only_with_permissions(node: Node, user: MakeUser, vhost: str):
    name = user("administrator")
    assert node.ask("GET", f"/api/queues/{vhost}", user=name).status == 200
    reply = node.ask("PUT", f"/api/queues/{vhost}/q", {}, user=name)
    assert (reply.status, reply.body) == (401, ACCESS_REFUSED)


def test_permissions_hold_for_what_is_done_by_http(node: Node, user: MakeUser, vhost: str):
    name = user("management", vhost, configure="^mine-")
    assert node.ask("PUT", f"/api/queues/{vhost}/mine-q", {}, user=name).status == 201
    assert node.ask("PUT", f"/api/queues/{vhost}/other", {}, user=name).body == ACCESS_REFUSED
    assert node.ask("PUT", f"/api/exchanges/{vhost}/other", {}, user=name).body == ACCESS_REFUSED


def test_lists_show_what_the_user_may_see(node: Node, user: MakeUser, vhost: str):
    name = user("management", vhost)
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    assert {row["vhost"] for row in node.ask("GET", "/api/queues", user=name).body} == {vhost}
    assert [row["name"] for row in node.ask("GET", "/api/vhosts", user=name).body] == [vhost]
    assert len(node.ask("GET", "/api/vhosts", user=user("monitoring")).body) > 1


def test_connections_of_others_are_for_monitors(node: Node, user: MakeUser, vhost: str, connect: Connect):
    mine = user("management", vhost)
    connect().channel()
    connect(mine).channel()
    everyone = node.ask("GET", f"/api/vhosts/{vhost}/connections").body
    other = next(row["name"] for row in everyone if row["user"] == "guest")
    assert len(everyone) == 2
    assert {row["user"] for row in node.ask("GET", "/api/connections", user=mine).body} == {mine}
    assert {row["user"] for row in node.ask("GET", "/api/channels", user=mine).body} == {mine}
    for method in ("GET", "DELETE"):
        reply = node.ask(method, f"/api/connections/{quote(other)}", user=mine)
        assert (reply.status, reply.body) == (401, NOT_OBJECT)
    assert node.ask("GET", f"/api/channels/{quote(other)}%20(1)", user=mine).body == NOT_OBJECT


def test_unknown_paths_and_wrong_methods_need_no_login(node: Node):
    for path in ("/api/nope", "/nope"):
        reply = node.ask("GET", path, user=None)
        assert (reply.status, reply.body) == (404, NOT_FOUND)
    reply = node.ask("POST", "/api/queues/%2F/q", user=None)
    assert (reply.status, reply.body, reply.headers["allow"]) == (405, None, "HEAD, GET, PUT, DELETE, OPTIONS")
    assert node.ask("OPTIONS", "/api/overview", user=None).headers["allow"] == "HEAD, GET, OPTIONS"


def test_only_json_is_spoken(node: Node):
    assert node.ask("GET", "/api/overview", headers={"Accept": "text/html"}).status == 406
    for accept in ("*/*", "application/json", "text/html,*/*;q=0.8"):
        assert node.ask("GET", "/api/overview", headers={"Accept": accept}).status == 200


def test_pages_for_people_need_no_login(node: Node):
    assert NODE in node.ask("GET", "/", user=None).body
    assert "/api/queues/{vhost}/{name}" in node.ask("GET", "/api/index.html", user=None).body
    assert node.ask("GET", "/api/", user=None).headers["location"] == "/api/index.html"


def test_answers_carry_the_headers_that_clients_know(node: Node):
    reply = node.ask("GET", "/api/overview")
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-cache"
    assert "access-control-allow-origin" not in node.ask("GET", "/api/overview", headers={"Origin": "http://x"}).headers


def test_attempts_to_log_in_are_counted(node: Node):
    before = node.api("GET", f"/api/auth/attempts/{NODE}")[0]
    node.ask("GET", "/api/overview", password="wrong")
    after = node.api("GET", f"/api/auth/attempts/{NODE}")[0]
    assert after["auth_attempts_failed"] == before["auth_attempts_failed"] + 1
    assert after["auth_attempts_succeeded"] > before["auth_attempts_succeeded"]


def test_a_user_bound_to_loopback_gets_in_from_here_only(node: Node, tmp_path: Path):
    """The decision itself is the broker's; here the address must reach it."""
    config = tmp_path / "node.conf"
    config.write_text("loopback_users.guest = true\nmanagement.cors.allow_origins.1 = http://site\n")
    other = Node(tmp_path, "--config", str(config), name="loop@localhost")
    other.start()
    try:
        assert other.ask("GET", "/api/whoami").status == 200
        allowed = other.ask("GET", "/api/whoami", headers={"Origin": "http://site"}).headers
        assert allowed["access-control-allow-origin"] == "http://site"
        assert json.dumps(other.ask("GET", "/api/environment").body).find('"default_pass"') == -1
    finally:
        other.stop()


@pytest.mark.parametrize("data", [
    b"\x00\x01garbage\r\n\r\n", b"AMQP\x00\x00\x09\x01",
    b"GET /api/overview HTTP/1.1\r\nHost: x\r\nContent-Length: a\r\n\r\n",
    b"GET " + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"PUT /api/queues/%2F/x HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /api/definitions HTTP/1.1\r\nHost: x\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: 9\r\n\r\n{",
])  # fmt: skip
def test_what_is_no_request_leaves_no_trace(node: Node, data: bytes):
    """The fixture of the node checks at its end that nothing went wrong in the log."""
    with socket.create_connection((node.host, node.http_port), timeout=PATIENCE) as stranger:
        stranger.sendall(data)
        with suppress(OSError):         # it may have ended the connection already
            stranger.shutdown(socket.SHUT_WR)
        answer = _last_words(stranger)
    assert answer == b"" or answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert "Traceback" not in node.log()


def _last_words(stranger: socket.socket) -> bytes:
    """Nothing if the node ended the connection before it had read everything."""
    try:
        return stranger.recv(100)
    except ConnectionResetError:
        return b""


def test_a_body_that_is_too_large_is_not_read(node: Node):
    reply = node.ask("POST", "/api/definitions", headers={"Content-Length": "999999999999"}, raw=b"")
    assert reply.status == 413
