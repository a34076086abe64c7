"""What is done through one node to things of another."""

from __future__ import annotations

import json

import pika.exceptions
import pytest

from admin.support import quote, refusal
from compat.support import PATIENCE, eventually

from .conftest import Open
from .support import Members

pytestmark = pytest.mark.live


def test_a_queue_is_declared_on_the_node_that_is_named(members: Members, vhost: str):
    for member in members:
        for other in members:
            members[0].declare(vhost, f"{member.name} {other.name}", node=other.name)
    assert all(row["node"] == row["name"].split()[1] for row in members[1].queues(vhost))
    path = f"/api/queues/{quote(vhost)}/q"
    reply = members[0].ask("PUT", path, {"durable": True, "node": "nobody@localhost"})
    assert (reply.status, reply.body) == (400, refusal("Node nobody@localhost could not be contacted"))
    assert members[0].ask("PUT", path, {"durable": True, "node": 7}).status == 400
    assert members[0].ask("GET", path).status == 404


def test_a_transient_queue_goes_with_the_node_that_it_lives_on(members: Members, vhost: str):
    """Its record hangs on that node, whichever node it was declared and bound through."""
    members[0].declare(vhost, "passing", node="b@localhost", durable=False)
    binding = f"/api/bindings/{quote(vhost)}/e/amq.direct/q/passing"
    assert members[2].ask("POST", binding, {"routing_key": "k"}).status == 201
    members[0].restart()
    members[2].restart()
    members.until_whole()
    assert members[0].queue(vhost, "passing")["state"] == "running"
    assert [row["routing_key"] for row in members[1].get(binding)] == ["k"]
    members[1].restart()
    members.until_whole()
    for member in members:
        eventually(lambda member=member: member.queues(vhost) == [])


def test_messages_are_published_read_and_purged_through_any_node(members: Members, vhost: str):
    members[0].declare(vhost, "q", node="b@localhost")
    path = f"/api/queues/{quote(vhost)}/q"
    for member in members:
        body = {"routing_key": "q", "payload": member.name, "payload_encoding": "string", "properties": {}}
        assert member.ask("POST", f"/api/exchanges/{quote(vhost)}/amq.default/publish", body).body == {"routed": True}
    for member in members:
        wanted = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
        rows = member.ask("POST", f"{path}/get", wanted).body
        assert [(row["payload"], row["message_count"]) for row in rows] == list(zip(members.names, (2, 1, 0), strict=True))
    assert members[2].ask("DELETE", f"{path}/contents").status == 204
    assert members[0].queue(vhost, "q")["messages"] == 0
    assert members[2].ask("DELETE", f"{path}?if-empty=true").status == 204
    assert all(member.ask("GET", path).status == 404 for member in members)


def test_a_connection_is_closed_from_another_node(members: Members, vhost: str, open_at: Open):
    clients = [open_at(member) for member in members]
    rows = members[0].get(f"/api/vhosts/{quote(vhost)}/connections")
    name = next(row["name"] for row in rows if row["node"] == "b@localhost")
    reply = members[0].ask("DELETE", f"/api/connections/{quote(name)}", headers={"X-Reason": "tidying up"})
    assert reply.status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - tidying up"):
        clients[1].process_data_events(PATIENCE)
    eventually(lambda: len(members[2].get(f"/api/vhosts/{quote(vhost)}/connections")) == 2)


def test_connections_of_a_user_are_closed_everywhere(members: Members, vhost: str, open_at: Open):
    clients = [open_at(member) for member in members]
    assert members[0].ask("DELETE", "/api/connections/username/guest").status == 204
    for client in clients:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            client.process_data_events(PATIENCE)


@pytest.mark.parametrize("how", ["argument", "policy"])
def test_a_new_queue_goes_where_the_fewest_are(members: Members, vhost: str, open_at: Open, how: str):
    arguments = {"x-queue-master-locator": "min-masters"} if how == "argument" else {}
    if how == "policy":
        members[0].set_policy(vhost, "spread", "^spread", {"queue-master-locator": "min-masters"}, apply_to="queues")
    channel = open_at(members[0]).channel()
    for number in range(30):
        channel.queue_declare(f"spread-{number}", durable=True, arguments=arguments)
    for _ in range(2):
        channel.queue_declare("", exclusive=True, arguments=arguments)
    rows = members[2].queues(vhost)
    by_node = [sum(1 for row in rows if row["node"] == name and not row["exclusive"]) for name in members.names]
    assert sum(by_node) == 30
    assert min(by_node) >= 8
    assert {row["node"] for row in rows if row["exclusive"]} == {"a@localhost"}


def test_a_new_queue_goes_to_a_random_node(members: Members, vhost: str, open_at: Open):
    channel = open_at(members[0]).channel()
    for number in range(40):
        channel.queue_declare(f"random-{number}", durable=True, arguments={"x-queue-master-locator": "random"})
    assert {row["node"] for row in members[1].queues(vhost)} == set(members.names)


# --- commands -------------------------------------------------------------------------------------------------------


def test_commands_list_the_whole_cluster(members: Members, vhost: str, open_at: Open):
    for member in members:
        members[0].declare(vhost, f"on {member.name}", node=member.name)
        open_at(member).channel().basic_consume(f"on {members[0].name}", lambda *_: None, consumer_tag=member.name)
    for member in members:
        queues = member.ctl("list_queues", "-p", vhost, "-q", "name", "messages", "consumers")
        assert queues.lines[1:] == ["on a@localhost\t0\t3", "on b@localhost\t0\t0", "on c@localhost\t0\t0"]
        local = member.ctl("list_queues", "-p", vhost, "-q", "--local", "name")
        assert local.lines[1:] == [f"on {member.name}"]
        offline = member.ctl("list_queues", "-p", vhost, "-q", "--offline", "name")
        assert offline.lines == []
        connections = member.ctl("list_connections", "-q", "vhost", "pid")
        mine = [line for line in connections.lines if line.startswith(vhost)]
        assert sorted(line.split("\t")[1][1:].split(".")[0] for line in mine) == members.names
        channels = member.ctl("list_channels", "-q", "vhost", "pid")
        assert sum(1 for line in channels.lines if line.startswith(vhost)) == 3
        consumers = member.ctl("list_consumers", "-p", vhost, "-q")
        assert sorted(line.split("\t")[2] for line in consumers.lines[1:]) == members.names


def test_commands_close_clients_of_other_nodes(members: Members, vhost: str, open_at: Open):
    clients = [open_at(member) for member in members]
    listed = members[0].ctl("list_connections", "-q", "pid").lines[1:]
    pid = next(pid for pid in listed if pid.startswith("<c@localhost."))
    assert members[0].ctl("close_connection", pid, "go").code == 0
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - go"):
        clients[2].process_data_events(PATIENCE)
    closed = members[2].ctl("close_all_connections", "-p", vhost, "-q", "all of you")
    assert closed.lines == ["Closed 2 connections"]
    for client in clients[:2]:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - all of you"):
            client.process_data_events(PATIENCE)


def test_commands_purge_and_delete_queues_of_other_nodes(members: Members, vhost: str, open_at: Open):
    members[0].declare(vhost, "q", node="b@localhost")
    channel = open_at(members[0]).channel()
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"x")
    busy = members[2].ctl("delete_queue", "-p", vhost, "q", "--if-empty")
    assert (busy.code, busy.err.splitlines()) == (64, ["Error:", "Queue is not empty"])
    assert members[2].ctl("purge_queue", "-p", vhost, "q").code == 0
    assert members[1].queue(vhost, "q")["messages"] == 0
    channel.basic_publish("", "q", b"x")
    gone = members[2].ctl("delete_queue", "-p", vhost, "-q", "q")
    assert gone.lines == ["Queue was successfully deleted with 1 ready messages"]
    assert members[0].queues(vhost) == []


def test_the_status_of_a_node_tells_of_its_own_clients_and_listeners(members: Members, vhost: str, open_at: Open):
    open_at(members[1])
    shown = [json.loads(member.ctl("status", "--formatter", "json").out) for member in members]
    assert [status["totals"]["connection_count"] for status in shown] == [0, 1, 0]
    assert [{item["node"] for item in status["listeners"]} for status in shown] == [{name} for name in members.names]
