"""Frames that no proper client sends. Each ends the connection with RabbitMQ's code and text.

Where RabbitMQ itself crashes or hangs, any orderly end is accepted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from pika import spec

from .rawclient import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Eof,
    RawClient,
    frame,
    header_payload,
    method_frame,
    method_payload,
)
from .support import own_server_only

RawConnect = Callable[..., RawClient]

PUBLISH = method_frame(1, spec.Basic.Publish(exchange="", routing_key="x"))
RUNNING = "CHANNEL_ERROR - unexpected method in connection state running"
EXPECTED_OPEN = "CHANNEL_ERROR - expected 'channel.open'"
NOT_A_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NOT_A_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
NOT_A_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"

CHANNEL_ZERO = [
    spec.Channel.Open(),
    spec.Queue.Declare(queue="x"),
    spec.Basic.Publish(exchange="", routing_key="x"),
    spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"),
    spec.Connection.TuneOk(2047, 131072, 0),
    spec.Connection.SecureOk("x"),
    spec.Connection.Open("/"),
    spec.Connection.CloseOk(),
    spec.Connection.Blocked("x"),
]


def name_of(value: Any) -> str | None:
    return getattr(value, "NAME", None)


@pytest.mark.parametrize("method", CHANNEL_ZERO, ids=name_of)
def test_a_method_that_does_not_belong_on_channel_0_is_an_error(raw: RawClient, method: Any) -> None:
    raw.send_method(0, method)
    raw.expect_connection_close(504, RUNNING, type(method))


@pytest.mark.parametrize(
    "method",
    [spec.Basic.Qos(), spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk(), spec.Connection.Open("/")],
    ids=name_of,
)
def test_a_method_on_an_unopened_channel_is_an_error(raw: RawClient, method: Any) -> None:
    raw.send_method(5, method)
    raw.expect_connection_close(504, EXPECTED_OPEN, type(method))


@pytest.mark.parametrize("payload", [(HEADER, header_payload(0)), (BODY, b"x")], ids=["header", "body"])
def test_content_on_an_unopened_channel_is_an_error(raw: RawClient, payload: tuple[int, bytes]) -> None:
    raw.send_frame(payload[0], 5, payload[1])
    raw.expect_connection_close(505, NOT_A_METHOD)


def test_a_channel_opened_twice_is_an_error(raw: RawClient) -> None:
    raw.send_method(1, spec.Channel.Open())
    raw.expect_connection_close(504, "CHANNEL_ERROR - second 'channel.open' seen", spec.Channel.Open)


@pytest.mark.parametrize(
    "method",
    [
        spec.Connection.Close(200, "", 0, 0),
        spec.Channel.OpenOk(),
        spec.Channel.FlowOk(True),
        spec.Queue.DeclareOk("q", 0, 0),
        spec.Basic.ConsumeOk("t"),
        spec.Tx.SelectOk(),
        spec.Confirm.SelectOk(),
    ],
    ids=name_of,
)
def test_a_method_of_the_servers_is_not_for_clients(raw: RawClient, method: Any) -> None:
    raw.send_method(1, method)
    raw.expect_connection_close(503, UNIMPLEMENTED, type(method))


def test_the_client_cannot_ask_for_flow_to_stop(raw: RawClient) -> None:
    assert raw.call(1, spec.Channel.Flow(True), spec.Channel.FlowOk).active
    raw.send_method(1, spec.Channel.Flow(False))
    raw.expect_connection_close(540, "NOT_IMPLEMENTED - active=false", spec.Channel.Flow)


# the state before connection.open


@pytest.mark.parametrize(
    "method",
    [spec.Connection.TuneOk(2047, 131072, 0), spec.Connection.Close(200, "bye", 0, 0), spec.Channel.Open()],
    ids=name_of,
)
def test_only_connection_open_may_follow_tune_ok(raw_connect: RawConnect, method: Any) -> None:
    client = raw_connect(handshake=False)
    client.begin()
    client.login()
    client.expect(spec.Connection.Tune, 0)
    client.send_method(0, spec.Connection.TuneOk(2047, 131072, 0), method)
    client.expect_connection_close(504, "CHANNEL_ERROR - unexpected method in connection state opening", type(method))


def test_a_channel_before_connection_open_is_an_error(raw_connect: RawConnect) -> None:
    client = raw_connect(handshake=False)
    client.begin()
    client.login()
    client.expect(spec.Connection.Tune, 0)
    client.send_method(0, spec.Connection.TuneOk(2047, 131072, 0))
    client.send_method(1, spec.Channel.Open())
    client.expect_connection_close(505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>")


# frames


@pytest.mark.parametrize(
    ("bad", "code", "text"),
    [
        (frame(9, 0, b""), 501, "FRAME_ERROR - type 9, all octets = <<>>: unknown_frame"),
        (frame(9, 1, b""), 501, "FRAME_ERROR - type 9, all octets = <<>>: unknown_frame"),
        (frame(0, 0, b""), 501, "FRAME_ERROR - type 0, all octets = <<>>: unknown_frame"),
        (frame(4, 0, b"abc"), 501, 'FRAME_ERROR - type 4, all octets = <<"abc">>: unknown_frame'),
        (frame(HEARTBEAT, 0, b"abc"), 501, 'FRAME_ERROR - type 8, all octets = <<"abc">>: unknown_frame'),
        (frame(HEARTBEAT, 1, b""), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>"),
        (frame(METHOD, 1, b""), 501, "FRAME_ERROR - type 1, all octets = <<>>: unknown_frame"),
        (frame(METHOD, 1, b"\0\x3c"), 501, "FRAME_ERROR - type 1, all octets = <<0,60>>: unknown_frame"),
        (frame(METHOD, 0, b"\0\x0a"), 501, "FRAME_ERROR - type 1, all octets = <<0,10>>: unknown_frame"),
        (frame(BODY, 0, b"x"), 505, 'UNEXPECTED_FRAME - type 3, all octets = <<"x">>'),
        (
            frame(HEADER, 0, header_payload(0)),
            505,
            "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>",
        ),
        (
            frame(METHOD, 0, b"xxxx", b"\0"),
            501,
            'FRAME_ERROR - type 1, all octets = <<"xxxx">>: {invalid_frame_end_marker,0}',
        ),
        (
            frame(METHOD, 1, method_payload(spec.Channel.Open()), b"\xcf"),
            501,
            "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,207}",
        ),
    ],
    ids=[
        *("type 9", "type 9 on channel 1", "type 0", "type 4", "beat with payload", "beat on channel 1"),
        *("empty method", "half a method id", "the same on channel 0", "body on channel 0", "header on channel 0"),
        *("frame end 0", "frame end 207"),
    ],
)
def test_a_bad_frame_is_an_error(raw: RawClient, bad: bytes, code: int, text: str) -> None:
    raw.send(bad)
    raw.expect_connection_close(code, text)


@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_a_frame_over_the_limit_is_refused_at_its_head(raw_connect: RawConnect, frame_max: int) -> None:
    client = raw_connect(frame_max=frame_max)
    client.send(struct.pack(">BHI", BODY, 1, frame_max + 1))
    text = f"FRAME_ERROR - type 3, all octets = <<>>: {{frame_too_large,{frame_max + 1},{frame_max - 8}}}"
    client.expect_connection_close(501, text)


def test_a_payload_of_exactly_frame_max_is_still_tolerated(raw_connect: RawConnect) -> None:
    client = raw_connect(frame_max=4096)
    client.open_channel(1)
    client.send(PUBLISH + frame(HEADER, 1, header_payload(4096)) + frame(BODY, 1, bytes(4096)))
    assert client.alive()


def test_arguments_cut_short_are_an_error(raw: RawClient) -> None:
    raw.send_frame(METHOD, 1, method_payload(spec.Queue.Declare(queue="abc"))[:-6])
    raw.expect_connection_close(501, "FRAME_ERROR - cannot decode <<0,0,3,97,98>>", spec.Queue.Declare)


def test_bytes_after_the_arguments_are_an_error(raw: RawClient) -> None:
    raw.send_frame(METHOD, 1, method_payload(spec.Queue.Declare(queue="", exclusive=True)) + b"zzz")
    text = "FRAME_ERROR - cannot decode <<0,0,0,4,0,0,0,0,122,122,122>>"
    raw.expect_connection_close(501, text, spec.Queue.Declare)


def ends_in_order(client: RawClient) -> bool:
    """The connection ends: at once, or with a connection.close of a protocol error."""
    try:
        close = client.expect(spec.Connection.Close, 0)
    except Eof:
        return True
    assert close.reply_code in (501, 502, 503, 505, 540, 541)
    client.send_method(0, spec.Connection.CloseOk())
    return client.at_eof()


@pytest.mark.parametrize(
    "bad",
    [
        frame(METHOD, 1, struct.pack(">HH", 60, 99)),
        frame(METHOD, 1, struct.pack(">HH", 99, 10) + b"abc"),
        frame(METHOD, 0, struct.pack(">HH", 10, 99)),
        frame(METHOD, 0, struct.pack(">HH", 99, 99)),
        frame(METHOD, 0, method_payload(spec.Connection.Close(200, "bye", 0, 0))[:-2]),
        PUBLISH + frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 0, 0x8000)),
    ],
    ids=["method", "class", "method on 0", "class on 0", "cut short on 0", "properties"],
)
def test_what_makes_no_sense_ends_the_connection(raw: RawClient, bad: bytes) -> None:
    raw.send(bad)
    assert ends_in_order(raw)


# content


@pytest.mark.parametrize(
    ("bad", "text", "cause"),
    [
        (frame(HEADER, 1, header_payload(0)), NOT_A_METHOD, None),
        (frame(BODY, 1, b"x"), NOT_A_METHOD, None),
        (PUBLISH + method_frame(1, spec.Basic.Qos()), NOT_A_HEADER, spec.Basic.Publish),
        (PUBLISH + PUBLISH, NOT_A_HEADER, spec.Basic.Publish),
        (PUBLISH + frame(BODY, 1, b"x"), NOT_A_HEADER, spec.Basic.Publish),
        (PUBLISH + frame(HEADER, 1, struct.pack(">HHQH", 60, 1, 0, 0)), NOT_A_HEADER, spec.Basic.Publish),
        (
            PUBLISH + frame(HEADER, 1, header_payload(0, class_id=50)),
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
            spec.Basic.Publish,
        ),
        (
            PUBLISH + frame(HEADER, 1, header_payload(5)) + method_frame(1, spec.Basic.Qos()),
            NOT_A_BODY,
            spec.Basic.Publish,
        ),
        (PUBLISH + frame(HEADER, 1, header_payload(5)) * 2, NOT_A_BODY, spec.Basic.Publish),
        (PUBLISH + frame(HEADER, 1, header_payload(0)) + frame(BODY, 1, b""), NOT_A_METHOD, None),
    ],
    ids=[
        *("header first", "body first", "method for header", "publish for header", "body for header", "weight"),
        *("header of class 50", "method for body", "header for body", "body after the end"),
    ],
)
def test_content_out_of_order_is_an_error(raw: RawClient, bad: bytes, text: str, cause: Any) -> None:
    raw.send(bad)
    raw.expect_connection_close(505, text, cause)


def test_a_content_header_cut_short_is_an_error(raw: RawClient) -> None:
    raw.send(PUBLISH + frame(HEADER, 1, header_payload(0)[:6]))
    raw.expect_connection_close(501, "FRAME_ERROR - type 2, all octets = <<0,60,0,0,0,0>>: unknown_frame")


def test_empty_body_frames_are_fine(raw: RawClient) -> None:
    raw.send(PUBLISH + frame(HEADER, 1, header_payload(2)) + frame(BODY, 1, b"") + frame(BODY, 1, b"ab"))
    assert raw.alive()


@own_server_only
def test_a_body_longer_than_announced_ends_the_connection(raw: RawClient) -> None:
    """RabbitMQ 3.10 waits for ever here."""
    raw.send(PUBLISH + frame(HEADER, 1, header_payload(2)) + frame(BODY, 1, b"abc"))
    assert ends_in_order(raw)


def test_content_of_channels_may_interleave(raw: RawClient) -> None:
    raw.open_channel(2)
    queue = raw.call(1, spec.Queue.Declare(queue="", exclusive=True), spec.Queue.DeclareOk).queue
    publish = spec.Basic.Publish(exchange="", routing_key=queue)
    raw.send(method_frame(1, publish) + method_frame(2, publish))
    raw.send(frame(HEADER, 2, header_payload(4)) + frame(HEADER, 1, header_payload(4)))
    raw.send(frame(BODY, 1, b"on") + frame(BODY, 2, b"tw") + frame(HEARTBEAT, 0, b"") + frame(BODY, 2, b"o2"))
    raw.send(frame(BODY, 1, b"e1"))
    raw.alive(2)
    raw.alive(1)
    bodies = []
    for _ in range(2):
        raw.send_method(1, spec.Basic.Get(queue=queue, no_ack=True))
        bodies.append(raw.expect_message(spec.Basic.GetOk).body)
    assert sorted(bodies) == [b"one1", b"two2"]
