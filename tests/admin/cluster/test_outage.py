"""Views of a cluster in which a node is down, frozen or back again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin.support import refusal
from compat.support import eventually

from .support import Members, running

pytestmark = pytest.mark.live

DOWN = {"auto_delete": False, "durable": True, "exclusive": False, "node": "b@localhost", "state": "down", "type": "classic",
        "vhost": "/"}


@pytest.fixture
def pair(run_directory: None, tmp_path: Path) -> Iterator[Members]:
    with running(Members(tmp_path, ["a@localhost", "b@localhost"])) as cluster:
        cluster[0].declare("/", "here")
        cluster[0].declare("/", "there", node="b@localhost", arguments={"x-max-length": 5})
        yield cluster


def test_queues_of_a_node_that_is_down_are_shown_from_what_all_know(pair: Members):
    there = {**DOWN, "name": "there", "arguments": {"x-max-length": 5}}
    pair[1].kill()
    eventually(lambda: pair[0].queues("/", "?sort=messages")[0] == there)
    assert pair[0].queues("/")[1] == there
    assert pair[0].queues("/", "?page=1&page_size=1&sort=state")["items"] == [there]
    assert pair[0].queue("/", "there") == {**there, "consumer_details": [], "deliveries": [], "incoming": []}
    assert pair[0].queue("/", "here")["state"] == "running"
    shown = pair[0].ctl("list_queues", "-q", "name", "messages", "state", "pid")
    assert shown.lines[1].startswith("here\t0\trunning\t<a@localhost.")
    assert shown.lines[2].startswith("there\t\tdown\t<b@localhost.")
    assert pair[0].ctl("list_queues", "-q", "--offline", "name").lines == ["name", "there"]
    assert pair[0].ctl("list_queues", "-q", "--online", "name").lines == ["name", "here"]
    assert pair[0].ctl("list_queues", "--formatter", "json", "name", "messages").out == (
        '[\n{"name":"here","messages":0}\n,{"name":"there","messages":""}\n]\n')


def test_what_needs_a_node_that_is_down_is_refused(pair: Members):
    pair[1].kill()
    eventually(lambda: pair[0].queue("/", "there")["state"] == "down")
    reason = "home node 'b@localhost' of durable queue 'there' in vhost '/' is down or inaccessible"
    eventually(lambda: pair[0].ask("DELETE", "/api/queues/%2F/there/contents").body["reason"] == reason)
    message = {"routing_key": "there", "payload": "x", "payload_encoding": "string", "properties": {}}
    assert pair[0].ask("POST", "/api/exchanges/%2F/amq.default/publish", message).body == {"routed": False}
    wanted = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert pair[0].ask("POST", "/api/queues/%2F/there/get", wanted).body == refusal(f"NOT_FOUND - {reason}", "not_found")
    purged = pair[0].ctl("purge_queue", "there")
    assert (purged.code, purged.err.splitlines()) == (69, ["Error:", reason])
    deleted = pair[0].ctl("delete_queue", "there")
    assert (deleted.code, deleted.err.splitlines()) == (64, ["Error:", reason])
    reply = pair[0].ask("PUT", "/api/queues/%2F/new", {"durable": True, "node": "b@localhost"})
    assert reply.body["reason"] == "Node b@localhost could not be contacted"
    assert pair[0].ask("GET", "/api/healthchecks/node/b@localhost").status == 503
    assert pair[0].get("/api/auth/attempts/b@localhost") == "not_available"
    assert pair[0].get("/api/overview")["object_totals"]["queues"] == 2


def test_nodes_are_shown_whether_they_run_or_not(pair: Members):
    rows = pair[0].get("/api/nodes")
    assert [(row["name"], row["running"], row["partitions"]) for row in rows] == [
        ("a@localhost", True, []), ("b@localhost", True, [])]
    link = rows[1]["cluster_links"][0]
    assert link["name"] == "a@localhost"
    assert link["recv_bytes"] > 0
    assert link["stats"]["send_bytes"] > 0
    assert pair[0].get("/api/nodes/b@localhost?memory=true")["memory"]["total"]["rss"] > 0
    assert pair[0].get("/api/nodes/b@localhost/memory")["memory"]["total"]["rss"] > 0
    assert pair[0].get("/api/healthchecks/node/b@localhost") == {"status": "ok"}
    assert pair[0].ask("GET", "/api/nodes/nobody@localhost").status == 404
    pair[1].kill()
    stopped = {"name": "b@localhost", "type": "disc", "running": False, "cluster_links": []}
    eventually(lambda: pair[0].get("/api/nodes")[1] == stopped)
    assert pair[0].get("/api/nodes/b@localhost") == stopped
    pair[1].start()
    pair.until_whole()
    assert eventually(lambda: pair[0].get("/api/nodes/b@localhost")["running"])
    assert eventually(lambda: pair[0].queue("/", "there")["state"] == "running")


def test_a_frozen_node_does_not_hold_the_others_up(pair: Members):
    pair[1].signal(signal.SIGSTOP)
    assert [row["state"] for row in pair[0].queues("/")] == ["running", "down"]
    assert pair[0].get("/api/connections") == []
    assert pair[0].get("/api/overview")["node"] == "a@localhost"
    assert [row["running"] for row in pair[0].get("/api/nodes")] == [True, False]
    pair[1].signal(signal.SIGCONT)
    pair.until_whole()
    assert eventually(lambda: pair[0].queue("/", "there")["state"] == "running")


def test_alarms_of_another_node_are_told(pair: Members):
    assert pair[0].get("/api/health/checks/alarms") == {"status": "ok"}
    pair[1].stop()
    pair[1].options = (*pair[1].options, "--config", str(_little_memory(pair[1].directory)))
    pair[1].start()
    pair.until_whole()
    reply = eventually(lambda: (found := pair[0].ask("GET", "/api/health/checks/alarms")).status == 503 and found)
    assert reply.body["alarms"] == [{"node": "b@localhost", "resource": "memory"}]
    assert pair[0].get("/api/health/checks/local-alarms") == {"status": "ok"}
    assert pair[0].get("/api/nodes/b@localhost")["mem_alarm"] is True


def _little_memory(directory: Path) -> Path:
    path = directory / "small.conf"
    path.write_text("vm_memory_high_watermark.absolute = 1MB\n")
    return path
