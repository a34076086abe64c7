"""A real etcd of several members for tests: started, stopped, killed, frozen and continued by number.

Debian's package etcd-server is used. Where it is missing tests are skipped, unless MIRRORMQ_REQUIRE_ALL=1 asks for everything:
then it is installed.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat.support import free_port

ROOT = Path(__file__).parent.parent.parent
REQUIRED = os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1"
READY = 90.0
ASK = 15.0


def find_etcd() -> str:
    """The program; skips the test where it is missing."""
    if not shutil.which("etcd") and REQUIRED:
        subprocess.run([ROOT / ".ci" / "packages", "etcd-server"], check=True)
    program = shutil.which("etcd")
    if program is None:
        if REQUIRED:
            pytest.fail("etcd is missing, and all components are required: install Debian's etcd-server")
        pytest.skip("etcd is not installed (Debian's package is etcd-server)")
    return program


class EtcdMember:
    def __init__(self, name: str, directory: Path, client_port: int, peer_port: int, scheme: str) -> None:
        self.name = name
        self.url = f"{scheme}://127.0.0.1:{client_port}"
        self.peer_url = f"http://127.0.0.1:{peer_port}"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, program: str, cluster: str, options: Sequence[str]) -> None:
        assert not self.is_running
        log = (self._directory.parent / f"{self.name}.log").open("ab")
        command = [
            program, "--name", self.name, "--data-dir", str(self._directory), "--initial-cluster", cluster,
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url, *options,
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        with log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def signal(self, number: int) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def wait_ended(self) -> None:
        if self._process is not None:
            self._process.wait(READY)
            self._process = None

    def end(self, number: int) -> None:
        self.signal(signal.SIGCONT)
        self.signal(number)
        self.wait_ended()


class EtcdCluster:
    def __init__(self, directory: Path, size: int = 3, *, scheme: str = "http", options: Sequence[str] = ()) -> None:
        self._program = find_etcd()
        self._options = list(options)
        directory.mkdir(parents=True, exist_ok=True)
        self.members = [
            EtcdMember(f"m{number}", directory / f"m{number}", free_port(), free_port(), scheme)
            for number in range(size)
        ]

    @property
    def spec(self) -> str:
        """What `open_coordination` takes."""
        return "etcd:" + ",".join(member.url for member in self.members)

    def start(self, *, wait: bool = True) -> None:
        """Start all members that are not running."""
        for number, member in enumerate(self.members):
            if not member.is_running:
                self.start_member(number)
        if wait:
            self.wait_ready()

    def start_member(self, number: int) -> None:
        cluster = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        self.members[number].start(self._program, cluster, self._options)

    def stop(self) -> None:
        """End all of them, whatever state they are in."""
        for member in self.members:
            member.signal(signal.SIGKILL)
        for member in self.members:
            member.wait_ended()

    def kill(self, number: int) -> None:
        self.members[number].end(signal.SIGKILL)

    def restart(self, number: int) -> None:
        self.kill(number)
        self.start_member(number)

    def freeze(self, number: int) -> None:
        self.members[number].signal(signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        self.members[number].signal(signal.SIGCONT)

    def heal(self) -> None:
        """All members run, whatever was done to them."""
        for number in range(len(self.members)):
            self.thaw(number)
        self.start()

    def leader(self) -> int:
        """The number of the member that leads."""
        for number, member in enumerate(self.members):
            status = self.ask(number, "maintenance/status", {})
            if member.is_running and status.get("leader") == status["header"]["member_id"]:
                return number
        raise AssertionError("no member leads")

    def ask(self, number: int, path: str, body: dict[str, Any], timeout: float = ASK) -> dict[str, Any]:
        """A question to one member, past the code under test."""
        request = urllib.request.Request(f"{self.members[number].url}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            result: dict[str, Any] = json.loads(answer.read().splitlines()[0])
            return result

    def wait_ready(self) -> None:
        """Until each member answers for the majority."""
        if self.members[0].url.startswith("https"):
            return
        deadline = time.monotonic() + READY
        for number, member in enumerate(self.members):
            while not self._answers(number):
                assert member.is_running, f"{member.name} has ended; see its log"
                assert time.monotonic() < deadline, f"{member.name} does not answer"
                time.sleep(0.05)

    def _answers(self, number: int) -> bool:
        try:
            self.ask(number, "kv/range", {"key": "AA==", "count_only": True}, timeout=5.0)
        except (OSError, http.client.HTTPException):
            return False
        return True

    def compact(self) -> None:
        """Forget all history before now."""
        revision = self.ask(0, "kv/range", {"key": "AA==", "count_only": True})["header"]["revision"]
        self.ask(0, "kv/compaction", {"revision": revision, "physical": True})


@contextmanager
def etcd_cluster(directory: Path, size: int = 3) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(directory, size)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
