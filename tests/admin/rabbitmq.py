"""A private RabbitMQ beside the node under test: Debian's rabbitmq-server under a name and at ports of its own.

Where it is missing tests are skipped, unless MIRRORMQ_REQUIRE_ALL=1 asks for everything: then it is installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from compat.support import Broker, free_port

ROOT = Path(__file__).parent.parent.parent
REQUIRED = os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1"
PROGRAMS = Path("/usr/lib/rabbitmq/bin")
PLUGINS = ("rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_event_exchange", "rabbitmq_consistent_hash_exchange",
           "rabbitmq_sharding")
START = 180.0


def require_rabbitmq() -> None:
    """Skips the test where RabbitMQ is missing."""
    if not (PROGRAMS / "rabbitmq-server").exists() and REQUIRED:
        subprocess.run([ROOT / ".ci" / "packages", "rabbitmq-server"], check=True)
    if not (PROGRAMS / "rabbitmq-server").exists():
        if REQUIRED:
            pytest.fail("RabbitMQ is missing, and all components are required: install Debian's rabbitmq-server")
        pytest.skip("RabbitMQ is not installed (Debian's package is rabbitmq-server)")


class RabbitMQ(Broker):
    """`run` gives a command to one of its tools."""

    def __init__(self, directory: Path) -> None:
        super().__init__("127.0.0.1", free_port(), free_port(), "guest", "guest")
        self.directory = directory
        self.prometheus_port, self.epmd_port = free_port(), free_port()
        self.name = f"compared{self.port}@localhost"
        self.process: subprocess.Popen[bytes] | None = None
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nmanagement.tcp.port = {self.http_port}\nmanagement.tcp.ip = 127.0.0.1\n"
            f"prometheus.tcp.port = {self.prometheus_port}\nprometheus.tcp.ip = 127.0.0.1\n")
        (directory / "enabled_plugins").write_text(f"[{','.join(PLUGINS)}].")
        cookie = directory / ".erlang.cookie"
        cookie.write_text("COMPARISON")
        cookie.chmod(0o400)

    def environment(self) -> dict[str, str]:
        own = {
            "HOME": self.directory, "RABBITMQ_NODENAME": self.name, "RABBITMQ_MNESIA_BASE": self.directory / "mnesia",
            "RABBITMQ_LOG_BASE": self.directory / "log", "RABBITMQ_PID_FILE": self.directory / "pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.directory / "enabled_plugins",
            "RABBITMQ_CONFIG_FILE": self.directory / "rabbitmq.conf", "RABBITMQ_DIST_PORT": free_port(),
            "RABBITMQ_ADVANCED_CONFIG_FILE": self.directory / "advanced.config", "ERL_EPMD_PORT": self.epmd_port,
        }  # fmt: skip
        return os.environ | {name: str(value) for name, value in own.items()}

    def start(self) -> None:
        with (self.directory / "out").open("ab") as log:
            self.process = subprocess.Popen([PROGRAMS / "rabbitmq-server"], env=self.environment(), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        until = time.monotonic() + START
        while not (_answers(self.http_port) and _answers(self.port)):
            if time.monotonic() > until or self.process.poll() is not None:
                self.stop()
                pytest.fail(f"RabbitMQ has not started: {(self.directory / 'out').read_text()[-2000:]}")
            time.sleep(0.2)
        self.run("rabbitmqctl", "await_startup")

    def stop(self) -> None:
        if self.process is None:
            return
        self.run("rabbitmqctl", "stop")
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process = None
        epmd = shutil.which("epmd")
        if epmd is not None:
            subprocess.run([epmd, "-port", str(self.epmd_port), "-kill"], capture_output=True, check=False)

    def run(self, tool: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAMS / tool, "-n", self.name, *words], env=self.environment(), input=stdin,
                              capture_output=True, text=True, check=False, timeout=240)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True

