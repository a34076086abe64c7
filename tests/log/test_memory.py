"""A backlog costs disk, not memory. MIRRORMQ_MESSAGES=10000000 asks for more of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("memory_child.py")
MESSAGES = int(os.environ.get("MIRRORMQ_MESSAGES", "500000"))
MIB_ALLOWED = 25


@pytest.mark.parametrize("per_chunk", [1, 128])
def test_a_long_backlog_takes_little_memory(tmp_path: Path, per_chunk: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(CHILD), str(tmp_path), str(MESSAGES), str(per_chunk)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    published, read = map(float, done.stdout.split())
    assert published < MIB_ALLOWED
    assert read < MIB_ALLOWED
