"""Purged and deleted queues can be had back for a while. Not in RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from .queue_support import contents, get, numbered, place, publish, ready, wait_ready
from .support import ApiError, Broker, ServerProcess, eventually, own_server_only, quote, unique

pytestmark = own_server_only

PERSISTENT = 2
Declare = Callable[..., str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    server = ServerProcess(Path(tmp_path_factory.mktemp("server")))
    server.start()
    yield server
    server.stop()


def items(broker: Broker, vhost: str, name: str) -> list[dict[str, Any]]:
    return [item for item in broker.api("GET", f"/api/undo/{quote(vhost)}") if item["name"] == name]


def undo(broker: Broker, vhost: str, item: dict[str, Any]) -> int:
    return int(broker.api("POST", f"/api/undo/{quote(vhost)}/{quote(item['id'])}")["messages"])


def fill(channel: Any, name: str, count: int = 5) -> list[bytes]:
    channel.queue_declare(name, durable=True)
    publish(channel, name, *numbered(count), delivery_mode=PERSISTENT)
    wait_ready(channel, name, count)
    return numbered(count)


def test_a_purge_is_undone(channel: Any, broker: Broker, vhost: str, cleanup: Any) -> None:
    name = cleanup(queue=unique("orders"))
    was = fill(channel, name)
    channel.queue_purge(name)
    publish(channel, name, b"later", delivery_mode=PERSISTENT)
    (item,) = items(broker, vhost, name)
    assert (item["what"], item["messages"], item["bytes"]) == ("purge", 5, 5)
    assert item["until_ms"] - item["time_ms"] == 600_000
    assert undo(broker, vhost, item) == 5
    assert contents(channel, name) == [b"later", *was]
    assert items(broker, vhost, name) == []
    with pytest.raises(ApiError, match="404"):
        undo(broker, vhost, item)


def test_only_what_was_purged_comes_back(channel: Any, broker: Broker, vhost: str, cleanup: Any) -> None:
    name = cleanup(queue=unique("orders"))
    fill(channel, name)
    first, second = get(channel, name), get(channel, name)
    assert first is not None
    assert second is not None
    channel.basic_ack(first.tag)
    channel.queue_purge(name)
    channel.basic_reject(second.tag, requeue=True)
    wait_ready(channel, name, 1)
    assert undo(broker, vhost, items(broker, vhost, name)[0]) == 3
    assert contents(channel, name) == [b"2", b"3", b"4", b"5"]


def test_a_deletion_is_undone_with_arguments_bindings_and_messages(
    channel: Any, broker: Broker, vhost: str, cleanup: Any, exchange: Declare
) -> None:
    name, source = cleanup(queue=unique("orders")), exchange("topic")
    arguments = {"x-max-length": 100, "x-message-ttl": 600_000}
    channel.queue_declare(name, durable=True, arguments=arguments)
    for key in ("eu.*", "us.*"):
        channel.queue_bind(name, source, key)
    publish(channel, "eu.1", *numbered(4), exchange=source, delivery_mode=PERSISTENT)
    wait_ready(channel, name, 4)
    held = get(channel, name)
    channel.queue_delete(name)
    (item,) = items(broker, vhost, name)
    assert (item["what"], item["messages"]) == ("delete", 4)
    assert held is not None
    assert undo(broker, vhost, item) == 4
    channel.queue_declare(name, durable=True, arguments=arguments)
    publish(channel, "us.1", b"5", exchange=source)
    assert contents(channel, name) == numbered(5)


def test_messages_of_a_deleted_queue_come_to_one_that_was_declared_since(
    channel: Any, broker: Broker, vhost: str, cleanup: Any
) -> None:
    name = cleanup(queue=unique("orders"))
    was = fill(channel, name)
    channel.queue_delete(name)
    channel.queue_declare(name)
    publish(channel, name, b"new")
    assert undo(broker, vhost, items(broker, vhost, name)[0]) == 5
    assert contents(channel, name) == [b"new", *was]


def test_an_empty_queue_comes_back_too(channel: Any, broker: Broker, vhost: str, cleanup: Any, exchange: Declare) -> None:
    name, source = cleanup(queue=unique("empty")), exchange("fanout")
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, source)
    channel.queue_delete(name)
    assert undo(broker, vhost, items(broker, vhost, name)[0]) == 0
    publish(channel, "", b"m", exchange=source)
    assert contents(channel, name) == [b"m"]


def test_a_purge_before_a_deletion_can_be_undone_after_it(channel: Any, broker: Broker, vhost: str, cleanup: Any) -> None:
    name = cleanup(queue=unique("orders"))
    was = fill(channel, name)
    channel.queue_purge(name)
    channel.queue_delete(name)
    deletion, purge = items(broker, vhost, name)
    with pytest.raises(ApiError, match="undo its deletion first"):
        undo(broker, vhost, purge)
    assert undo(broker, vhost, deletion) == 0
    assert undo(broker, vhost, purge) == 5
    assert contents(channel, name) == was


def test_transient_messages_and_queues_leave_nothing(channel: Any, broker: Broker, vhost: str, queue: Declare) -> None:
    name = queue()
    publish(channel, name, *numbered(3), delivery_mode=PERSISTENT)
    wait_ready(channel, name, 3)
    channel.queue_purge(name)
    channel.queue_delete(name)
    assert items(broker, vhost, name) == []


def test_a_policy_switches_it_off_and_limits_it(channel: Any, broker: Broker, vhost: str, cleanup: Any) -> None:
    off, small = cleanup(queue=unique("off")), cleanup(queue=unique("small"))
    broker.set_policy(vhost, "off", "^off", {"undo-time": 0})
    broker.set_policy(vhost, "small", "^small", {"undo-bytes": 4, "undo-time": "1h"})
    for name in (off, small):
        fill(channel, name)
        channel.queue_purge(name)
        assert items(broker, vhost, name) == []
    publish(channel, small, b"abc", delivery_mode=PERSISTENT)
    wait_ready(channel, small, 1)
    channel.queue_purge(small)
    (item,) = items(broker, vhost, small)
    assert item["until_ms"] - item["time_ms"] == 3_600_000
    for name in ("off", "small"):
        broker.clear_policy(vhost, name)


def test_a_wrong_time_is_refused(broker: Broker, vhost: str) -> None:
    with pytest.raises(ApiError, match="undo-time"):
        broker.set_policy(vhost, "bad", "^x", {"undo-time": "soon"})


def test_items_end_with_their_time(channel: Any, broker: Broker, vhost: str, cleanup: Any) -> None:
    name = cleanup(queue=unique("brief"))
    broker.set_policy(vhost, "brief", "^brief", {"undo-time": 1})
    fill(channel, name)
    channel.queue_delete(name)
    eventually(lambda: items(broker, vhost, name) == [])
    broker.clear_policy(vhost, "brief")


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_what_can_be_undone_survives_the_process(broker: Broker, vhost: str, connect: Any, how: str) -> None:
    purged, deleted, last = unique("purged"), unique("deleted"), unique("last")
    channel = connect().channel()
    was = fill(channel, purged, 2000)
    channel.queue_purge(purged)
    fill(channel, deleted, 2000)
    channel.queue_bind(deleted, "amq.direct", deleted)
    channel.queue_delete(deleted)
    file = broker.directory / "data" / "undo.json"  # type: ignore[attr-defined]
    eventually(lambda: deleted in file.read_text())
    channel.queue_declare(last, durable=True)
    place(channel.connection, last, delivery_mode=PERSISTENT)       # confirmed: the log has everything before it too
    if how == "restart":
        broker.restart()
    else:
        broker.kill()
        broker.start()
    channel = connect().channel()
    for name in (purged, deleted):
        assert undo(broker, vhost, items(broker, vhost, name)[0]) == 2000
        assert contents(channel, name) == was
    publish(channel, deleted, b"bound", exchange="amq.direct")
    assert contents(channel, deleted) == [b"bound"]
    for name in (purged, deleted, last):
        channel.queue_delete(name)


def test_a_large_backlog_comes_back_in_order(connect: Any, broker: Broker, vhost: str) -> None:
    """Larger than a file of the write-ahead log, so that the log is tidied up in between."""
    name = unique("large")
    channel = connect().channel()
    channel.queue_declare(name, durable=True)
    body = bytes(256 * 1024)
    count = 300
    for number in range(count):
        channel.basic_publish("", name, number.to_bytes(4, "big") + body, pika.BasicProperties(delivery_mode=PERSISTENT))
    wait_ready(channel, name, count)
    channel.queue_purge(name)
    other = unique("traffic")
    channel.queue_declare(other, durable=True)
    for _ in range(count):
        channel.basic_publish("", other, body, pika.BasicProperties(delivery_mode=PERSISTENT))
        assert channel.basic_get(other, auto_ack=True)
    assert ready(channel, name) == 0
    assert undo(broker, vhost, items(broker, vhost, name)[0]) == count
    numbers = [int.from_bytes(found[:4], "big") for found in contents(channel, name)]
    assert numbers == list(range(count))
    for each in (name, other):
        channel.queue_delete(each)
