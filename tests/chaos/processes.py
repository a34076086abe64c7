"""The processes under test: nodes and members of etcd, each on a machine of its own."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from chaos.network import Machine

AMQP, HTTP = 5672, 15672
ENDS = 30.0             # seconds a node may take to stop when asked
SERVES = 60.0           # seconds a node may take to start
ASK = 10.0
COMMAND = 60.0
BAD = re.compile(r"Traceback|assertion|a fault in|please report|never retrieved|unhandled|\bCRITICAL\b", re.IGNORECASE)


class Refused(Exception):
    """The management API answered with an error, or not at all."""


class Process:
    """What is started, ended, frozen and continued on a machine."""

    def __init__(self, machine: Machine, directory: Path) -> None:
        self.machine = machine
        self.name = machine.name
        self.directory = directory
        self.log = directory.parent / f"{machine.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        if not self.is_running:
            self.process = self.machine.start(self.command(), self.log, self.environment())

    def send(self, number: int) -> None:
        if self.process is not None and self.is_running:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
            self.process = None


class EtcdMember(Process):
    def __init__(self, machine: Machine, directory: Path) -> None:
        super().__init__(machine, directory)
        self.url = f"http://{machine.address}:2379"
        self.peer_url = f"http://{machine.address}:2380"
        self.others: list[EtcdMember] = []

    def command(self) -> list[str]:
        cluster = ",".join(f"{member.name}={member.peer_url}" for member in self.others)
        return [
            "etcd", "--name", self.name, "--data-dir", str(self.directory), "--initial-cluster", cluster,
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}

    def answers(self) -> bool:
        request = urllib.request.Request(f"{self.url}/v3/kv/range", b'{"key": "AA==", "count_only": true}')
        try:
            with urllib.request.urlopen(request, timeout=2.0):
                return True
        except OSError:
            return False


class Node(Process):
    def __init__(self, machine: Machine, directory: Path, coordination: str, cookie: str) -> None:
        super().__init__(machine, directory)
        self.node = f"{machine.name}@{machine.address}"
        self._coordination = coordination
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MIRRORMQ_", "RABBITMQ_"))},
            "MIRRORMQ_COOKIE": cookie, "MIRRORMQ_RUN_DIR": str(directory / "run"),
        }
        (directory / "node.conf").write_text("loopback_users = none\n")
        self.is_stopping = False            # it was asked to end
        self.surprises: list[str] = []      # it ended by itself
        self._read = 0                      # bytes of the log that were looked at

    def command(self) -> list[str]:
        return [
            sys.executable, "-m", "mirrormq.cli.main", "server", "--node-name", self.node, "--data-dir", str(self.data),
            "--config", str(self.directory / "node.conf"), "--coordination", self._coordination, "--port", str(AMQP),
            "--http-port", str(HTTP), "--advertised-host", self.machine.address,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        return self._environment

    def kill(self) -> None:
        self.note_end()
        self.is_stopping = False
        super().kill()

    def note_end(self) -> None:
        """Remember it if it has ended and nobody asked for that."""
        if self.process is not None and not self.is_running:
            if not self.is_stopping:
                tail = self.log.read_text(errors="replace").splitlines()[-4:]
                self.surprises.append(f"{self.name} with {self.process.returncode}: " + " | ".join(tail))
            self.process = None

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def stop(self) -> int | None:
        """Ask it to end. Its code, None where it did not end in time and was killed."""
        if self.process is None:
            return 0
        self.send(signal.SIGTERM)
        try:
            code = self.process.wait(ENDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self.process = None
        return code

    def helpers(self) -> list[int]:
        """The processes that sync its files."""
        if self.process is None:
            return []
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            return [int(child) for child in children if b"helper.py" in Path(f"/proc/{child}/cmdline").read_bytes()]
        except OSError:
            return []

    def lose_disk(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mirrormq.cli.ctl", "-n", self.node, *words]
        return self.machine.run(command, self._environment, COMMAND)

    def ask(self, method: str, path: str, body: Any = None, timeout: float = ASK) -> Any:
        request = urllib.request.Request(f"http://{self.machine.address}:{HTTP}/api/{path}", method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(f"{method} {path} at {self.name}: {error.code} {error.read()[:300].decode(errors='replace')}") from None
        except (OSError, ValueError) as error:
            raise Refused(f"{method} {path} at {self.name}: {error}") from None
        return json.loads(text) if text else None

    def serves(self) -> bool:
        try:
            self.ask("GET", "overview", timeout=2.0)
        except Refused:
            return False
        return True

    def new_faults(self) -> list[str]:
        """What its log says since the last time that no log should say, each with the lines behind it."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        text = text[:text.rfind(b"\n") + 1]
        self._read += len(text)
        lines = text.decode(errors="replace").splitlines()
        found: list[str] = []
        seen = -100
        for number, line in enumerate(lines):
            if BAD.search(line) and number > seen + 30:
                seen = number
                found.append("\n".join(lines[max(0, number - 1):number + 30]))
        return found


def until(condition: Any, within: float) -> bool:
    """Poll until it holds; False where it does not in time."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")
