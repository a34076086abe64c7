"""Nodes of different machines: each has an address, a run directory and a store of its own, and they meet through etcd.

The machines are addresses of the loopback network.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pika
import pytest

from admin.support import Finished, Node, ctl
from cluster.etcd import EtcdCluster, etcd_cluster
from cluster.local import PATIENCE
from compat.support import eventually
from mirrormq.admin.joining import LINK_PORT

pytestmark = pytest.mark.live


class Machine:
    """One node at an address of its own, where it listens for other nodes at the usual port."""

    def __init__(self, directory: Path, name: str, host: str, *options: str) -> None:
        self.run = {"MIRRORMQ_RUN_DIR": str(directory / "run")}
        directory.mkdir()
        (directory / "node.conf").write_text(f"distribution.listener.interface = {host}\n")
        self.node = Node(directory, "--config", str(directory / "node.conf"), "--link-port", str(LINK_PORT), *options,
                         name=f"{name}@{host}")

    def start(self, patch: pytest.MonkeyPatch) -> None:
        with patch.context() as one:
            for name, value in self.run.items():
                one.setenv(name, value)
            self.node.start()
        self.must("await_startup")

    def ctl(self, *words: str) -> Finished:
        return ctl("-n", self.node.name, *words, env=self.run)

    def must(self, *words: str) -> Finished:
        done = self.ctl(*words)
        assert done.code == 0, f"{words} at {self.node.name}: {done.out}{done.err}"
        return done

    def linked(self) -> list[str]:
        told: dict[str, Any] = self.node.ask("GET", "/api/cluster").body
        return told["linked"]

    def join(self, other: Machine) -> Finished:
        self.must("stop_app")
        return self.ctl("join_cluster", other.node.name)


def free_hosts(count: int) -> list[str]:
    found: list[str] = []
    for last in range(2, 250):
        with socket.socket() as probe:
            try:
                probe.bind((f"127.0.0.{last}", LINK_PORT))
            except OSError:
                continue
            found.append(f"127.0.0.{last}")
        if len(found) == count:
            return found
    pytest.skip(f"port {LINK_PORT} is taken, or the loopback network has one address only")


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdCluster]:
    with etcd_cluster(tmp_path / "etcd") as cluster:
        yield cluster


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.setenv("MIRRORMQ_COOKIE", "the secret of these tests")
    with ExitStack() as stack:
        yield stack


def running(stack: ExitStack, patch: pytest.MonkeyPatch, *machines: Machine) -> None:
    for machine in machines:
        machine.start(patch)
        stack.callback(machine.node.stop)


def test_nodes_of_three_machines_become_one_cluster(
    tmp_path: Path, etcd: EtcdCluster, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = free_hosts(3)
    first = Machine(tmp_path / "1", "m1", hosts[0], "--coordination", etcd.spec)
    second, third = (Machine(tmp_path / str(at), f"m{at}", hosts[at - 1]) for at in (2, 3))
    running(stack, monkeypatch, first, second, third)
    for machine in (second, third):
        joined = machine.join(first)
        assert joined.code == 0, joined.err
        machine.must("start_app")
    names = sorted(machine.node.name for machine in (first, second, third))
    for machine in (first, second, third):
        eventually(lambda machine=machine: machine.linked() == names, within=PATIENCE)
    running_at = {row["name"]: row["running"] for row in first.node.ask("GET", "/api/nodes").body}
    assert running_at == dict.fromkeys(names, True)
    with _connected(third) as at_home, _connected(second) as away:
        at_home.channel().queue_declare("q", durable=True)
        channel = away.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"over machines")
        assert at_home.channel().basic_get("q", auto_ack=True)[2] == b"over machines"


def test_a_node_of_another_machine_cannot_share_a_file(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = free_hosts(2)
    first, second = (Machine(tmp_path / str(at), f"m{at}", hosts[at - 1]) for at in (1, 2))
    running(stack, monkeypatch, first, second)
    refused = second.join(first)
    assert refused.code != 0
    assert "nodes of several machines need etcd" in refused.err
    second.must("start_app")


def _connected(machine: Machine) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(machine.node.host, machine.node.port, heartbeat=0))
