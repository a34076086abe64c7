"""A connection that publishes under an alarm is blocked, and told so if it understands it.

The alarm comes from a disk limit that no disk satisfies, so a server of our own is started with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pika import spec

from .rawclient import RawClient
from .support import ServerProcess, eventually, own_server_only

pytestmark = own_server_only


@pytest.fixture(scope="module")
def alarmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = Path(tmp_path_factory.mktemp("alarmed"))
    config = directory / "rabbitmq.conf"
    config.write_text("disk_free_limit.absolute = 1000000000000000000\n")
    server = ServerProcess(directory, "--config", str(config))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(alarmed: ServerProcess) -> Iterator[RawClient]:
    client = RawClient(alarmed.host, alarmed.port)
    yield client
    client.close()


def test_a_publisher_is_told_that_it_is_blocked(client: RawClient) -> None:
    client.handshake()
    client.open_channel(1)
    client.publish(1, "", "nowhere", b"x")
    assert client.expect(spec.Connection.Blocked, 0).reason == "low on disk"


def test_a_blocked_connection_is_not_read(client: RawClient) -> None:
    client.handshake()
    client.open_channel(1)
    client.publish(1, "", "nowhere", b"x")
    client.expect(spec.Connection.Blocked, 0)
    client.send_method(1, spec.Basic.Qos())
    assert client.silent()


def test_who_does_not_publish_is_not_blocked(client: RawClient) -> None:
    client.handshake()
    client.open_channel(1)
    queue = client.call(1, spec.Queue.Declare(queue="", exclusive=True), spec.Queue.DeclareOk).queue
    client.call(1, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
    assert client.alive()


def test_a_client_without_the_capability_is_blocked_in_silence(client: RawClient) -> None:
    """It cannot know when, and what it sends along with its first publish may still be answered."""
    client.handshake(properties={})
    client.open_channel(1)

    def blocked() -> bool:
        client.publish(1, "", "nowhere", b"x")
        client.send_method(1, spec.Basic.Qos())
        return client.silent()

    eventually(blocked)
