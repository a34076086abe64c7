"""`frame_max = 0` and `channel_max = 0` mean that the server has no limit, as in RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pika import spec

from .rawclient import BODY, RawClient
from .support import Broker, ServerProcess, own_server_only

RawConnect = Callable[..., RawClient]
pytestmark = own_server_only

LARGE = bytes(range(256)) * 40_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = Path(tmp_path_factory.mktemp("server"))
    (folder / "limits.conf").write_text("frame_max = 0\nchannel_max = 0\n")
    server = ServerProcess(folder, "--config", str(folder / "limits.conf"))
    server.start()
    yield server
    server.stop()


def publish(client: RawClient, queue: str, body: bytes) -> None:
    client.call(1, spec.Queue.Declare(queue=queue), spec.Queue.DeclareOk)
    client.frame_max = len(body) + 8
    client.publish(1, "", queue, body)


def test_a_client_may_answer_that_it_has_no_limits_either(raw_connect: RawConnect) -> None:
    client = raw_connect(frame_max=0, channel_max=0)
    assert (client.tune.frame_max, client.tune.channel_max) == (0, 0)
    for number in (1, 2, 3000, 65535):
        client.open_channel(number)
    publish(client, "whole", LARGE)
    client.send_method(1, spec.Basic.Get(queue="whole", no_ack=True))
    client.expect(spec.Basic.GetOk, 1)
    client.read()
    _, body = client.read()
    assert (body.type, body.payload == LARGE) == (BODY, True)


@pytest.mark.parametrize("frame_max", [4096, 131072, 1 << 20])
def test_a_client_with_a_limit_gets_no_larger_frame(raw_connect: RawConnect, frame_max: int) -> None:
    publisher = raw_connect(frame_max=0, channel_max=0)
    publisher.open_channel(1)
    publish(publisher, "cut", LARGE)
    client = raw_connect(frame_max=frame_max, channel_max=1)
    client.open_channel(1)
    client.send_method(1, spec.Basic.Get(queue="cut", no_ack=True))
    client.expect(spec.Basic.GetOk, 1)
    client.read()
    got = b""
    while len(got) < len(LARGE):
        _, piece = client.read()
        assert len(piece.payload) <= frame_max - 8
        got += piece.payload
    assert got == LARGE


@pytest.mark.parametrize("options", [{"frame_max": 4095}, {"frame_max": 1}], ids=str)
def test_a_limit_below_that_of_amqp_ends_the_connection(raw_connect: RawConnect, options: dict[str, int]) -> None:
    client = raw_connect(handshake=False)
    client.begin()
    client.login()
    client.expect(spec.Connection.Tune, 0)
    client.send_method(0, spec.Connection.TuneOk(**({"channel_max": 0, "heartbeat": 0} | options)))
    client.send_method(0, spec.Connection.Open("/"))
    assert client.at_eof()
