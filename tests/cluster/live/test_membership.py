"""Nodes join a cluster, leave it, are forgotten and come back, by RabbitMQ's commands. Each begins with a store of its own."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from admin.support import Finished, Node
from cluster.local import PATIENCE
from compat.support import eventually

Start = Callable[..., Node]
NEEDS_STOPPED = ("Error: this command requires the 'rabbit' app to be stopped on the target node. "
                 "Stop it with 'mirrormqctl stop_app'.")
NEEDS_RUNNING = ("Error: this command requires the 'rabbit' app to be running on the target node. "
                 "Start it with 'mirrormqctl start_app'.")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """start(name) starts a node of its own; all of a test meet in one run directory and have one cookie, unless one is given."""
    monkeypatch.setenv("MIRRORMQ_RUN_DIR", str(tmp_path / "run"))
    started: list[Node] = []

    def starter(name: str, cookie: str = "the secret of these tests") -> Node:
        monkeypatch.setenv("MIRRORMQ_COOKIE", cookie)
        directory = tmp_path / name
        directory.mkdir()
        node = Node(directory, name=name)
        node.start()
        started.append(node)
        must(node, "await_startup")
        return node

    yield starter
    for node in started:
        node.stop()


def must(node: Node, *words: str) -> Finished:
    done = node.ctl(*words)
    assert done.code == 0, f"{words} at {node.name}: {done.out}{done.err}"
    return done


def join(node: Node, other: Node) -> None:
    must(node, "stop_app")
    assert must(node, "join_cluster", other.name).out == f"Clustering node {node.name} with {other.name}\n"
    must(node, "start_app")


def cluster_of(node: Node) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(must(node, "cluster_status", "--formatter", "json").out)
    return told


@contextmanager
def connected(node: Node) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port, heartbeat=0))
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def becomes(node: Node, field: str, *names: str) -> bool:
    """Whether these are the members, as this node sees them, as soon as it knows of the last change."""
    return eventually(lambda: cluster_of(node)[field] == list(names), within=PATIENCE)


def declare(node: Node, name: str, key: str = "") -> None:
    with connected(node) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        if key:
            channel.queue_bind(name, "amq.direct", key)


def assert_lets_nobody_in(node: Node) -> None:
    with pytest.raises(pika.exceptions.AMQPConnectionError), connected(node):
        pass


def queues(node: Node) -> list[str]:
    return must(node, "list_queues", "-q", "--no-table-headers", "name").lines


# --- the application --------------------------------------------------------------------------------------------------


def test_a_stopped_application_leaves_a_process_that_answers(start: Start):
    node = start("a@localhost")
    declare(node, "kept")
    with connected(node) as client:
        assert must(node, "stop_app").out == "Stopping rabbit application on node a@localhost ...\n"
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            client.process_data_events(60)
    assert closed.value.reply_code == 320
    must(node, "stop_app")
    assert_lets_nobody_in(node)
    assert node.ask("GET", "/api/overview").status == 503
    assert node.ask("GET", "/api/app").body == {"node": "a@localhost", "state": "stopped"}
    assert must(node, "ping").lines[-1] == "Ping succeeded"
    for words in (["list_queues"], ["cluster_status"], ["status"], ["await_online_nodes", "1"]):
        refused = node.ctl(*words)
        assert (refused.code, refused.out, refused.err.splitlines()[0]) == (64, "", NEEDS_RUNNING)
    assert (node.ctl("await_startup").code, node.ctl("await_startup").err) == (69, "Error:\nrabbit_is_not_running\n")
    assert must(node, "start_app").out == "Starting node a@localhost ...\n"
    must(node, "start_app")
    assert queues(node) == ["kept"]


def test_what_changes_a_node_needs_its_application_stopped(start: Start):
    node = start("a@localhost")
    for words in (["reset"], ["force_reset"], ["join_cluster", "b@localhost"], ["change_cluster_node_type", "disc"]):
        refused = node.ctl(*words)
        assert (refused.code, refused.out, refused.err.splitlines()[0]) == (64, "", NEEDS_STOPPED)
    assert node.ctl("rename_cluster_node", "a@localhost", "b@localhost").code == 69
    must(node, "stop_app")
    assert "Node type is already disc" in must(node, "change_cluster_node_type", "disc").out
    assert node.ctl("change_cluster_node_type", "ram").code == 69
    assert node.ctl("change_cluster_node_type", "tape").code == 65
    itself = node.ctl("join_cluster", "a@localhost")
    assert (itself.code, itself.err) == (70, "Error:\nError: cannot cluster node with itself: a@localhost\n")


def test_the_control_door_is_for_tools_of_this_machine_only(start: Start):
    node = start("a@localhost")
    assert node.ask("POST", "/api/app/stop").status == 401
    assert node.ask("POST", "/api/app/stop", user=None).status == 401
    assert node.ask("POST", "/api/app/stop", headers={"Authorization": "Bearer nonsense"}).status == 401
    assert node.ask("POST", "/api/app/dance").status == 404
    assert node.ask("GET", "/api/app/stop").status == 405
    assert node.ask("GET", "/api/app", user=None).body["state"] == "running"


def test_a_reset_removes_everything_and_nothing_that_is_not_the_nodes(start: Start):
    node = start("a@localhost")
    declare(node, "gone")
    must(node, "add_user", "somebody", "secret")
    (node.directory / "data" / "notes.txt").write_text("mine")
    identity = json.loads((node.directory / "data" / "node.json").read_text())["id"]
    must(node, "stop_app")
    done = must(node, "reset")
    assert done.lines == ["Resetting node a@localhost ...",
                          "With the node went 1 queue(s) that had no other copy: 'gone' in vhost '/'"]
    must(node, "start_app")
    assert queues(node) == []
    assert must(node, "list_users", "-q", "--no-table-headers").lines == ["guest\t[administrator]"]
    assert (node.directory / "data" / "notes.txt").read_text() == "mine"
    assert json.loads((node.directory / "data" / "node.json").read_text())["id"] != identity


# --- joining and leaving ------------------------------------------------------------------------------------------------


def test_a_node_joins_with_nothing_and_finds_everything(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    declare(b, "of b alone")
    must(a, "add_user", "somebody", "secret")
    join(b, a)
    for node in (a, b):
        assert becomes(node, "running_nodes", "a@localhost", "b@localhost")
        told = cluster_of(node)
        assert told["disk_nodes"] == told["running_nodes"] == ["a@localhost", "b@localhost"]
        assert told["cluster_name"] == "mirrormq@localhost"
        assert told["partitions"] == {}
        assert {item["port"] for item in told["listeners"]["b@localhost"]} >= {b.port, b.http_port}
    assert queues(b) == []
    assert "somebody\t[]" in must(b, "list_users").lines
    must(b, "set_cluster_name", "ours")
    assert eventually(lambda: cluster_of(a)["cluster_name"] == "ours")
    assert must(a, "await_online_nodes", "2", "-t", "60").code == 0
    late = a.ctl("await_online_nodes", "3", "-t", "0.2")
    assert (late.code, late.err.splitlines()[1]) == (
        70, "Error: timed out while waiting. Not enough nodes joined a@localhost's cluster.")


def test_joining_twice_is_no_error_and_a_restart_stays_in_the_cluster(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    must(b, "stop_app")
    assert becomes(a, "running_nodes", "a@localhost")
    assert must(b, "join_cluster", "a@localhost").lines[-1] == "The node is already a member of this cluster"
    must(b, "start_app")
    b.restart()
    must(b, "await_startup")
    assert becomes(b, "running_nodes", "a@localhost", "b@localhost")


def test_a_node_that_leaves_is_gone_with_its_queues(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    declare(b, "on b", key="key")
    declare(a, "on a")
    must(b, "stop_app")
    must(b, "reset")
    assert becomes(a, "disk_nodes", "a@localhost")
    assert eventually(lambda: queues(a) == ["on a"])
    assert must(a, "list_bindings", "-q", "--no-table-headers", "source_name", "destination_name").lines == ["\ton a"]
    must(b, "start_app")
    assert becomes(b, "disk_nodes", "b@localhost")
    assert queues(b) == []


def test_the_node_whose_store_it_was_can_leave_and_the_others_stay(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    must(b, "add_user", "somebody", "secret")
    must(a, "stop_app")
    must(a, "reset")
    must(a, "start_app")
    assert becomes(a, "disk_nodes", "a@localhost")
    assert becomes(b, "disk_nodes", "b@localhost")
    assert "somebody\t[]" in must(b, "list_users").lines
    assert "somebody\t[]" not in must(a, "list_users").lines
    join(a, b)
    assert "somebody\t[]" in must(a, "list_users").lines
    must(a, "stop_app")
    must(a, "reset")
    must(a, "start_app")
    assert becomes(a, "disk_nodes", "a@localhost")


# --- forgetting -----------------------------------------------------------------------------------------------------------


def test_a_forgotten_node_does_not_come_back_by_itself(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    declare(b, "on b")
    refused = a.ctl("forget_cluster_node", "b@localhost")
    assert (refused.code, refused.err) == (69, "Error:\nRabbitMQ on node b@localhost must be stopped with "
                                           "'mirrormqctl -n b@localhost stop_app' before it can be removed\n")
    stranger = a.ctl("forget_cluster_node", "nobody@localhost")
    assert (stranger.code, stranger.err) == (
        69, "Error:\n{:not_a_cluster_node, 'The node selected is not in the cluster.'}\n")
    must(b, "stop_app")
    done = must(a, "forget_cluster_node", "b@localhost")
    assert done.lines == ["Removing node b@localhost from the cluster",
                          "With the node went 1 queue(s) that had no other copy: 'on b' in vhost '/'"]
    assert becomes(a, "disk_nodes", "a@localhost")
    assert queues(a) == []
    returning = b.ctl("start_app")
    assert returning.code == 69
    assert "node b@localhost was a member of this cluster and has been forgotten" in returning.err
    must(b, "reset")
    join(b, a)
    assert becomes(a, "running_nodes", "a@localhost", "b@localhost")


def test_a_node_that_was_killed_can_be_forgotten_and_its_process_is_refused(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    b.kill()
    assert becomes(a, "running_nodes", "a@localhost")
    must(a, "forget_cluster_node", "--offline", "b@localhost")
    ended = subprocess.run(b.command(), capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "has been forgotten" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_node_that_was_forgotten_while_it_was_frozen_stops_its_application(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    assert b.process is not None
    b.process.send_signal(signal.SIGSTOP)
    try:
        assert becomes(a, "running_nodes", "a@localhost")
        must(a, "forget_cluster_node", "b@localhost")
    finally:
        b.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: b.ask("GET", "/api/app").body["state"] == "stopped", within=PATIENCE)
    assert "the cluster has forgotten this node" in b.log()
    assert becomes(a, "disk_nodes", "a@localhost")
    must(b, "reset")
    must(b, "start_app")
    assert becomes(b, "disk_nodes", "b@localhost")


def test_a_force_reset_leaves_a_name_that_must_be_forgotten(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    must(b, "stop_app")
    must(b, "force_reset")
    taken = b.ctl("join_cluster", "a@localhost")
    assert taken.code == 69
    assert "has another node of the name b@localhost: forget it there" in taken.err
    must(a, "forget_cluster_node", "b@localhost")
    must(b, "join_cluster", "a@localhost")
    must(b, "start_app")
    assert becomes(b, "running_nodes", "a@localhost", "b@localhost")


def test_a_node_cannot_be_renamed(start: Start):
    a = start("a@localhost")
    a.stop()
    renamed = [("z@localhost" if word == "a@localhost" else word) for word in a.command()]
    ended = subprocess.run(renamed, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "a node cannot be renamed" in ended.stderr
    a.start()


# --- clusters do not mix ----------------------------------------------------------------------------------------------------


def test_two_clusters_do_not_mix(start: Start):
    a, b, c = start("a@localhost"), start("b@localhost"), start("c@localhost", cookie="another secret")
    join(b, a)
    must(c, "stop_app")
    stranger = c.ctl("join_cluster", "a@localhost")
    assert stranger.code == 69
    assert stranger.err.startswith("Error: unable to perform an operation on node 'a@localhost'.")
    assert "the cookies of the two nodes must be the same" in stranger.err
    nobody = c.ctl("join_cluster", "nobody@localhost")
    assert (nobody.code, "Error: unable to perform an operation on node 'nobody@localhost'." in nobody.err) == (69, True)
    asleep = b.ctl("-n", "b@localhost", "stop_app")
    assert asleep.code == 0
    waiting = b.ctl("join_cluster", "c@localhost")
    assert (waiting.code, "the application of node c@localhost is stopped" in waiting.err) == (69, True)
    must(c, "start_app")
    must(b, "start_app")
    assert becomes(c, "disk_nodes", "c@localhost")
    assert becomes(a, "running_nodes", "a@localhost", "b@localhost")


def test_a_member_of_one_cluster_does_not_slip_into_another(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    start("c@localhost")
    join(b, a)
    must(b, "stop_app")
    refused = b.ctl("join_cluster", "c@localhost")
    assert refused.code == 69
    assert "is a member of another cluster, with a@localhost: reset it first" in refused.err
    must(b, "start_app")
    assert becomes(a, "running_nodes", "a@localhost", "b@localhost")


# --- maintenance ------------------------------------------------------------------------------------------------------------


def test_a_drained_node_serves_no_clients_and_stays_a_member(start: Start):
    a, b = start("a@localhost"), start("b@localhost")
    join(b, a)
    declare(b, "on b")
    with connected(b) as client:
        must(b, "drain")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            client.process_data_events(60)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - Node was put into maintenance mode")
    must(b, "drain")
    assert_lets_nobody_in(b)
    assert eventually(lambda: cluster_of(a)["maintenance_status"] == {
        "a@localhost": "not under maintenance", "b@localhost": "marked for maintenance"})
    assert "Node: b@localhost, status: marked for maintenance" in must(a, "cluster_status").lines
    assert json.loads(must(b, "status", "--formatter", "json").out)["is_under_maintenance"] is True
    drained = {row["name"]: row["being_drained"] for row in a.ask("GET", "/api/nodes").body}
    assert drained == {"a@localhost": False, "b@localhost": True}
    with connected(a) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "on b", b"still served, by way of another node")
        assert channel.basic_get("on b", auto_ack=True)[2] == b"still served, by way of another node"
    must(b, "revive")
    declare(b, "on b")
    assert eventually(lambda: cluster_of(a)["maintenance_status"]["b@localhost"] == "not under maintenance")
