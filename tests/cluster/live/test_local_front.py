"""`mirrormq cluster up` in the foreground, when nobody reads what it says any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.local import LocalCluster


@pytest.mark.usefixtures("heard_signals")
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_the_nodes_are_stopped_although_nobody_hears(tmp_path: Path, kind: str) -> None:
    cluster = LocalCluster(tmp_path, nodes=1)
    ours, theirs = os.pipe() if kind == "pipe" else os.openpty()
    words = ["cluster", "up", "--nodes", "1", "--base-port", str(cluster.base_port), "--dir", str(cluster.directory)]
    front = subprocess.Popen([sys.executable, "-m", "mirrormq.cli.main", *words], stdin=subprocess.DEVNULL, stdout=theirs,
                             stderr=theirs, env=cluster._env)
    os.close(theirs)
    try:
        said = b""
        while b"Ctrl-C" not in said:
            piece = os.read(ours, 4096)
            assert piece, said
            said += piece
        os.close(ours)
        front.send_signal(signal.SIGHUP)
        front.wait(120)
        assert [each["state"] for each in cluster.status()] == ["stopped"]
    finally:
        if front.poll() is None:
            front.kill()
            front.wait()
        cluster.run("down")
