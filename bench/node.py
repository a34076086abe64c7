"""Our own node, as it is installed or uncompiled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

from processes import await_amqp, end, family, free_port, start

SOURCES = Path(__file__).resolve().parent.parent / "src"


class Node:
    """One node of ours. `pure` runs the sources, which hides the compiled modules of the installation."""

    kind = ""

    def __init__(self, command: list[str], folder: Path, *, pure: bool) -> None:
        self.folder = folder
        self.port = free_port()
        self.http_port = free_port()
        self.log = folder / "output"
        self._command = command
        self._environment = pure_environment() if pure else {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it serves."""
        arguments = ["server", "--data-dir", str(self.folder / "data"), "--node-name", "bench@localhost"]
        ports = ["--port", str(self.port), "--http-port", str(self.http_port)]
        self._process = start([*self._command, *arguments, *ports], self._environment, self.log)
        await_amqp(self.port, self._process, self.log)

    @property
    def pids(self) -> set[int]:
        """Its process and those that it started."""
        return family(self._process.pid) if self._process is not None else set()

    def kill(self) -> None:
        """Kill it at once; its data stays."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """Stop it and remove its data."""
        if self._process is not None:
            end(self._process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def version(self) -> str:
        """What the command says of itself."""
        asked = subprocess.run([*self._command, "--version"], check=False, capture_output=True, text=True, timeout=60)
        words = asked.stdout.split()
        return words[-1] if words and asked.returncode == 0 else ""


def pure_environment() -> dict[str, str]:
    """The environment in which Python finds the sources first."""
    return {"PYTHONPATH": str(SOURCES)}
