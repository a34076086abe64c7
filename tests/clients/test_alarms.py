"""Memory and disk alarms as a client meets them: publishers wait and are told why, consumers go on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from compat.support import ServerProcess, eventually, own_server_only

from .conftest import Serve
from .support import DEADLINE

pytestmark = [pytest.mark.live, own_server_only]

MEBIBYTE = 1024 * 1024
SHARED_MEMORY = Path("/dev/shm")


class Publisher:
    """A connection that notes what it is told about alarms."""

    def __init__(self, server: ServerProcess, **options: Any) -> None:
        self.reasons: list[str] = []
        self.cleared = 0
        parameters = pika.URLParameters(server.url())
        for name, value in options.items():
            setattr(parameters, name, value)
        self.connection = pika.BlockingConnection(parameters)
        self.connection.add_on_connection_blocked_callback(self.on_blocked)
        self.connection.add_on_connection_unblocked_callback(self.on_unblocked)
        self.channel = self.connection.channel()

    def on_blocked(self, _connection: Any, frame: Any) -> None:
        self.reasons.append(frame.method.reason)

    def on_unblocked(self, _connection: Any, _frame: Any) -> None:
        self.cleared += 1

    def is_told(self, count: int = 1) -> bool:
        self.connection.process_data_events(0.1)
        return len(self.reasons) == count

    def is_released(self) -> bool:
        self.connection.process_data_events(0.1)
        return self.cleared == 1


def shows_alarm(server: ServerProcess, name: str) -> bool:
    return bool(server.api("GET", "/api/nodes")[0].get(name))


def test_a_publisher_is_told_that_memory_is_low_and_does_not_hold_up_a_stop(serve: Serve) -> None:
    server = serve("vm_memory_high_watermark.absolute = 1MiB\n")
    publisher = Publisher(server)
    name = publisher.channel.queue_declare("", exclusive=True).method.queue
    eventually(lambda: shows_alarm(server, "mem_alarm"), within=DEADLINE)
    publisher.channel.basic_publish("", name, b"waits")
    eventually(publisher.is_told, within=DEADLINE)
    assert publisher.reasons == ["low on memory"]
    server.stop()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        publisher.connection.sleep(60)


def test_a_blocked_publisher_gives_up_after_its_own_timeout(serve: Serve) -> None:
    server = serve("vm_memory_high_watermark.absolute = 1MiB\n")
    publisher = Publisher(server, blocked_connection_timeout=1)
    eventually(lambda: shows_alarm(server, "mem_alarm"), within=DEADLINE)
    publisher.channel.basic_publish("", "anywhere", b"waits")
    with pytest.raises(pika.exceptions.ConnectionBlockedTimeout):
        publisher.connection.sleep(60)


def test_a_connection_that_only_consumes_is_never_blocked(serve: Serve) -> None:
    server = serve("disk_free_limit.absolute = 1000000GB\n")
    eventually(lambda: shows_alarm(server, "disk_free_alarm"), within=DEADLINE)
    consumer = Publisher(server)
    name = consumer.channel.queue_declare("", exclusive=True).method.queue
    consumer.channel.basic_consume(name, lambda *_: None)
    consumer.connection.sleep(1)
    assert consumer.reasons == []
    assert consumer.channel.queue_declare(name, passive=True).method.consumer_count == 1
    consumer.connection.close()


@pytest.fixture
def volume() -> Iterator[Path]:
    """A directory on a file system that this test can fill and empty at will."""
    if not SHARED_MEMORY.is_dir() or shutil.disk_usage(SHARED_MEMORY).free < 500 * MEBIBYTE:
        pytest.skip("needs half a gigabyte of shared memory")
    path = Path(tempfile.mkdtemp(dir=SHARED_MEMORY))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_a_disk_alarm_holds_publishers_lets_consumers_on_and_clears_by_itself(volume: Path, serve: Serve) -> None:
    limit = shutil.disk_usage(volume).free - 150 * MEBIBYTE
    server = serve(f"disk_free_limit.absolute = {limit}\n", directory=volume)
    publisher, consumer = Publisher(server), Publisher(server)
    publisher.channel.queue_declare("work", durable=True)
    publisher.channel.basic_publish("", "work", b"before")
    consumed: list[bytes] = []
    eventually(lambda: take(consumer, consumed))

    ballast = volume / "ballast"
    ballast.write_bytes(bytes(250 * MEBIBYTE))
    eventually(lambda: shows_alarm(server, "disk_free_alarm"), within=DEADLINE)
    publisher.channel.basic_publish("", "work", b"during")
    eventually(publisher.is_told, within=DEADLINE)
    assert publisher.reasons == ["low on disk"]
    assert not take(consumer, consumed)

    ballast.unlink()
    eventually(publisher.is_released, within=DEADLINE)
    publisher.channel.basic_publish("", "work", b"after")
    eventually(lambda: take(consumer, consumed) and len(consumed) == 3, within=DEADLINE)
    assert consumed == [b"before", b"during", b"after"]
    assert consumer.reasons == []
    for each in (publisher, consumer):
        each.connection.close()


def take(consumer: Publisher, consumed: list[bytes]) -> bool:
    method, _, body = consumer.channel.basic_get("work", auto_ack=True)
    if method is not None and body is not None:
        consumed.append(body)
    return method is not None
