"""However the bytes of a client are cut up, the same frames are handled; and nobody who expects an answer waits for more."""

from __future__ import annotations

import random

import pytest

from fuzz.client import Client, published
from fuzz.runner import Runner
from fuzz.world import World
from mirrormq.wire.frames import HEARTBEAT_FRAME, content_frames, frame
from mirrormq.wire.methods import (
    BasicConsume,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from mirrormq.wire.properties import Properties, encode_properties

SIZES = (0, 1, 10, 5000, 70_000, 131_064, 300_000)
PROPERTIES = encode_properties(Properties(delivery_mode=1))


@pytest.fixture
def client() -> Client:
    client = Client(Runner(), channels=2)
    client.say(QueueDeclare("q"), BasicConsume("q", "t", no_ack=True))
    client.rest()
    client.publish("q", b"known")  # from now on this kind of publish is known to be good
    client.heard()
    client.judge.bodies.clear()
    return client


def said(method: Method, channel: int = 1) -> bytes:
    return frame(1, channel, method.encode())


def pieces_of(data: bytes, chance: random.Random, largest: int) -> list[bytes]:
    pieces: list[bytes] = []
    while data:
        size = chance.randint(1, largest)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("largest", [3, 40, 3000, 100_000, 1 << 20])
def test_no_cut_of_the_bytes_changes_what_arrives(client: Client, seed: int, largest: int) -> None:
    chance = random.Random(seed)
    bodies = [bytes([number]) * chance.choice(SIZES if largest > 40 else SIZES[:4]) for number in range(20)]
    stream = b""
    for body in bodies:
        stream += published("q", body, Properties(delivery_mode=1))
        if chance.random() < 0.2:
            stream += HEARTBEAT_FRAME + said(BasicQos(0, 0), 2)
    for piece in pieces_of(stream, chance, largest):
        client.feed(piece)
    client.rest()
    assert client.judge.bodies == bodies
    assert client.session.connection.parts == []


def publish_in_parts(body: bytes = b"x" * 70_000) -> tuple[bytes, bytes, bytes]:
    """Method, header and body frame of a publish."""
    content = content_frames(1, PROPERTIES, body, 131072)
    header = 8 + int.from_bytes(content[3:7], "big")
    return said(BasicPublish("", "q")), content[:header], content[header:]


@pytest.mark.parametrize("begun", [0, 1, 2])
def test_another_channel_is_answered_between_the_frames_of_a_publish(client: Client, begun: int) -> None:
    parts = publish_in_parts()
    client.feed(b"".join(parts[:begun]))
    client.say(BasicQos(0, 0), channel=2)
    assert isinstance(client.heard()[-1], BasicQosOk)
    client.feed(b"".join(parts[begun:]))
    client.rest()
    assert client.judge.bodies == [b"x" * 70_000]


def test_a_publish_of_an_unknown_kind_is_judged_at_once(client: Client) -> None:
    client.feed(said(BasicPublish("no-such-exchange", "q")))
    client.say(BasicPublish("", "q"))
    close = client.heard()[-1]
    assert close.reply_text.startswith("UNEXPECTED_FRAME")  # type: ignore[attr-defined]


def test_content_that_goes_on_otherwise_than_it_began_is_refused(client: Client) -> None:
    method, header, _ = publish_in_parts()
    client.feed(method + header)
    client.say(BasicQos(0, 0))
    close = client.heard()[-1]
    assert "expected content body" in close.reply_text  # type: ignore[attr-defined]


def test_a_large_frame_in_many_pieces_is_joined_once(client: Client) -> None:
    """A publish that comes byte by byte is kept as it comes, and not looked at again before it is whole."""
    stream = b"".join(publish_in_parts())
    connection = client.session.connection
    client.feed(stream[:100])
    for at in range(100, len(stream) - 1000, 1000):
        client.feed(stream[at : at + 1000])
        assert connection.missing == len(stream) - at - 1000
    assert len(connection.parts) > 60


def test_a_waiting_channel_gets_its_frames_in_order_though_content_is_on_its_way(client: Client) -> None:
    """The queue is declared anew, so the channel waits; its publish comes meanwhile, cut in its body."""
    parts = publish_in_parts()
    client.say(QueueDeclare("other", durable=True))
    client.feed(parts[0] + parts[1] + parts[2][:1000])
    client.runner.world.turn()
    client.feed(parts[2][1000:] + said(BasicQos(0, 0)))
    assert any(isinstance(method, BasicQosOk) for method in client.heard())
    assert client.judge.bodies == [b"x" * 70_000]
    assert not any(isinstance(method, ChannelClose) for method in client.heard())


def test_a_channel_that_fails_as_it_begins_to_wait_keeps_no_frames_and_answers_the_close_among_them(client: Client) -> None:
    broker = client.runner.world.broker
    client.say(ExchangeDeclare("d", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}))
    client.rest()
    for queue in broker.delays.queues.values():
        queue.damage = "its log cannot be read"
    delayed = published("k", b"x", Properties(headers={"x-delay": 1000}, delivery_mode=2), exchange="d")
    declares = [said(QueueDeclare("q", passive=True)) for _ in range(100)]
    client.feed(said(QueueDeclare("new", no_wait=True)) + said(TxSelect()) + delayed + said(TxCommit()) + b"".join(declares)
                + said(ChannelClose(200, "bye", 0, 0)))
    client.rest()
    assert [type(method) for method in client.heard()[-2:]] == [ChannelClose, ChannelCloseOk]
    assert client.session.connection.channels[1].inbox_size == 0


@pytest.mark.parametrize(("said_first", "told"), [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01", "it speaks TLS, and this port is a plain one"),
    (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "it speaks HTTP"),
    (b"AMQP\x00\x01\x00\x00", "it asks for protocol 0, version 1.0.0"),
    (b"EHLO", "it began with b'EHLO'"),
])  # fmt: skip
def test_whoever_speaks_another_language_is_named_in_the_log(said_first: bytes, told: str) -> None:
    world = World()
    connection, pipe = world.connect()
    connection.receive(said_first)
    world.settle()
    assert b"".join(pipe.written) == b"AMQP\x00\x00\x09\x01"
    assert connection.is_over
    assert told in connection.end_reason
    assert world.host.reports == 1
