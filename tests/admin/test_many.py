"""The measurement of lists runs: hundreds of queues, lists asked for while messages are published.

What it measures is printed by `python bench/lists.py`, and no test: it depends on what else the machine does.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .rabbitmq import ROOT

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(300)]


def test_lists_are_measured_beside_a_load():
    command = [sys.executable, ROOT / "bench" / "lists.py", "--no-rabbitmq", "--queues", "300", "--connections", "20",
               "--turns", "1", "--seconds", "0.5"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    found = json.loads(done.stdout)
    assert all(row["mirrormq"] > 0 for row in found["milliseconds"].values())
    assert "/api/queues" in found["milliseconds"]
    assert found["publishing"]["mirrormq"]["polled"] > 0
