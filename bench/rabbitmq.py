"""A private RabbitMQ: its own node name, ports, directories, cookie and port mapper; as root or as anybody else.

It touches nothing of an installed RabbitMQ service, and can run beside one.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

from processes import await_amqp, end, free_port, start

# Debian's wrapper in /usr/sbin insists on the system's user and directories; the script behind it does not.
PLACES = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "/usr/local/sbin/rabbitmq-server",
    "/opt/rabbitmq/sbin/rabbitmq-server",
)


def find() -> Path | None:
    """RabbitMQ's start script, if it is installed."""
    for place in (*PLACES, shutil.which("rabbitmq-server")):
        if place and os.access(place, os.X_OK):
            return Path(place)
    return None


class RabbitMQ:
    """One node. Management is on, as it is in ours, unless `management` says otherwise."""

    def __init__(self, script: Path, folder: Path, *, management: bool) -> None:
        self.script = script
        self.folder = folder
        self.port = free_port()
        self.http_port = free_port()
        self.name = f"bench-{os.getpid()}-{self.port}@localhost"
        self.log = folder / "output"
        self._management = management
        self._epmd_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it serves."""
        self._write_files()
        self._process = start([str(self.script)], self._environment(), self.log)
        await_amqp(self.port, self._process, self.log)

    def stop(self) -> None:
        """Stop it and its port mapper, and remove its data."""
        if self._process is not None:
            end(self._process)
            self._stop_epmd()
        shutil.rmtree(self.folder, ignore_errors=True)

    def version(self) -> str:
        """The version that it logged when it started."""
        for log in (self.folder / "log").glob("*.log"):
            found = re.search(r"Starting RabbitMQ ([\w.]+)", log.read_text(errors="replace"))
            if found:
                return found[1]
        return "of unknown version"

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        plugins = "rabbitmq_management" if self._management else ""
        (self.folder / "enabled_plugins").write_text(f"[{plugins}].\n")
        (self.folder / "rabbitmq.conf").write_text(self._configuration())
        (self.folder / "advanced.config").write_text("[].\n")
        cookie = self.folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(secrets.token_hex(16))
            cookie.chmod(0o400)

    def _configuration(self) -> str:
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "log.file.level = info"]
        if self._management:
            lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.http_port}"]
        return "\n".join(lines) + "\n"

    def _environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        }

    def _stop_epmd(self) -> None:
        """Erlang leaves its port mapper running; ours has a port of its own, so it can go."""
        epmd = shutil.which("epmd")
        if epmd:
            subprocess.run([epmd, "-port", str(self._epmd_port), "-kill"], check=False, capture_output=True, timeout=10)
