"""Fixtures of the admin tests: one node for all of them, and for each test a virtual host of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pika
import pika.exceptions
import pytest

from compat.support import PATIENT, unique

from .rabbitmq import RabbitMQ, require_rabbitmq
from .support import Node, quote

Connect = Callable[..., pika.BlockingConnection]


@pytest.fixture(scope="session")
def node(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    server = Node(tmp_path_factory.mktemp("node"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def vhost(node: Node) -> Iterator[str]:
    name = unique("vh")
    node.add_vhost(name)
    yield name
    node.ask("DELETE", f"/api/vhosts/{quote(name)}")


@pytest.fixture
def user(node: Node) -> Iterator[Callable[..., str]]:
    """user(tags, vhost) makes a user whose password is its name."""
    made: list[str] = []

    def make(tags: str = "", vhost: str | None = None, configure: str = ".*") -> str:
        made.append(unique("user"))
        node.add_user(made[-1], made[-1], tags)
        if vhost is not None:
            node.grant(vhost, made[-1], configure=configure)
        return made[-1]

    yield make
    for name in made:
        node.ask("DELETE", f"/api/users/{quote(name)}")


@pytest.fixture
def connect(node: Node, vhost: str) -> Iterator[Connect]:
    opened: list[pika.BlockingConnection] = []

    def opener(user: str = "guest", **parameters: Any) -> pika.BlockingConnection:
        login = pika.PlainCredentials(user, user)
        settings = {"virtual_host": vhost, "heartbeat": 0, "credentials": login} | PATIENT | parameters
        opened.append(pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port, **settings)))
        return opened[-1]

    yield opener
    for connection in opened:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """One RabbitMQ for the comparisons of a file; skips where there is none."""
    require_rabbitmq()
    server = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    server.start()
    yield server
    server.stop()
