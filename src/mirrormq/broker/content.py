"""Putting a message together from its frames when they do not arrive in one piece."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.message import build_content
from mirrormq.wire.errors import AMQPError, ChannelFault, FrameError, PreconditionFailed, UnexpectedFrame
from mirrormq.wire.faults import octets, unknown_frame
from mirrormq.wire.methods import Method

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel


def begin(channel: Channel, payload: bytes) -> None:
    """basic.publish has come; its header and body will follow."""
    channel.publish_key = payload
    channel.expects_header = True


def on_frame(channel: Channel, kind: int, payload: bytes) -> None:
    if kind == 2 and channel.expects_header:
        _on_header(channel, payload)
    elif kind == 3 and channel.body_left:
        _on_body(channel, payload)
    elif kind == 2 or kind == 3:
        raise _unexpected_content(channel)
    else:
        raise unknown_frame(kind, payload)


def _on_header(channel: Channel, payload: bytes) -> None:
    if len(payload) < 14:
        raise unknown_frame(2, payload)
    if payload[2:4] != b"\x00\x00":
        raise unexpected_method(channel)
    if payload[:2] != b"\x00\x3c":
        class_id = int.from_bytes(payload[:2], "big")
        raise UnexpectedFrame(f"expected content header for class 60, got one for class {class_id} instead", 60, 40)
    channel.expects_header = False
    size = int.from_bytes(payload[4:12], "big")
    limit = channel.connection.broker.limits.max_message_size
    if size > limit:
        raise PreconditionFailed(f"message size {size} is larger than configured max size {limit}", 60, 40)
    channel.head = payload
    channel.body = []
    channel.body_size = size
    channel.body_left = size
    connection = channel.connection
    if not connection.is_publisher:
        connection.broker.note_publisher(connection)    # or an alarm would let the rest of its first message in
    if size == 0:
        _finish(channel)


def _on_body(channel: Channel, payload: bytes) -> None:
    size: i64 = len(payload)
    if size > channel.body_left:
        raise FrameError(f"content body is {size - channel.body_left} octets longer than its header says")
    channel.body.append(payload)
    channel.body_left -= size
    if channel.body_left == 0:
        _finish(channel)


def _finish(channel: Channel) -> None:
    connection = channel.connection
    head = channel.head
    body = channel.body[0] if len(channel.body) == 1 else b"".join(channel.body)
    reset(channel)
    content = build_content(channel.number, head[12:], body, connection.frame_max)
    connection.current_method = 60 << 16 | 40
    channel.publish(channel.publish_key, connection.broker.infos.get(head[12:]), content, len(body))


def reset(channel: Channel) -> None:
    channel.expects_header = False
    channel.head = b""
    channel.body = []
    channel.body_left = 0


def unexpected_method(channel: Channel) -> AMQPError:
    if channel.expects_header:
        return UnexpectedFrame("expected content header for class 60, got non content header frame instead", 60, 40)
    return UnexpectedFrame("expected content body, got non content body frame instead", 60, 40)


def _unexpected_content(channel: Channel) -> AMQPError:
    if channel.expects_header or channel.body_left:
        return unexpected_method(channel)
    return UnexpectedFrame("expected method frame, got non method frame instead")


def stray_frame(kind: int, payload: bytes) -> UnexpectedFrame:
    return UnexpectedFrame(octets(kind, payload))


def no_such_channel(method: Method | None) -> AMQPError:
    if method is None:
        return UnexpectedFrame("expected method frame, got non method frame instead")
    return ChannelFault("expected 'channel.open'", method.class_id, method.method_id)
