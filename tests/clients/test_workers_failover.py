"""Celery and Dramatiq workers on three mirrored nodes while leaders are killed: every task that was sent is done."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cluster.live.nodes import Node, Nodes, running
from compat.support import PATIENCE, eventually, quote

from . import TESTS
from .celery_fleet import Fleet

pytestmark = [pytest.mark.chaos, pytest.mark.long, pytest.mark.timeout(1200)]
KILLS = int(os.environ.get("MIRRORMQ_WORKER_FAILOVERS", "3"))
AFTER = 20              # tasks that are done after a kill before the node is started again
DONE = 120.0
Send = Callable[[str], None]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with running(tmp_path / "nodes") as nodes:
        nodes[0].set_policy("/", "ha", ".*", {"ha-mode": "all", "ha-sync-mode": "automatic"}, apply_to="queues")
        yield nodes


def urls(nodes: Nodes) -> str:
    return ";".join(f"amqp://guest:guest@127.0.0.1:{node.port}/%2F" for node in nodes)


class Sender(threading.Thread):
    """Sends tasks until told to stop, and remembers those that the client library said were sent."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.failed = 0
        self.stopping = threading.Event()
        self._send = send

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            number += 1
            try:
                self._send(str(number))
            except Exception:  # noqa: BLE001 - each library has its own errors for a node that is gone
                self.failed += 1
                self.stopping.wait(0.2)
                continue
            self.sent.append(str(number))
            self.stopping.wait(0.02)


class Pauses(threading.Thread):
    """Watches how long nothing was done."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.longest = 0.0
        self.stopping = threading.Event()
        self._path = path

    def run(self) -> None:
        size, since = 0, time.monotonic()
        while not self.stopping.wait(0.01):
            now, then = time.monotonic(), self._path.stat().st_size
            if then != size:
                size, since = then, now
            self.longest = max(self.longest, now - since)


def leader_of(nodes: Nodes, queue: str) -> Node | None:
    for node in nodes:
        if node.process is not None:
            with suppress(Exception):
                name = node.api("GET", f"/api/queues/%2F/{quote(queue)}")["node"]
                return next(other for other in nodes if other.name == name and other.process is not None)
    return None


def in_sync(nodes: Nodes, queue: str) -> bool:
    row: dict[str, Any] = nodes[0].api("GET", f"/api/queues/%2F/{quote(queue)}")
    return len(row.get("synchronised_slave_nodes", ())) == len(nodes.nodes) - 1


def kill_leaders(nodes: Nodes, queue: str, path: Path, send: Send) -> tuple[set[str], list[str], float]:
    """What was sent, what was done, and the longest time in which nothing was done."""
    path.touch()
    sender, pauses = Sender(send), Pauses(path)
    sender.start()
    try:
        eventually(lambda: len(path.read_text().splitlines()) > AFTER, within=DONE)
        pauses.start()
        for _ in range(KILLS):
            eventually(lambda: in_sync(nodes, queue), within=DONE)
            leader = eventually(lambda: leader_of(nodes, queue), within=DONE)
            done = len(path.read_text().splitlines())
            leader.kill()
            eventually(lambda done=done: len(path.read_text().splitlines()) > done + AFTER, within=DONE)
            leader.start()
            nodes.until_whole()
    finally:
        sender.stopping.set()
        sender.join()
    sent = set(sender.sent)
    eventually(lambda: sent <= set(path.read_text().split()), within=DONE)
    pauses.stopping.set()
    pauses.join()
    return sent, path.read_text().split(), pauses.longest


def judge(name: str, sent: set[str], done: list[str], longest: float) -> None:
    print(f"{name}: {len(sent)} tasks sent, {len(done) - len(set(done))} done again, {KILLS} leaders killed, "
          f"longest pause {longest:.1f} s")
    assert sent <= set(done)
    assert len(sent) > KILLS * AFTER


def test_no_celery_task_is_lost_while_leaders_are_killed(nodes: Nodes, tmp_path: Path) -> None:
    fleet = Fleet(urls(nodes), tmp_path)
    try:
        fleet.start()
        fleet.start()
        path = tmp_path / "done"
        judge("Celery", *kill_leaders(
            nodes, fleet.queue, path,
            lambda line: fleet.call("record", str(path), line, ignore_result=True, retry=False)))
    finally:
        fleet.close()


def test_no_dramatiq_message_is_lost_while_leaders_are_killed(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIENTS_BROKER_URL", urls(nodes))
    monkeypatch.setenv("CLIENTS_QUEUE", "actors")
    application = importlib.import_module("clients.dramatiq_app")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "dramatiq", "-p", "2", "-t", "2", "clients.dramatiq_app"]
    with (tmp_path / "workers.log").open("wb") as log:
        workers = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    path = tmp_path / "done"
    try:
        judge("Dramatiq", *kill_leaders(nodes, "actors", path, lambda line: application.record.send(str(path), line)))
    finally:
        workers.terminate()
        with suppress(subprocess.TimeoutExpired):
            workers.wait(PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(workers.pid, signal.SIGKILL)
        application.broker.close()
