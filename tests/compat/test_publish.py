"""The publisher's side: returns, CC and BCC, validated properties, and content that arrives as it was sent."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika import spec

from .rawclient import (
    BODY,
    HEADER,
    Message,
    RawClient,
    content_frames,
    field,
    frame,
    header_payload,
    longstr,
    method_frame,
    shortstr,
    table,
)
from .support import Broker, taken, unique

RawConnect = Callable[..., RawClient]
Declare = Callable[..., str]
Basic, Queue = spec.Basic, spec.Queue
Properties = spec.BasicProperties

ALL_PROPERTIES: dict[str, Any] = {
    "content_type": "application/json",
    "content_encoding": "gzip",
    "headers": {"a": 1, "b": [1, "two", {"three": None}], "c": True, "d": Decimal("1.25"), "e": b"\0\xff", "f": 2**40},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": 1_700_000_000,
    "type": "order",
    "user_id": "guest",
    "app_id": "shop",
    "cluster_id": "old",
}

FIELDS = [
    field("bool", b"t", b"\1"),
    field("int8", b"b", b"\x80"),
    field("uint8", b"B", b"\xff"),
    field("int16", b"s", b"\x80\0"),
    field("uint16", b"u", b"\xff\xff"),
    field("int32", b"I", b"\x80\0\0\0"),
    field("uint32", b"i", b"\xff\xff\xff\xff"),
    field("int64", b"l", b"\x80\0\0\0\0\0\0\0"),
    field("float", b"f", struct.pack(">f", 1.5)),
    field("double", b"d", struct.pack(">d", -0.0)),
    field("decimal", b"D", b"\x02\0\0\0\x7d"),
    field("string", b"S", longstr("zażółć".encode())),
    field("not utf-8", b"S", longstr(b"\xff\xfe\0")),
    field("bytes", b"x", longstr(bytes(range(256)))),
    field("time", b"T", struct.pack(">Q", 1_700_000_000)),
    field("void", b"V", b""),
    field("empty table", b"F", table()),
    field("table", b"F", table(field("deep", b"F", table(field("deeper", b"I", b"\0\0\0\1"))))),
    field("empty array", b"A", longstr(b"")),
    field("array", b"A", longstr(b"t\0" + b"S" + longstr(b"x") + b"A" + longstr(b"V") + b"F" + table())),
    field("", b"S", longstr(b"an empty name")),
    field("n" * 255, b"S", longstr(b"a long name")),
]


def owned(client: RawClient) -> str:
    return str(client.call(1, Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue)


def get(client: RawClient, queue: str) -> Message:
    client.send_method(1, Basic.Get(queue=queue, no_ack=True))
    return client.expect_message(Basic.GetOk)


# mandatory


def test_an_unroutable_mandatory_message_comes_back_whole(raw: RawClient) -> None:
    properties = Properties(content_type="text/plain", headers={"a": 1}, delivery_mode=2)
    raw.publish(1, "amq.direct", "nowhere", b"body", properties, mandatory=True)
    message = raw.expect_message(Basic.Return)
    back = message.method
    assert (back.reply_code, back.reply_text) == (312, "NO_ROUTE")
    assert (back.exchange, back.routing_key) == ("amq.direct", "nowhere")
    assert (message.body, message.header) == (b"body", header_payload(4, properties))


def test_a_mandatory_message_to_a_missing_queue_comes_back(raw: RawClient) -> None:
    raw.publish(1, "", "no such queue", b"", mandatory=True)
    message = raw.expect_message(Basic.Return)
    assert (message.method.exchange, message.method.routing_key, message.body) == ("", "no such queue", b"")


def test_without_mandatory_the_unroutable_is_dropped(raw: RawClient) -> None:
    raw.publish(1, "amq.direct", "nowhere", b"body")
    assert raw.alive()


def test_a_routed_mandatory_message_does_not_come_back(raw: RawClient) -> None:
    queue = owned(raw)
    raw.publish(1, "", queue, b"body", mandatory=True)
    assert get(raw, queue).body == b"body"


def test_pika_hears_of_a_return(channel: Any, connection: Any) -> None:
    returned: list[Any] = []
    channel.add_on_return_callback(lambda ch, method, properties, body: returned.append((method.reply_code, body)))
    channel.basic_publish("amq.direct", "nowhere", b"x", mandatory=True)
    channel.basic_qos(prefetch_count=1)
    connection.process_data_events(0)
    assert returned == [(312, b"x")]


# CC and BCC


def test_cc_and_bcc_are_further_keys_and_only_bcc_is_hidden(channel: Any, exchange: Declare, queue: Declare) -> None:
    name = exchange("direct")
    queues = {key: queue() for key in ("to", "cc1", "cc2", "bcc", "other")}
    for key, target in queues.items():
        channel.queue_bind(target, name, key)
    headers = {"CC": ["cc1", "cc2"], "BCC": ["bcc"], "mine": 1}
    channel.basic_publish(name, "to", b"x", pika.BasicProperties(headers=headers))
    for key in ("to", "cc1", "cc2", "bcc"):
        method, properties, _ = channel.basic_get(queues[key], auto_ack=True)
        assert method.routing_key == "to"
        assert properties.headers == {"CC": ["cc1", "cc2"], "mine": 1}
    assert taken(channel, queues["other"]) == []


def test_a_queue_named_twice_gets_one_copy(channel: Any, queue: Declare) -> None:
    name, second = queue(), queue()
    headers = {"CC": [name, second, second]}
    channel.basic_publish("", name, b"x", pika.BasicProperties(headers=headers))
    assert (taken(channel, name), taken(channel, second)) == ([b"x"], [b"x"])


def test_cc_saves_a_mandatory_message_from_coming_back(raw: RawClient) -> None:
    queue = owned(raw)
    raw.publish(1, "", "nowhere", b"x", Properties(headers={"BCC": [queue]}), mandatory=True)
    message = get(raw, queue)
    assert message.method.routing_key == "nowhere"
    assert message.properties.headers == {}


def test_cc_works_with_topic_patterns(channel: Any, exchange: Declare, queue: Declare) -> None:
    name, target = exchange("topic"), queue()
    channel.queue_bind(target, name, "a.#")
    channel.basic_publish(name, "b", b"x", pika.BasicProperties(headers={"CC": ["a.b", "a.c"]}))
    assert taken(channel, target) == [b"x"]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"CC": "text"}, '{unacceptable_type_in_header,"CC",longstr}'),
        ({"BCC": 5}, '{unacceptable_type_in_header,"BCC",signedint}'),
        ({"CC": None}, '{unacceptable_type_in_header,"CC",void}'),
        ({"CC": {"a": "b"}}, '{unacceptable_type_in_header,"CC",table}'),
    ],
    ids=str,
)
def test_cc_must_be_an_array(raw: RawClient, headers: dict[str, Any], text: str) -> None:
    raw.publish(1, "", "x", b"x", Properties(headers=headers))
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - invalid message: {text}", Basic.Publish)


# validated properties


def test_the_user_id_must_be_ones_own(raw: RawClient, broker: Broker) -> None:
    raw.publish(1, "", "x", b"x", Properties(user_id=broker.user))
    assert raw.alive()
    raw.publish(1, "", "x", b"x", Properties(user_id="bob"))
    text = f"PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was '{broker.user}'"
    raw.expect_channel_close(406, text, Basic.Publish)


def test_an_impersonator_may_set_any_user_id(raw_connect: RawConnect, broker: Broker, vhost: str) -> None:
    user = unique("user")
    broker.add_user(user, tags="impersonator")
    broker.grant(vhost, user)
    client = raw_connect(user=user, password="secret")
    client.open_channel(1)
    client.publish(1, "", "x", b"x", Properties(user_id="bob"))
    assert client.alive()
    broker.delete_user(user)


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("abc", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("5 ", '{leftover_string," "}'),
        ("10s", '{leftover_string,"s"}'),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_a_wrong_expiration_is_refused(raw: RawClient, expiration: str, reason: str) -> None:
    raw.publish(1, "", "x", b"x", Properties(expiration=expiration))
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}"
    raw.expect_channel_close(406, text, Basic.Publish)


@pytest.mark.parametrize("expiration", ["0", "1", "007", "+5", "4294967296", "315360000000"])
def test_any_other_number_is_an_expiration(raw: RawClient, expiration: str) -> None:
    raw.publish(1, "", "x", b"x", Properties(expiration=expiration))
    assert raw.alive()


@pytest.mark.parametrize("mode", [0, 3, 255])
def test_the_delivery_mode_is_1_or_2(raw: RawClient, mode: int) -> None:
    raw.publish(1, "", "x", b"x", Properties(delivery_mode=mode))
    text = f"PRECONDITION_FAILED - invalid message: {{delivery_mode_unknown,{mode}}}"
    raw.expect_channel_close(406, text, Basic.Publish)


# what arrives is what was sent


def test_all_properties_arrive(channel: Any, queue: Declare) -> None:
    name = queue()
    channel.basic_publish("", name, b"x", pika.BasicProperties(**ALL_PROPERTIES))
    properties = channel.basic_get(name, auto_ack=True)[1]
    assert {key: getattr(properties, key) for key in ALL_PROPERTIES} == ALL_PROPERTIES


@pytest.mark.parametrize("key", sorted(ALL_PROPERTIES))
def test_a_single_property_arrives_alone(raw: RawClient, key: str) -> None:
    queue = owned(raw)
    sent = Properties(**{key: ALL_PROPERTIES[key]})
    raw.publish(1, "", queue, b"x", sent)
    assert get(raw, queue).header == header_payload(1, sent)


@pytest.mark.parametrize("mode", [b"\1", b"\2"], ids=["transient", "persistent"])
def test_header_fields_of_every_type_arrive_byte_for_byte(raw: RawClient, mode: bytes) -> None:
    queue = owned(raw)
    sent = struct.pack(">H", 0x2000 | 0x1000) + table(*FIELDS) + mode
    raw.publish(1, "", queue, b"x", sent)
    assert get(raw, queue).header == header_payload(1, sent)


def test_empty_properties_arrive_as_such(raw: RawClient) -> None:
    queue = owned(raw)
    sent = struct.pack(">H", 0x8000 | 0x2000 | 0x0400) + shortstr("") + table() + shortstr("")
    raw.publish(1, "", queue, b"x", sent)
    assert get(raw, queue).header == header_payload(1, sent)


def test_headers_keep_their_order(raw: RawClient) -> None:
    queue = owned(raw)
    names = [f"name-{number}" for number in range(100)]
    random.Random(1).shuffle(names)
    sent = struct.pack(">H", 0x2000) + table(*(field(name, b"V", b"") for name in names))
    raw.publish(1, "", queue, b"x", sent)
    assert get(raw, queue).header == header_payload(1, sent)


@pytest.mark.parametrize("frame_max", [4096, 131072])
@pytest.mark.parametrize("extra", [None, 0, 1, -9, -8, -7])
def test_bodies_of_awkward_sizes_arrive(raw_connect: RawConnect, frame_max: int, extra: int | None) -> None:
    client = raw_connect(frame_max=frame_max)
    client.open_channel(1)
    queue = owned(client)
    size = 0 if extra is None else frame_max + extra
    body = bytes(number % 251 for number in range(size))
    client.publish(1, "", queue, body)
    client.publish(1, "", queue, body[:1])
    assert get(client, queue).body == body
    assert get(client, queue).body == body[:1]


@pytest.mark.parametrize("durable", [False, True])
def test_a_body_of_many_megabytes_arrives(channel: Any, queue: Declare, durable: bool) -> None:
    name = queue(durable=durable)
    body = random.Random(2).randbytes(9_000_001)
    channel.confirm_delivery()
    channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2 if durable else 1))
    got = channel.basic_get(name, auto_ack=True)[2]
    assert hashlib.sha256(got).digest() == hashlib.sha256(body).digest()


def test_a_body_in_tiny_frames_arrives(raw: RawClient) -> None:
    queue = owned(raw)
    body = bytes(range(256))
    pieces = b"".join(frame(BODY, 1, body[at : at + 1]) for at in range(256))
    raw.send(method_frame(1, Basic.Publish(exchange="", routing_key=queue)))
    raw.send(frame(HEADER, 1, header_payload(256)) + pieces)
    assert get(raw, queue).body == body


def test_a_message_over_the_size_limit_is_refused(raw: RawClient) -> None:
    limit = 128 * 1024 * 1024
    raw.send(method_frame(1, Basic.Publish(exchange="", routing_key="x")))
    raw.send_frame(HEADER, 1, header_payload(limit + 1))
    piece = frame(BODY, 1, bytes(131064))
    for _ in range(limit // 131064):
        raw.send(piece)
    raw.send_frame(BODY, 1, bytes(limit % 131064 + 1))
    text = f"PRECONDITION_FAILED - message size {limit + 1} is larger than configured max size {limit}"
    raw.expect_channel_close(406, text, Basic.Publish)
    raw.open_channel(1)
    assert raw.alive()


def test_many_channels_publish_with_their_frames_mixed(raw: RawClient) -> None:
    """Twenty channels send a frame in turn; every message arrives whole, in its channel's order."""
    queue = owned(raw)
    channels = range(2, 22)
    for number in channels:
        raw.open_channel(number)
    streams = {number: [b"%d:%d:" % (number, turn) + bytes(1000) for turn in range(5)] for number in channels}
    pieces = {number: [f for body in streams[number] for f in cut(number, queue, body)] for number in channels}
    while any(pieces.values()):
        raw.send(b"".join(rest.pop(0) for rest in pieces.values() if rest))
    for number in channels:
        raw.alive(number)
    got: dict[int, list[bytes]] = {}
    for _ in range(20 * 5):
        body = get(raw, queue).body
        got.setdefault(int(body.split(b":")[0]), []).append(body)
    assert got == streams


def cut(channel: int, queue: str, body: bytes) -> list[bytes]:
    """A publish as single frames, with its body in pieces of 300 bytes."""
    publish = method_frame(channel, Basic.Publish(exchange="", routing_key=queue))
    pieces = [frame(BODY, channel, body[at : at + 300]) for at in range(0, len(body), 300)]
    return [publish, frame(HEADER, channel, header_payload(len(body))), *pieces]


def test_messages_of_one_channel_keep_their_order(raw: RawClient) -> None:
    queue = owned(raw)
    publish = method_frame(1, Basic.Publish(exchange="", routing_key=queue))
    raw.send(b"".join(publish + content_frames(1, str(number).encode()) for number in range(500)))
    raw.call(1, Basic.Consume(queue=queue, no_ack=True), Basic.ConsumeOk)
    assert [int(raw.expect_message(Basic.Deliver).body) for _ in range(500)] == list(range(500))
