"""Support for tests of a cluster's views: real nodes that share a store."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika

from admin.support import Node, quote
from compat.support import PATIENT, eventually, free_port


class Member(Node):
    def __init__(self, directory: Path, name: str, store: Path, *options: str) -> None:
        directory.mkdir(parents=True)
        super().__init__(directory, "--coordination", f"sqlite:{store}", "--link-port", str(free_port()), "--cookie-file",
                         str(store.with_name("cookie")), *options, name=name)

    def get(self, path: str) -> Any:
        reply = self.ask("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.body

    def connect(self, vhost: str) -> pika.BlockingConnection:
        login = pika.PlainCredentials("guest", "guest")
        settings = pika.ConnectionParameters(self.host, self.port, vhost, login, heartbeat=0, **PATIENT)
        return pika.BlockingConnection(settings)

    def declare(self, vhost: str, name: str, **body: Any) -> None:
        reply = self.ask("PUT", f"/api/queues/{quote(vhost)}/{quote(name)}", {"durable": True, **body})
        assert reply.status in (201, 204), reply

    def queues(self, vhost: str, query: str = "") -> Any:
        return self.get(f"/api/queues/{quote(vhost)}{query}")

    def queue(self, vhost: str, name: str) -> Any:
        return self.get(f"/api/queues/{quote(vhost)}/{quote(name)}")

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def linked(self) -> set[str]:
        return {link["name"] for link in self.get(f"/api/nodes/{self.name}")["cluster_links"]}


class Members:
    def __init__(self, directory: Path, names: list[str], *options: str) -> None:
        cookie = directory / "cookie"
        cookie.write_text("a secret of these tests")
        cookie.chmod(0o600)
        self.members = [Member(directory / name, name, directory / "store.sqlite", *options) for name in names]

    def __getitem__(self, at: int) -> Member:
        return self.members[at]

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    def start(self) -> None:
        for member in self.members:
            member.start()
        self.until_whole()

    def until_whole(self) -> None:
        names = set(self.names)
        for member in self.members:
            eventually(lambda member=member: {member.name, *member.linked()} == names)

    def stop(self) -> None:
        with contextlib.ExitStack() as everyone:
            for member in self.members:
                everyone.callback(_stop, member)


@contextlib.contextmanager
def running(cluster: Members) -> Iterator[Members]:
    """Nodes that were started are stopped, also when one of them does not start."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _stop(member: Member) -> None:
    if member.process is not None:
        with contextlib.suppress(ProcessLookupError):
            member.signal(signal.SIGCONT)
        member.stop()
