"""What clients of one node expect of any queue holds for mirrored queues too: the compatibility tests, asked of a cluster.

Every queue is mirrored on all three nodes and led by any of them, whichever node the client is connected to.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.live.nodes import Nodes
from compat.support import HTTP_PORT_OFFSET

TESTS = Path(__file__).parents[2]
CONFIGURATION = "mirroring_policy = all\nqueue_master_locator = random\n"
BATTERIES = (
    "acks", "cancel", "confirms", "consumers", "dead_letter", "dead_letter_routes", "overflow", "prefetch", "priority", "publish",
    "queue_lives", "queue_removal", "queues", "requeue", "single_active", "transactions", "ttl",
)
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path_factory.mktemp("battery"), configuration=CONFIGURATION)
    for node in nodes:
        node.http_port = node.port + HTTP_PORT_OFFSET
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.stop()


@pytest.mark.parametrize("battery", BATTERIES)
def test_a_mirrored_queue_does_what_any_queue_does(nodes: Nodes, battery: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"compat/test_{battery}.py"]
    environment = {**os.environ, "MIRRORMQ_COMPAT_URL": nodes[0].url()}
    ran = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:]
