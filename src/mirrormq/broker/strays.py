"""Frames that come at the wrong time: before a connection is open, or while it or a channel closes."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import content
from mirrormq.wire.methods import ChannelCloseOk, ConnectionCloseOk

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.connection import Connection


def too_early(connection: Connection, kind: int, payload: bytes, *, is_known: bool) -> None:
    """A channel's frame before the connection is open; a peer that has not logged in gets no answer."""
    if not is_known:
        connection.end("a frame on a channel came before the handshake was done")
    else:
        raise content.stray_frame(kind, payload)


def on_closing_channel(channel: Channel, kind: int, payload: bytes) -> None:
    """Frames that were on their way while we closed the channel are ignored."""
    if kind != 1:
        return
    if payload[:4] == b"\x00\x14\x00\x29":
        del channel.connection.channels[channel.number]
    elif payload[:4] == b"\x00\x14\x00\x28":
        channel.send(ChannelCloseOk())


def last_words(connection: Connection, kind: int, number: int, payload: bytes) -> None:
    """Who has closed the connection has none left: its close is answered once, in its time."""
    if kind != 1 or number != 0 or len(payload) < 4 or connection.is_parting:
        return
    if payload[:4] == b"\x00\x0a\x00\x33":
        connection.end("closed")
    elif payload[:4] == b"\x00\x0a\x00\x32":
        connection.send(ConnectionCloseOk())
