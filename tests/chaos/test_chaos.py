"""The random faults on real nodes, for a short time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.network import Unavailable, require

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(280)]
ROOT = Path(__file__).parent.parent.parent


def begin(directory: Path, *options: str) -> subprocess.Popen[str]:
    try:
        require()
    except Unavailable as unavailable:
        if os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1" and "missing" in str(unavailable):
            pytest.fail(str(unavailable))
        pytest.skip(str(unavailable))
    path = os.pathsep.join([str(ROOT / "tests"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    command = [sys.executable, "-m", "chaos.run", "--dir", str(directory), "--keep", *options]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, start_new_session=True)


def left_over(directory: Path) -> list[str]:
    """The processes that have this directory in their command."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in command:
            found.append(command)
    return found


def test_three_nodes_under_faults_for_a_short_time(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", "--minutes", "0.35", "--seed", "1", "--faults", "kill,freeze,cut,move")
    told, _ = run.communicate(timeout=240)
    assert run.returncode == 0, told
    assert "\n0 findings" in told
    assert left_over(tmp_path / "run") == []


def test_an_interrupt_leaves_no_process_behind(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", "--minutes", "5", "--seed", "1")
    assert run.stdout is not None
    lines: list[str] = []
    for line in run.stdout:
        lines.append(line)
        if "round 1" in line:
            break
    assert left_over(tmp_path / "run"), lines
    run.send_signal(signal.SIGTERM)
    told, _ = run.communicate(timeout=60)
    assert "Interrupted." in told
    assert left_over(tmp_path / "run") == []
