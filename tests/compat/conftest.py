"""Fixtures of the compatibility tests: a broker and a vhost per module, connections and channels per test.

Every test of a module shares one vhost, so a test names what it declares with `unique()` or uses `queue` and
`exchange`, which clean up after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from .policy_support import Policies
from .queue_support import numbered, publish, wait_ready
from .rawclient import RawClient
from .support import EXTERNAL_URL, PATIENCE, PATIENT, Broker, ServerProcess, external_broker, unique

Connect = Callable[..., Any]
CLOSE_DEADLINE = 5.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test: an external one, or a fresh server process for this module."""
    if EXTERNAL_URL:
        yield external_broker(EXTERNAL_URL)
        return
    server = ServerProcess(Path(tmp_path_factory.mktemp("server")))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def vhost(broker: Broker, request: pytest.FixtureRequest) -> Iterator[str]:
    """A vhost of this module, with all permissions for the broker's user."""
    name = unique(request.module.__name__.rpartition(".")[2])
    broker.add_vhost(name)
    yield name
    broker.delete_vhost(name)


@pytest.fixture
def user(broker: Broker, vhost: str) -> Iterator[str]:
    """A user with no permission for anything in the vhost but to enter."""
    name = unique("user")
    broker.add_user(name)
    broker.grant(vhost, name, "", "", "")
    yield name
    broker.delete_user(name)


@pytest.fixture
def connect(broker: Broker, vhost: str) -> Iterator[Connect]:
    """connect(vhost=..., user=..., password=..., any pika parameter=...) opens one more BlockingConnection."""
    opened: list[Any] = []

    def opener(
        vhost: str = vhost, user: str | None = None, password: str | None = None, **parameters: Any
    ) -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(user or broker.user, password or broker.password)
        settings = {"heartbeat": 0, "blocked_connection_timeout": PATIENCE, "virtual_host": vhost} | PATIENT | parameters
        settings.setdefault("credentials", credentials)
        opened.append(pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, **settings)))
        return opened[-1]

    yield opener
    for connection in opened:
        _close(connection)


def _close(connection: Any) -> None:
    """Close in order, but never wait for a broker that is gone or a connection that a failed test left half used."""
    if not connection.is_open:
        return
    impl = connection._impl
    gone = pika.exceptions.ConnectionWrongStateError("no answer to close")
    impl.ioloop.call_later(CLOSE_DEADLINE, lambda: impl._terminate_stream(gone))
    with suppress(pika.exceptions.AMQPError, OSError):
        connection.close()


@pytest.fixture
def policies(broker: Broker, vhost: str) -> Iterator[Policies]:
    """Sets policies in the module's vhost, and clears them after the test."""
    made = Policies(broker, vhost)
    yield made
    made.end()


@pytest.fixture
def connection(connect: Connect) -> Any:
    """A pika BlockingConnection to the module's vhost."""
    return connect()


@pytest.fixture
def channel(connection: Any) -> Any:
    """A channel on `connection`."""
    return connection.channel()


@pytest.fixture
def raw_connect(broker: Broker, vhost: str) -> Iterator[Callable[..., RawClient]]:
    """raw_connect(handshake=True, vhost=..., user=..., ...) opens one more RawClient."""
    opened: list[RawClient] = []

    def opener(*, handshake: bool = True, **options: Any) -> RawClient:
        opened.append(RawClient(broker.host, broker.port))
        if handshake:
            settings = {"vhost": vhost, "user": broker.user, "password": broker.password} | options
            opened[-1].handshake(**settings)
        return opened[-1]

    yield opener
    for client in opened:
        client.close()


@pytest.fixture
def raw(raw_connect: Callable[..., RawClient]) -> RawClient:
    """A RawClient, connected to the module's vhost, with channel 1 open."""
    client = raw_connect()
    client.open_channel(1)
    return client


@pytest.fixture
def cleanup(broker: Broker, vhost: str) -> Iterator[Any]:
    """cleanup(queue=name) or cleanup(exchange=name): deleted after the test, on a connection of its own."""
    names: list[tuple[str, str]] = []

    def remember(**what: str) -> str:
        names.extend(what.items())
        return next(iter(what.values()))

    yield remember
    if names:
        _delete(broker, vhost, names)


def _delete(broker: Broker, vhost: str, names: list[tuple[str, str]]) -> None:
    settings = pika.URLParameters(broker.url(vhost, query=f"?socket_timeout={PATIENCE}&stack_timeout={PATIENCE}"))
    with pika.BlockingConnection(settings) as connection:
        for kind, name in names:
            with suppress(pika.exceptions.ChannelClosedByBroker):
                channel = connection.channel()
                channel.queue_delete(name) if kind == "queue" else channel.exchange_delete(name)


@pytest.fixture
def queue(channel: Any, cleanup: Any) -> Callable[..., str]:
    """queue(name=None, arguments=None, durable=..., ...) declares on `channel`, deletes after the test: its name."""

    def declare(name: str | None = None, **options: Any) -> str:
        declared = str(channel.queue_declare(unique("q") if name is None else name, **options).method.queue)
        cleanup(queue=declared)
        return declared

    return declare


@pytest.fixture
def filled(channel: Any, queue: Callable[..., str]) -> str:
    """A queue with the messages 1 to 6."""
    name = queue()
    publish(channel, name, *numbered(6))
    wait_ready(channel, name, 6)
    return name


@pytest.fixture
def exchange(channel: Any, cleanup: Any) -> Callable[..., str]:
    """exchange(type="direct", name=None, ...) declares on `channel`, deletes after the test: its name."""

    def declare(type: str = "direct", name: str | None = None, **options: Any) -> str:
        declared = name or unique("x")
        channel.exchange_declare(declared, type, **options)
        cleanup(exchange=declared)
        return declared

    return declare
