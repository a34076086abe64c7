"""Thousands of queues and hundreds of connections: lists take less time than RabbitMQ's in the same run.

How much less is published while they are polled is printed, and not required: it depends on what else the machine does.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from .rabbitmq import ROOT, require_rabbitmq

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(900)]


def test_lists_of_a_full_broker_are_faster_than_rabbitmqs():
    require_rabbitmq()
    done = subprocess.run([sys.executable, ROOT / "bench" / "lists.py"], check=True, capture_output=True, text=True, timeout=800)
    found = json.loads(done.stdout)
    print(done.stderr)
    slower = {path: row for path, row in found["milliseconds"].items() if row["mirrormq"] > row["rabbitmq"]}
    assert slower == {}
