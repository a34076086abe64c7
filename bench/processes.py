"""Starting, awaiting and ending the programs that are measured."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 30.0
PORTS = (12_000, 22_000)
TICK = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A program that is needed did not start, answer or finish; the text says which and why."""


def free_port() -> int:
    """A port that nobody uses now, and that is not among those that the system gives to whoever connects."""
    while not is_free(port := random.randrange(*PORTS)):
        pass
    return port


def is_free(port: int) -> bool:
    """Whether nobody uses it."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a server in a process group of its own, its output in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def await_amqp(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers an AMQP greeting."""
    deadline = time.monotonic() + START_SECONDS
    while not greets(port):
        if process.poll() is not None:
            raise Failed(f"it ended with code {process.returncode} while starting: {tail(log)}")
        if time.monotonic() > deadline:
            raise Failed(f"it does not answer on port {port} after {START_SECONDS:.0f} s: {tail(log)}")
        time.sleep(0.2)


def greets(port: int) -> bool:
    """Whether an AMQP 0-9-1 server answers there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(1) == b"\x01"
    except OSError:
        return False


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop the server and whatever it started; kill what does not stop."""
    for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience)
            return
        except subprocess.TimeoutExpired:
            continue


def tail(log: Path, lines: int = 5) -> str:
    """The last lines of a log, on one line."""
    text = log.read_text(errors="replace").strip().splitlines()[-lines:]
    return " | ".join(text) or "it said nothing"


def family(root: int) -> set[int]:
    """A process and all that descend from it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def seconds_of(pids: Iterable[int]) -> float:
    """Processor time that they have had, and those of their children that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / TICK


def resident_of(pids: Iterable[int], kind: str = "VmRSS") -> float:
    """MiB that they have in memory; the most that they ever had for `VmHWM`."""
    kilobytes = 0
    for pid in pids:
        with suppress(OSError):
            kilobytes += int(Path(f"/proc/{pid}/status").read_text().split(f"{kind}:")[1].split()[0])
    return kilobytes / 1024
