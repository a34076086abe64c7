"""What the configuration limits for the whole node or cluster, refused in RabbitMQ's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pika import spec

from .rawclient import RawClient
from .support import ApiError, Broker, ServerProcess, own_server_only, unique

RawConnect = Callable[..., RawClient]
Queue = spec.Queue
pytestmark = own_server_only

SETTINGS = """
channel_max_per_node = 5
consumer_max_per_channel = 2
vhost_max = 3
cluster_queue_limit = 4
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = Path(tmp_path_factory.mktemp("server"))
    (folder / "limits.conf").write_text(SETTINGS)
    server = ServerProcess(folder, "--config", str(folder / "limits.conf"))
    server.start()
    yield server
    server.stop()


def test_a_node_may_limit_its_channels_over_all_connections(raw_connect: RawConnect) -> None:
    clients = [raw_connect() for _ in range(3)]
    for client in clients[:2]:
        for number in (1, 2):
            client.open_channel(number)
    clients[2].open_channel(1)
    clients[2].send_method(2, spec.Channel.Open())
    words = "number of channels opened on node 'rabbit@compat' has reached the maximum allowed limit of (5)"
    clients[2].expect_connection_close(530, f"NOT_ALLOWED - {words}")
    for client in clients[:2]:
        client.call(0, spec.Connection.Close(200, "", 0, 0), spec.Connection.CloseOk)
    raw_connect().open_channel(1)


def test_a_channel_may_have_limited_consumers(raw: RawClient) -> None:
    raw.call(1, Queue.Declare(queue="consumed", exclusive=True), Queue.DeclareOk)
    for tag in ("a", "b"):
        raw.call(1, spec.Basic.Consume(queue="consumed", consumer_tag=tag), spec.Basic.ConsumeOk)
    raw.call(1, spec.Basic.Cancel("b"), spec.Basic.CancelOk)
    raw.call(1, spec.Basic.Consume(queue="consumed", consumer_tag="b"), spec.Basic.ConsumeOk)
    raw.send_method(1, spec.Basic.Consume(queue="consumed", consumer_tag="c"))
    raw.expect_connection_close(530, "NOT_ALLOWED - reached maximum (2) of consumers per channel", spec.Basic.Consume)


def test_a_tag_in_use_is_told_before_the_limit(raw: RawClient) -> None:
    raw.call(1, Queue.Declare(queue="consumed", exclusive=True), Queue.DeclareOk)
    for tag in ("a", "b"):
        raw.call(1, spec.Basic.Consume(queue="consumed", consumer_tag=tag), spec.Basic.ConsumeOk)
    raw.send_method(1, spec.Basic.Consume(queue="consumed", consumer_tag="b"))
    raw.expect_connection_close(530, "NOT_ALLOWED - attempt to reuse consumer tag 'b'", spec.Basic.Consume)


def test_a_cluster_may_limit_its_queues_over_all_vhosts(broker: Broker, raw: RawClient, raw_connect: RawConnect) -> None:
    other = raw_connect(vhost="/")
    other.open_channel(1)
    other.call(1, Queue.Declare(queue="first", exclusive=True), Queue.DeclareOk)
    for name in ("a", "b", "c", "c"):
        raw.call(1, Queue.Declare(queue=name, exclusive=True), Queue.DeclareOk)
    raw.send_method(1, Queue.Declare(queue="d", exclusive=True))
    words = "cannot declare queue 'd': queue limit in cluster (4) is reached"
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - {words}", Queue.Declare)
    with pytest.raises(ApiError, match=r"queue limit in cluster \(4\) is reached"):
        broker.api("PUT", "/api/queues/%2F/d", {})
    raw.open_channel(1)
    raw.call(1, Queue.Delete(queue="a"), Queue.DeleteOk)
    raw.call(1, Queue.Declare(queue="d", exclusive=True), Queue.DeclareOk)


def test_a_cluster_may_limit_its_vhosts(broker: Broker, vhost: str) -> None:
    third, fourth = unique("vhost"), unique("vhost")
    broker.add_vhost(third)
    words = f"cannot create vhost '{fourth}': vhost limit of 3 is reached"
    with pytest.raises(ApiError) as refused:
        broker.add_vhost(fourth)
    assert (refused.value.status, refused.value.body["error"], refused.value.body["reason"]) == (400, "bad_request", words)
    with pytest.raises(ApiError, match=words):
        broker.api("POST", "/api/definitions", {"vhosts": [{"name": fourth}]})
    broker.add_vhost(third)
    broker.delete_vhost(third)
    broker.add_vhost(fourth)
    broker.delete_vhost(fourth)
