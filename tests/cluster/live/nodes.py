"""Real nodes that share a store, each behind a line that can be cut."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from cluster.etcd import etcd_cluster
from compat.support import ServerProcess, eventually, free_port
from faultproxy import ThreadedFaultProxy


class Node(ServerProcess):
    """Others reach its link through `line`."""

    def __init__(self, directory: Path, name: str, coordination: str) -> None:
        self.name = name
        self.link_port = free_port()
        self.line = ThreadedFaultProxy(("127.0.0.1", self.link_port), free_port())
        directory.mkdir(parents=True)
        super().__init__(directory, "--node-name", name, "--coordination", coordination, "--link-port", str(self.link_port),
                         "--config", str(directory / "node.conf"))

    def open(self) -> None:
        self.line.__enter__()
        lines = ["cluster.advertised_host = 127.0.0.1", f"cluster.advertised_port = {self.line.address[1]}"]
        (self.directory / "node.conf").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        self.line.listen()
        super().start()

    def kill(self) -> None:
        """kill -9. Nobody listens at its line either, so that the others know at once that it is gone."""
        self.line.deafen()
        super().kill()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.process is not None:
                self.process.send_signal(signal.SIGCONT)
        self.line.heal()
        try:
            self.stop()
        finally:
            self.line.__exit__(None, None, None)

    def freeze(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def sees(self) -> set[str]:
        """The nodes that this one is linked to now, and itself."""
        linked = {self.name}
        for line in self.log().splitlines():
            if found := re.search(r"linked to node (\S+)$", line):
                linked.add(found[1])
            elif found := re.search(r"the link to node (\S+) is down", line):
                linked.discard(found[1])
        return linked


class Nodes:
    def __init__(self, directory: Path, count: int = 3, coordination: str = "", names: list[str] | None = None,
                 configuration: str = "") -> None:
        self.configuration = configuration
        self.coordination = spec = coordination or f"sqlite:{directory / 'cluster.sqlite'}"
        self.names = names or [f"rabbit{number}@localhost" for number in range(1, count + 1)]
        self.nodes = [Node(directory / name, name, spec) for name in self.names]

    def __getitem__(self, index: int) -> Node:
        return self.nodes[index]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.open()
            with (node.directory / "node.conf").open("a") as file:
                file.write(self.configuration)
            node.start()
        self.until_whole()

    def until_whole(self, within: float = 60.0) -> None:
        """Every node sees every other."""
        running = {node.name for node in self.nodes if node.process is not None}
        for node in self.nodes:
            if node.process is not None:
                eventually(lambda node=node: node.sees() == running, within=within)

    def mend(self) -> None:
        """Heal the lines, start those that are down, and wait for all."""
        for node in self.nodes:
            node.line.heal()
            if node.process is None:
                node.start()
        self.until_whole()

    def stop(self) -> None:
        with contextlib.ExitStack() as all_of_them:
            for node in self.nodes:
                all_of_them.callback(node.close)


@contextlib.contextmanager
def running(directory: Path, count: int = 3, coordination: str = "", configuration: str = "") -> Iterator[Nodes]:
    """They agree in a file of their own unless told otherwise; with MIRRORMQ_STORE=etcd, in an etcd of their own."""
    with contextlib.ExitStack() as stack:
        if not coordination and os.environ.get("MIRRORMQ_STORE") == "etcd":
            coordination = stack.enter_context(etcd_cluster(directory / "etcd", 1)).spec
        nodes = Nodes(directory, count, coordination, configuration=configuration)
        stack.callback(nodes.stop)
        nodes.start()
        yield nodes
