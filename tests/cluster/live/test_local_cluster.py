"""`mirrormq cluster`: nodes of one machine that are one cluster."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from cluster.local import PATIENCE, LocalCluster
from compat.support import eventually

NAMES = ["rabbit1@localhost", "rabbit2@localhost", "rabbit3@localhost"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    with LocalCluster(tmp_path_factory.mktemp("local")) as started:
        yield started


def states(cluster: LocalCluster) -> list[str]:
    return [each["state"] for each in cluster.status()]


def test_the_nodes_are_shown_with_their_ports_and_processes(cluster: LocalCluster):
    found = cluster.status()
    base = cluster.base_port
    assert [each["name"] for each in found] == NAMES
    assert [each["amqp_port"] for each in found] == [base + 1, base + 2, base + 3]
    assert [each["http_port"] for each in found] == [base + 10_001, base + 10_002, base + 10_003]
    assert all(set(each) == {"name", "pid", "amqp_port", "http_port", "state"} for each in found)
    assert all(each["state"] == "running" and os.kill(each["pid"], 0) is None for each in found)
    shown = cluster.run("status").lines
    assert [line.split()[:2] for line in shown] == [[name, "running"] for name in NAMES]


def test_everything_is_in_the_directory_and_the_secret_is_the_users_own(cluster: LocalCluster):
    inside = {path.name for path in cluster.directory.iterdir()}
    assert {"cookie", "cluster.sqlite", *NAMES, *(f"{name}.log" for name in NAMES)} <= inside
    assert stat.S_IMODE((cluster.directory / "cookie").stat().st_mode) == 0o600


def test_the_nodes_are_one_cluster(cluster: LocalCluster):
    one = pika.BlockingConnection(pika.URLParameters(cluster.url(0)))
    one.channel().queue_declare("hello", durable=True)
    channel = one.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "hello", b"from one node to another")
    other = pika.BlockingConnection(pika.URLParameters(cluster.url(2)))
    assert other.channel().basic_get("hello", auto_ack=True)[2] == b"from one node to another"
    one.close()
    other.close()


def test_a_killed_node_is_stopped_and_a_second_up_brings_it_back(cluster: LocalCluster):
    before = cluster.status()
    cluster.kill(1)
    assert states(cluster) == ["running", "stopped", "running"]
    cluster.await_all([0, 2])
    again = cluster.up()
    assert "rabbit2@localhost is up" in again.out
    after = cluster.status()
    assert [each["state"] for each in after] == ["running"] * 3
    assert [old["pid"] == new["pid"] for old, new in zip(before, after, strict=True)] == [True, False, True]
    cluster.await_all()


def test_a_node_is_stopped_and_restarted_by_name(cluster: LocalCluster):
    cluster.stop("rabbit3@localhost")
    assert states(cluster)[2] == "stopped"
    assert cluster.run("kill-node", "rabbit3").out == "rabbit3@localhost was not running\n"
    cluster.restart("rabbit3@localhost")
    cluster.restart("rabbit3@localhost")
    assert states(cluster) == ["running"] * 3
    cluster.await_all()


def test_a_frozen_node_is_shown_as_such(cluster: LocalCluster):
    cluster.freeze(2)
    try:
        eventually(lambda: states(cluster)[2] == "frozen")
    finally:
        cluster.resume(2)
    eventually(lambda: states(cluster)[2] == "running")
    cluster.await_all()


def test_a_stopped_application_is_no_stopped_process(cluster: LocalCluster):
    cluster.must(2, "stop_app")
    assert states(cluster)[2] == "app stopped"
    cluster.must(2, "start_app")
    cluster.await_all()


@pytest.mark.parametrize(("words", "sentence"), [
    (["up", "--nodes", "2"], "stop those that are too many"),
    (["up", "--base-port", "1"], "leave --base-port out"),
    (["up", "--names", "other@localhost"], "a node cannot be renamed"),
    (["up", "--coordination", "etcd:http://127.0.0.1:1"], "leave --coordination out"),
    (["stop-node", "nobody"], "there is no node nobody"),
])
def test_what_does_not_fit_the_cluster_is_refused_with_a_sentence(cluster: LocalCluster, words: list[str], sentence: str):
    done = cluster.run(*words)
    assert (done.code, sentence in done.err) == (1, True), done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(("words", "sentence"), [
    (["up", "--nodes", "0"], "1 to 99 nodes, not 0"),
    (["up", "--base-port", "70000"], "choose a base port from 0 to"),
    (["up", "--coordination", "zoo"], "--coordination cannot be 'zoo'"),
    (["up", "--names", "nameless"], "'nameless' is no name of a node"),
    (["up", "--names", "a@b,a@b"], "two nodes cannot have one name"),
    (["status"], "there is no cluster in"),
    (["down"], "there is no cluster in"),
])
def test_bad_input_is_refused_with_a_sentence_and_leaves_nothing(tmp_path: Path, words: list[str], sentence: str):
    nowhere = LocalCluster(tmp_path)
    done = nowhere.run(*words)
    assert (done.code, sentence in done.err) == (1, True), done.err
    assert not nowhere.directory.exists()


def test_a_port_that_is_taken_is_named_before_anything_is_made(cluster: LocalCluster, tmp_path: Path):
    second = LocalCluster(tmp_path)
    done = second.run("up", "--base-port", str(cluster.base_port), "--detach")
    assert done.code == 1
    assert f"port {cluster.base_port + 1}, which rabbit1@localhost needs, cannot be used" in done.err
    assert not second.directory.exists()


def test_a_node_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path):
    (tmp_path / "node.conf").write_text("heartbeet = 10\n")
    single = LocalCluster(tmp_path, nodes=1, options=("--config", str(tmp_path / "node.conf")))
    done = single.run("up", "--nodes", "1", "--base-port", str(single.base_port), "--config", str(tmp_path / "node.conf"))
    assert done.code == 1
    assert "rabbit1@localhost could not start" in done.err
    assert "unknown key 'heartbeet'" in done.err


@pytest.mark.usefixtures("heard_signals")
def test_in_the_foreground_queues_are_mirrored_ends_told_and_an_interrupt_stops_all(tmp_path: Path):
    cluster = LocalCluster(tmp_path, nodes=2)
    words = ["cluster", "up", "--nodes", "2", "--base-port", str(cluster.base_port), "--mirrored",
             "--dir", str(cluster.directory)]
    output = tmp_path / "output"
    with output.open("w") as file:
        front = subprocess.Popen([sys.executable, "-m", "mirrormq.cli.main", *words], stdout=file, stderr=file, env=cluster._env)
    try:
        eventually(lambda: "Ctrl-C" in output.read_text(), within=PATIENCE)
        assert "every queue is mirrored" in output.read_text()
        assert cluster.api(0, "GET", "/api/policies/%2F/ha-all")["definition"]["ha-mode"] == "all"
        cluster.kill("rabbit1@localhost")
        eventually(lambda: "rabbit1@localhost was ended by signal 9" in output.read_text())
        cluster.restart("rabbit1@localhost")
        eventually(lambda: "rabbit1@localhost has been started again" in output.read_text())
        front.send_signal(signal.SIGINT)
        assert front.wait(120) == 0
    finally:
        if front.poll() is None:
            front.kill()
            front.wait()
        cluster.run("down")
    assert [each["state"] for each in cluster.status()] == ["stopped", "stopped"]
    assert "rabbit2@localhost has stopped" in output.read_text()
