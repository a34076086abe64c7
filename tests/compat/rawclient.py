"""A small blocking AMQP 0-9-1 client on a bare socket, to provoke and see what a proper client hides.

It checks nothing that it sends. Methods are pika's `pika.spec` classes; frames are made and taken apart here, and a
content header's payload stays bytes. Reading past the server's close raises `Eof`.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from typing import Any, NamedTuple

from pika import spec

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = b"\xce"
ANSWER = 60.0
"""Seconds to wait for what must come."""
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CLIENT_PROPERTIES: dict[str, Any] = {
    "product": "rawclient",
    "capabilities": {
        "authentication_failure_close": True,
        "basic.nack": True,
        "connection.blocked": True,
        "consumer_cancel_notify": True,
        "publisher_confirms": True,
    },
}


class Eof(Exception):
    """The server closed the socket."""


class Frame(NamedTuple):
    type: int
    channel: int
    payload: bytes


class Message(NamedTuple):
    method: Any
    header: bytes
    body: bytes

    @property
    def properties(self) -> Any:
        return spec.BasicProperties().decode(self.header[12:])


def frame(type: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> bytes:
    return struct.pack(">BHI", type, channel, len(payload)) + payload + end


def method_payload(method: Any) -> bytes:
    return struct.pack(">I", method.INDEX) + b"".join(method.encode())


def method_frame(channel: int, method: Any) -> bytes:
    return frame(METHOD, channel, method_payload(method))


def header_payload(size: int, properties: Any = None, class_id: int = 60) -> bytes:
    """`properties` is BasicProperties, or bytes: the property flags and values as they go over the wire."""
    if not isinstance(properties, bytes):
        properties = b"".join((properties or spec.BasicProperties()).encode())
    return struct.pack(">HHQ", class_id, 0, size) + bytes(properties)


def content_frames(channel: int, body: bytes = b"", properties: Any = None, frame_max: int = 131072) -> bytes:
    step = frame_max - 8
    pieces = [frame(BODY, channel, body[at : at + step]) for at in range(0, len(body), step)]
    return frame(HEADER, channel, header_payload(len(body), properties)) + b"".join(pieces)


def shortstr(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def field(name: str, kind: bytes, value: bytes) -> bytes:
    """One pair of a field table with its type byte given by hand."""
    return shortstr(name) + kind + value


def table(*fields: bytes) -> bytes:
    return longstr(b"".join(fields))


def longstr(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


class RawClient:
    def __init__(self, host: str, port: int, timeout: float = ANSWER) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.start: Any = None
        self.tune: Any = None
        self.frame_max = 131072

    # sending

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, type: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> None:
        self.send(frame(type, channel, payload, end))

    def send_method(self, channel: int, *methods: Any) -> None:
        self.send(b"".join(method_frame(channel, method) for method in methods))

    def publish(
        self,
        channel: int,
        exchange: str = "",
        key: str = "",
        body: bytes = b"",
        properties: Any = None,
        *,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        method = spec.Basic.Publish(exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate)
        self.send(method_frame(channel, method) + content_frames(channel, body, properties, self.frame_max))

    # receiving

    def receive(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self._fill()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def _fill(self) -> None:
        try:
            chunk = self.socket.recv(1 << 20)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            raise Eof
        self.buffer += chunk

    def read_frame(self) -> Frame:
        type, channel, size = struct.unpack(">BHI", self.receive(7))
        payload = self.receive(size)
        assert self.receive(1) == FRAME_END
        return Frame(type, channel, payload)

    def read(self) -> tuple[int, Any]:
        """The next frame that is no heartbeat: its channel, and its method or (for content) the frame."""
        while True:
            got = self.read_frame()
            if got.type == METHOD:
                return got.channel, decode_method(got.payload)
            if got.type != HEARTBEAT:
                return got.channel, got

    def expect(self, kind: Any, channel: int | None = None) -> Any:
        """The next method, which must be of this class (and on this channel)."""
        on, method = self.read()
        assert isinstance(method, kind), f"expected {kind}, got {method}"
        assert channel is None or on == channel, f"expected channel {channel}, got {on}: {method}"
        return method

    def read_content(self, channel: int) -> tuple[bytes, bytes]:
        """The content that follows a method on this channel: header payload and body."""
        on, header = self.read()
        assert (on, header.type) == (channel, HEADER)
        size = struct.unpack(">Q", header.payload[4:12])[0]
        body = bytearray()
        while len(body) < size:
            on, piece = self.read()
            assert (on, piece.type) == (channel, BODY)
            body += piece.payload
        return header.payload, bytes(body)

    def expect_message(self, kind: Any, channel: int = 1) -> Message:
        """The next method with content: basic.deliver, basic.get-ok or basic.return."""
        method = self.expect(kind, channel)
        header, body = self.read_content(channel)
        return Message(method, header, body)

    def silent(self, seconds: float = 0.3) -> bool:
        """True if nothing but heartbeats arrives for a while. A negative can only be seen by waiting."""
        self.socket.settimeout(seconds)
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                if self.read_frame().type != HEARTBEAT:
                    return False
        except TimeoutError:
            return not self.buffer
        finally:
            self.socket.settimeout(ANSWER)
        return True

    def at_eof(self) -> bool:
        """True if the server closes the socket without another frame."""
        try:
            return not self.read()
        except Eof:
            return True

    # conversations

    def call(self, channel: int, method: Any, reply: Any) -> Any:
        self.send_method(channel, method)
        return self.expect(reply, channel)

    def begin(self) -> Any:
        """Protocol header; the server's connection.start."""
        self.send(PROTOCOL_HEADER)
        self.start = self.expect(spec.Connection.Start, 0)
        return self.start

    def login(
        self,
        user: str = "guest",
        password: str = "guest",
        *,
        mechanism: str = "PLAIN",
        response: str | bytes | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        """connection.start-ok; the answer is left unread."""
        response = f"\0{user}\0{password}" if response is None else response
        properties = CLIENT_PROPERTIES if properties is None else properties
        self.send_method(0, spec.Connection.StartOk(properties, mechanism, response, "en_US"))

    def handshake(
        self,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        *,
        channel_max: int = 2047,
        frame_max: int = 131072,
        heartbeat: int = 0,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.begin()
        self.login(user, password, properties=properties)
        self.tune = self.expect(spec.Connection.Tune, 0)
        self.frame_max = frame_max or 131072
        self.send_method(0, spec.Connection.TuneOk(channel_max, frame_max, heartbeat))
        self.call(0, spec.Connection.Open(virtual_host=vhost), spec.Connection.OpenOk)

    def open_channel(self, channel: int = 1) -> None:
        self.call(channel, spec.Channel.Open(), spec.Channel.OpenOk)

    def expect_channel_close(
        self, code: int, text: str, cause: Any = None, channel: int = 1, *, reply: bool = True
    ) -> None:
        """channel.close with exactly this code, text and failed method; answered with close-ok."""
        close = self.expect(spec.Channel.Close, channel)
        check_close(close, code, text, cause)
        if reply:
            self.send_method(channel, spec.Channel.CloseOk())

    def expect_connection_close(self, code: int, text: str, cause: Any = None) -> None:
        """connection.close with exactly this code, text and failed method; answered, and the socket then closes."""
        close = self.expect(spec.Connection.Close, 0)
        check_close(close, code, text, cause)
        with suppress(OSError):
            self.send_method(0, spec.Connection.CloseOk())
        assert self.at_eof()

    def alive(self, channel: int = 1) -> bool:
        """True if the channel still answers."""
        return bool(self.call(channel, spec.Basic.Qos(prefetch_count=0), spec.Basic.QosOk))

    def close(self) -> None:
        self.socket.close()


def decode_method(payload: bytes) -> Any:
    index = struct.unpack(">I", payload[:4])[0]
    method = spec.methods[index]()
    method.decode(payload[4:])
    return method


def check_close(close: Any, code: int, text: str, cause: Any) -> None:
    got = (close.reply_code, close.reply_text, (close.class_id, close.method_id))
    wanted = (code, fitted(text), ids(cause))
    assert got == wanted, f"\n   got {got}\nwanted {wanted}"


def fitted(text: str) -> str:
    """A reply text as it goes into a short string of at most 255 bytes."""
    return text if len(text.encode()) <= 255 else text.encode()[:252].decode(errors="ignore") + "..."


def ids(cause: Any) -> tuple[int, int]:
    """Class and method id of a pika.spec method class; a pair stands for itself, None for (0, 0)."""
    if cause is None or isinstance(cause, tuple):
        return cause or (0, 0)
    return cause.INDEX >> 16, cause.INDEX & 0xFFFF
