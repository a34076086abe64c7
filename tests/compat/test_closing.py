"""The last words of a connection or channel arrive, whatever else is on its way.

A socket that is closed with input unread resets its connection, and the reset overtakes what the peer has not read yet.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import pytest
from pika import spec

from .rawclient import RawClient, content_frames, frame, method_frame

RawConnect = Callable[..., RawClient]
CLOSE = method_frame(0, spec.Connection.Close(200, "bye", 0, 0))
CLOSE_CHANNEL = method_frame(1, spec.Channel.Close(200, "bye", 0, 0))
PUBLISHED = method_frame(1, spec.Basic.Publish(0, "", "nowhere")) + content_frames(1, b"x" * 1000)
MANY = 4000
"""More than the sockets between the two hold."""
ROUNDS = 200


def rest_of(client: RawClient) -> bytes:
    """All that still comes, up to the end of file; a reset is an error."""
    data = client.buffer
    while piece := client.socket.recv(1 << 20):
        data += piece
    return data


def test_close_ok_arrives_though_publishes_follow_the_close(raw_connect: RawConnect) -> None:
    """As clients do it that write what they had gathered for their channels after their close."""
    for _ in range(ROUNDS):
        client = raw_connect()
        client.open_channel(1)
        client.send(PUBLISHED * 20 + CLOSE + PUBLISHED * 600)
        client.expect(spec.Connection.CloseOk, 0)
        assert rest_of(client) == b""
        client.close()


def test_what_comes_after_close_ok_is_read_and_dropped(raw: RawClient) -> None:
    raw.call(0, spec.Connection.Close(200, "bye", 0, 0), spec.Connection.CloseOk)
    raw.send(PUBLISHED * MANY)
    raw.socket.shutdown(socket.SHUT_WR)
    assert rest_of(raw) == b""


@pytest.mark.parametrize("answered", [True, False])
def test_the_servers_close_arrives_though_publishes_follow_the_error(raw: RawClient, *, answered: bool) -> None:
    """With close-ok somewhere among them, or none and the client's own close instead."""
    guilty = method_frame(1, spec.Basic.Publish(0, "", "x", immediate=True)) + content_frames(1)
    answer = method_frame(0, spec.Connection.CloseOk()) if answered else CLOSE
    raw.send(guilty + PUBLISHED * MANY + answer + PUBLISHED * MANY)
    assert raw.expect(spec.Connection.Close, 0).reply_code == 540
    if not answered:
        raw.expect(spec.Connection.CloseOk, 0)
        raw.send_method(0, spec.Connection.CloseOk())
    assert rest_of(raw) == b""


def test_a_refused_frame_is_told_though_publishes_follow_it(raw: RawClient) -> None:
    raw.send(frame(1, 1, b"\x00\x3c\x00\x28", end=b"x") + PUBLISHED * MANY)
    assert raw.expect(spec.Connection.Close, 0).reply_code == 501


def test_publishes_behind_a_channels_close_are_dropped(raw: RawClient) -> None:
    raw.send(CLOSE_CHANNEL + PUBLISHED * 20 + method_frame(1, spec.Channel.Open()) + PUBLISHED)
    raw.expect(spec.Channel.CloseOk, 1)
    raw.expect(spec.Channel.OpenOk, 1)
    assert raw.alive()


def test_a_closed_channel_is_closed_for_what_comes_later(raw: RawClient) -> None:
    raw.call(1, spec.Channel.Close(200, "bye", 0, 0), spec.Channel.CloseOk)
    with suppress(OSError):
        raw.send_method(1, spec.Basic.Qos(0, 1, False))
    assert raw.expect(spec.Connection.Close, 0).reply_code == 504
