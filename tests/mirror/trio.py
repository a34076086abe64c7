"""Whole nodes inside the test's own process: their own directories, one store, links over sockets."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from admin.support import Finished, ctl
from compat.support import free_port
from mirrormq.admin import rendezvous
from mirrormq.admin.app import App
from mirrormq.admin.server import AdminServer
from mirrormq.broker import rules
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.policy import Policy
from mirrormq.broker.queue import Queue
from mirrormq.mirror.holding import Holding
from mirrormq.node.config import load_config
from mirrormq.node.runtime import Runtime

WITHIN = 30.0
QUEUE = "q"
Answer = tuple[int, Any]
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Nodes:
    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        self._directory = directory
        self._ports = {name: (free_port(), free_port(), free_port()) for name in names}
        self._apps: dict[str, tuple[App, AdminServer]] = {}
        self.running: dict[str, Runtime] = {}

    async def start(self, name: str) -> Runtime:
        port, http, link = self._ports[name]
        config = load_config(None, {}, {
            "data_dir": self._directory / name, "node_name": f"{name}@localhost", "port": port, "http_port": http,
            "link_port": link, "coordination": f"sqlite:{self._directory / 'store.db'}",
            "cookie_file": self._directory / "cookie"})
        app = App(config)
        server = AdminServer(app)
        self._apps[name] = app, server
        await app.start()
        await server.start("127.0.0.1", http)
        self.running[name] = app.running()
        return app.running()

    async def stop(self, name: str) -> None:
        del self.running[name]
        app, server = self._apps.pop(name)
        await server.stop()
        await app.stop()
        await app.close()

    async def api(self, name: str, method: str, path: str) -> Answer:
        """What the HTTP API there says about the queue."""
        return await asyncio.to_thread(_ask, self._ports[name][1], method, f"/api/queues/%2F/{QUEUE}{path}")

    async def listed(self, name: str, query: str) -> Answer:
        return await asyncio.to_thread(_ask, self._ports[name][1], "GET", f"/api/queues?{query}")

    async def ctl(self, name: str, *words: str) -> Finished:
        """What `mirrormqctl` of that node's machine does, with the node's token."""
        server = self._apps[name][1]
        place = rendezvous.Place(f"{name}@localhost", server.url, server.token, os.getpid(), str(self._directory / name))
        file = rendezvous.publish(place, os.environ)
        try:
            return await asyncio.to_thread(ctl, "-n", place.node, *words)
        finally:
            rendezvous.withdraw(file)

    async def want(self, **definition: Any) -> None:
        """A policy for the queue: underscores stand for hyphens."""
        runtime = next(iter(self.running.values()))
        wanted = {key.replace("_", "-"): value for key, value in definition.items()}
        rules.put_policy(runtime.broker, Policy("/", "mirrored", f"^{QUEUE}$", "queues", wanted), operator=False)
        await runtime.agreed(0)

    def front(self, name: str) -> Queue | None:
        return self.running[name].broker.vhosts["/"].queues.get(QUEUE)

    def holding(self, name: str) -> Holding | None:
        front = self.front(name)
        return None if front is None else self.running[name].mirroring.rings.by_id.get(front.log_id)

    def ring(self) -> list[str]:
        """As whoever leads sees it, short names, in sync; empty while nobody leads."""
        for name in self.running:
            holding = self.holding(name)
            if holding is not None and holding.queue is not None:
                return [node.partition("@")[0] for node in holding.state.view.ring]
        return []

    def is_hopeless(self, name: str) -> bool:
        """No copy in sync can be reached, as that node knows."""
        front = self.front(name)
        assert isinstance(front, AwayQueue)
        return front.is_hopeless()

    def epoch(self) -> int:
        """The newest that any of them knows."""
        found = [self.holding(name) for name in self.running]
        return max(holding.state.epoch for holding in found if holding is not None)

    def port(self, name: str) -> int:
        return self._ports[name][0]

    async def at(self, name: str, do: Callable[[BlockingChannel], Any]) -> Any:
        """What a client does there."""
        return await asyncio.to_thread(_with_channel, self._ports[name][0], do)

    async def publish(self, name: str, *bodies: bytes) -> None:
        await self.at(name, lambda channel: [channel.basic_publish("", QUEUE, body, PERSISTENT, mandatory=True)
                                             for body in bodies])

    async def count(self, name: str) -> int:
        return int(await self.at(name, lambda channel: channel.queue_declare(QUEUE, passive=True).method.message_count))


def _ask(port: int, method: str, path: str) -> Answer:
    connection = HTTPConnection("localhost", port)
    try:
        connection.request(method, path, headers={"Authorization": "Basic " + b64encode(b"guest:guest").decode()})
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body else None
    finally:
        connection.close()


def _with_channel(port: int, do: Callable[[BlockingChannel], Any]) -> Any:
    connection = pika.BlockingConnection(pika.ConnectionParameters("localhost", port, heartbeat=0))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        return do(channel)
    finally:
        if connection.is_open:
            connection.close()


async def until(holds: Callable[[], object], within: float = WITHIN) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.02)


@asynccontextmanager
async def nodes_in(directory: Path, *names: str) -> AsyncIterator[Nodes]:
    (directory / "cookie").write_text("a secret that all nodes know, and nobody else does")
    (directory / "cookie").chmod(0o600)
    nodes = Nodes(directory, names)
    try:
        for name in names:
            await nodes.start(name)
        await nodes.at(names[0], lambda channel: channel.queue_declare(QUEUE, durable=True))
        yield nodes
    finally:
        for name in list(nodes.running):
            await nodes.stop(name)
