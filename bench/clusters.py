"""Three nodes that are one broker: ours, and RabbitMQ's.

Queues are mirrored on all nodes, and clients use the first. Or they are not, and clients use a node that does not hold the queue.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pika

from processes import Failed, free_port, is_free
from rabbitmq import RabbitMQ

NODES = 3
START_SECONDS = 180
POLICY = '{"ha-mode":"all","ha-sync-mode":"automatic"}'


class OurCluster:
    kind = ""

    def __init__(self, command: str, folder: Path, *, mirrored: bool) -> None:
        self.folder = folder
        base = free_base_port()
        self.ports = [base + number for number in range(1, NODES + 1)]
        self.port = self.ports[0]
        self._command = command
        self._mirrored = ["--mirrored"] if mirrored else []

    def start(self) -> None:
        """Start it and wait until all nodes serve."""
        names = ",".join(f"bench-{self.folder.name}{number}@localhost" for number in range(1, NODES + 1))
        self._cluster("up", "--nodes", str(NODES), "--names", names, "--base-port", str(self.port - 1),
                      *self._mirrored, "--detach")

    def stop(self) -> None:
        """Stop it and remove its data."""
        if self.folder.exists():
            self._cluster("down")
        shutil.rmtree(self.folder, ignore_errors=True)

    def version(self) -> str:
        """What the command says of itself."""
        asked = subprocess.run([self._command, "--version"], check=True, capture_output=True, text=True, timeout=60)
        return asked.stdout.split()[-1]

    def _cluster(self, *words: str) -> None:
        command = [self._command, "cluster", *words, "--dir", str(self.folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=START_SECONDS)
        if done.returncode:
            raise Failed((done.stderr or done.stdout).strip()[-500:])


class RabbitCluster:
    kind = ""

    def __init__(self, script: Path, folder: Path, *, management: bool, mirrored: bool) -> None:
        first = RabbitMQ(script, folder / "1", management=management)
        others = [RabbitMQ(script, folder / str(number), management=management, first=first) for number in range(2, NODES + 1)]
        self._nodes = [first, *others]
        self._mirrored = mirrored
        self.ports = [node.port for node in self._nodes]
        self.port = first.port

    def start(self) -> None:
        """Start the nodes, join them, and mirror every queue that is not a quorum queue, if that is wanted."""
        for node in self._nodes:
            node.start()
        for node in self._nodes[1:]:
            for words in (("stop_app",), ("join_cluster", self._nodes[0].name), ("start_app",)):
                node.control(*words)
        if self._mirrored:
            self._nodes[0].control("set_policy", "ha-all", ".*", POLICY, "--apply-to", "queues")
        self._nodes[0].control("await_online_nodes", str(NODES))

    def stop(self) -> None:
        """The first node last: it owns the port mapper."""
        for node in reversed(self._nodes):
            node.stop()

    def version(self) -> str:
        """As the first node says."""
        return self._nodes[0].version()


class Quorum:
    """The same nodes, with queues of the other replicated type."""

    kind = "quorum"

    def __init__(self, cluster: RabbitCluster) -> None:
        self._cluster = cluster
        self.port = cluster.port

    def start(self) -> None:
        """It runs already."""

    def stop(self) -> None:
        """It is stopped as what it is."""

    def version(self) -> str:
        """The cluster's."""
        return self._cluster.version()


class Forwarded:
    """A cluster whose queues live on its first node, while clients use the second."""

    kind = "classic"

    def __init__(self, cluster: OurCluster | RabbitCluster) -> None:
        self._cluster = cluster
        self._home, self.port = cluster.ports[:2]

    def start(self) -> None:
        """All its nodes."""
        self._cluster.start()

    def stop(self) -> None:
        """All its nodes."""
        self._cluster.stop()

    def version(self) -> str:
        """The cluster's."""
        return self._cluster.version()

    def declare(self, queue: str) -> None:
        """Before a client does: it lives where it is declared first."""
        login = pika.PlainCredentials("guest", "guest")
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._home, "/", login)) as connection:
            connection.channel().queue_declare(queue, durable=True, arguments={"x-queue-type": self.kind})


def free_base_port() -> int:
    """A port above which those that the nodes need are free now."""
    while True:
        base = free_port()
        if all(is_free(base + number + above) for number in range(1, NODES + 1) for above in (0, 10_000)):
            return base
