"""The processes of a local cluster: started apart from the terminal, found again by their number and the moment they began.

A process number alone may be another program's by now; with the moment of its start, from the kernel, it is not.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from mirrormq.cli.local.plan import NodePlan, Plan, PlanError

RUNNING: Final = "running"
STARTING: Final = "starting"
STOPPED: Final = "stopped"
APP_STOPPED: Final = "app stopped"
FROZEN: Final = "frozen"
ASK_PATIENCE: Final = 10.0
LAST_LINES: Final = 15
UNWANTED: Final = ("MIRRORMQ_COOKIE", "MIRRORMQ_DIST_PORT", "RABBITMQ_DIST_PORT")
"""Variables that would make all nodes use the same port, or another secret than the cluster's."""


class Status(NamedTuple):
    name: str
    pid: int | None
    amqp_port: int
    http_port: int
    state: str


def start(plan: Plan, node: NodePlan) -> subprocess.Popen[bytes]:
    """Start the process; whether it comes up is another question."""
    try:
        log = plan.log(node).open("ab")
    except OSError as fault:
        raise PlanError(f"{plan.log(node)} cannot be written ({fault.strerror}): {node.name} was not started") from None
    with log:
        process = subprocess.Popen(  # noqa: S603 - our own program, with checked arguments
            _command(plan, node), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in UNWANTED})
    record = {"pid": process.pid, "began": _began(process.pid)}
    try:
        _pid_file(plan, node).write_text(json.dumps(record), encoding="ascii")
    except OSError as fault:
        process.kill()          # or nobody would find it again
        process.wait()
        raise PlanError(f"{_pid_file(plan, node)} cannot be written ({fault.strerror}): {node.name} was not started") from None
    return process


def _command(plan: Plan, node: NodePlan) -> list[str]:
    words = [
        sys.executable, "-m", "mirrormq.cli.main", "server", "--data-dir", str(plan.data(node)), "--node-name", node.name,
        "--port", str(node.amqp_port), "--http-port", str(node.http_port), "--coordination", plan.coordination,
        "--cookie-file", str(plan.cookie), "--advertised-host", "127.0.0.1",
    ]  # fmt: skip
    words += ["--host", plan.host] if plan.host else []
    return words + (["--config", plan.config] if plan.config else [])


def check_ports(plan: Plan, node: NodePlan) -> None:
    for port in (node.amqp_port, node.http_port):
        with socket.socket(socket.AF_INET6 if ":" in plan.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((plan.host or "0.0.0.0", port))
            except OSError as fault:
                raise PlanError(f"port {port}, which {node.name} needs, cannot be used ({fault.strerror}): stop what uses it, or "
                                "make the cluster in another --dir with another --base-port") from None


def pid_of(plan: Plan, node: NodePlan) -> int | None:
    """The number of the node's process, if it is there."""
    try:
        record: Any = json.loads(_pid_file(plan, node).read_text(encoding="ascii"))
        pid = int(record["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if _began(pid) == record["began"] != "" else None


def is_up(plan: Plan, node: NodePlan) -> bool:
    return pid_of(plan, node) is not None


def _pid_file(plan: Plan, node: NodePlan) -> Path:
    return plan.directory / f"{node.name}.pid"


def _stat(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on; nothing if it is not there, or has ended with its last thread: one
    that waits for the disk may outlive the others, and holds the node's files and ports."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] in ("Z", "X") and int(fields[17]) <= 1 else fields


def _began(pid: int) -> str:
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def look(plan: Plan, node: NodePlan) -> Status:
    pid = pid_of(plan, node)
    state = STOPPED
    if pid is not None:
        state = FROZEN if _stat(pid)[:1] == ["T"] else _told(plan, node)
    return Status(node.name, pid, node.amqp_port, node.http_port, state)


def _told(plan: Plan, node: NodePlan) -> str:
    """What the node says of itself. One that does not answer yet is starting."""
    connection = http.client.HTTPConnection(plan.host or "127.0.0.1", node.http_port, timeout=ASK_PATIENCE)
    try:
        connection.request("GET", "/api/app")
        answer: Any = json.loads(connection.getresponse().read())
        state = str(answer["state"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return STARTING
    finally:
        connection.close()
    return APP_STOPPED if state == "stopped" else state


def tell(plan: Plan, node: NodePlan, number: signal.Signals) -> bool:
    """Send a signal; False if there is no process to hear it."""
    pid = pid_of(plan, node)
    if pid is None:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise PlanError(f"node {node.name} belongs to another user") from None
    return True


def await_end(plan: Plan, node: NodePlan, patience: float) -> bool:
    until = time.monotonic() + patience
    while pid_of(plan, node) is not None:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def last_words(plan: Plan, node: NodePlan) -> str:
    """The end of the node's log."""
    try:
        lines = plan.log(node).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in lines[-LAST_LINES:])
