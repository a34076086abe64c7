"""The real command in a process of its own, which can be killed with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def lake_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "mirrormq.cli.main", "lake", *words]


def run_lake(*words: str, expect: int = 0, timeout: float = 300) -> str:
    """What the command says, on both streams, without Spark's own chatter."""
    done = subprocess.run(lake_command(*words), capture_output=True, text=True, timeout=timeout, check=False, env=environment())
    lines = [line for line in (done.stdout + done.stderr).splitlines() if not chatter(line)]
    assert done.returncode == expect, done.stdout + done.stderr
    return "\n".join(lines)


def chatter(line: str) -> bool:
    return (
        line.startswith(("WARNING", "Using Spark", "Setting default", "To adjust", "26/", "27/"))
        or " WARN " in line
        or not line.strip()
    )


def environment() -> dict[str, str]:
    return os.environ | {"JAVA_TOOL_OPTIONS": "", "MIRRORMQ_SPARK_MASTER": "local[2,3]"}


@contextlib.contextmanager
def running_job(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as out:
        process = subprocess.Popen(lake_command(*words), stdout=out, stderr=out, start_new_session=True, env=environment())
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of the command, its Java and its workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
