"""The processes of a local cluster, as the kernel tells of them, and what is said of their ends."""

from __future__ import annotations

import json
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.support import eventually, free_port
from mirrormq.cli.local import operate, processes
from mirrormq.cli.local.advice import next_steps
from mirrormq.cli.local.plan import Plan, PlanError, Wish, settle

EXIT = {"x86_64": 60, "aarch64": 93}.get(platform.machine(), 0)
ENDING = f"""
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall({EXIT}, 0)
"""
"""Its first thread has ended, and another one is still busy, as when a process is killed that waits for the disk."""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    settled = settle(tmp_path / "c", Wish(1, None, [], "", "", ""), (1, 5671), lambda _, __: False)
    settled.directory.mkdir()
    return settled


def record(plan: Plan, process: subprocess.Popen[bytes]) -> None:
    began = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    (plan.directory / f"{plan.nodes[0].name}.pid").write_text(json.dumps({"pid": process.pid, "began": began}))


@pytest.fixture
def ending(plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", ENDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        record(plan, process)
        eventually(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
        yield process


@pytest.mark.skipif(not EXIT, reason="how a thread ends is known for two kinds of processors")
def test_a_process_is_there_until_its_last_thread_has_ended(plan: Plan, ending: subprocess.Popen[bytes]) -> None:
    assert processes.pid_of(plan, plan.nodes[0]) == ending.pid
    assert ending.stdin is not None
    ending.stdin.close()
    eventually(lambda: processes.pid_of(plan, plan.nodes[0]) is None)
    assert ending.poll() is not None


def test_a_node_that_is_gone_before_anybody_watches_is_told_of(plan: Plan) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        record(plan, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        said: list[str] = []
        operate.watch(plan, {plan.nodes[0].name: process}, said.append)
    assert ["was ended by signal 9 (SIGKILL)" in sentence for sentence in said] == [True]


def test_a_node_whose_number_cannot_be_noted_does_not_stay_behind(plan: Plan) -> None:
    node = plan.nodes[0]
    (plan.directory / f"{node.name}.pid").mkdir()
    with pytest.raises(PlanError, match=r"cannot be written \(Is a directory\): rabbit1@localhost was not started"):
        processes.start(plan, node)
    assert not [process for process in Path("/proc").glob("[0-9]*/cmdline") if str(plan.directory) in _line(process)]


def test_what_is_told_of_an_end_can_be_done_in_this_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the commands are called by their path, and in a folder whose name has a space."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mirrormq").touch()
    monkeypatch.setattr(sys, "argv", ["bin/mirrormq"])
    monkeypatch.chdir(tmp_path)
    plan = settle(tmp_path / "my data" / "c", Wish(1, None, [], "", "", ""), (1, 5671), lambda _, __: False)
    said: list[str] = []
    with subprocess.Popen(["true"]) as process:
        process.wait()
        operate.watch(plan, {plan.nodes[0].name: process}, said.append)
    assert said == ["rabbit1@localhost has ended. Start it again with: bin/mirrormq cluster restart-node rabbit1@localhost "
                    "--dir 'my data/c'"]
    assert "bin/mirrormq cluster down --dir 'my data/c'" in next_steps(plan, is_detached=True)


def test_a_cluster_may_listen_at_an_address_of_ipv6(plan: Plan) -> None:
    port = free_port()
    node = plan.nodes[0]._replace(amqp_port=port, http_port=free_port())
    processes.check_ports(plan._replace(host="::1"), node)
    with socket.create_server(("::1", port), family=socket.AF_INET6), pytest.raises(PlanError, match=f"port {port}, "):
        processes.check_ports(plan._replace(host="::1"), node)


@pytest.mark.parametrize("name", ["starting.lock", "rabbit1@localhost.log"])
def test_a_cluster_whose_files_cannot_be_written_is_told(plan: Plan, name: str) -> None:
    (plan.directory / name).mkdir()
    node = plan.nodes[0]._replace(amqp_port=free_port(), http_port=free_port())
    with pytest.raises(PlanError, match=r"cannot be (used: |written \()Is a directory"):
        operate.bring_up(plan._replace(nodes=(node,)), [node], lambda _: None)


def _line(process: Path) -> str:
    try:
        return process.read_text(errors="replace")
    except OSError:
        return ""
