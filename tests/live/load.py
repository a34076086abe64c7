"""A raw client for fault tests: publishes numbered messages in batches and remembers what was confirmed, delivered and acked."""
from __future__ import annotations

import select
import socket
from collections.abc import Iterator

from mirrormq.wire.constants import PROTOCOL_HEADER
from mirrormq.wire.frames import Frame, FrameReader, content_frames, method_frame
from mirrormq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    decode_method,
)
from mirrormq.wire.properties import Properties, encode_properties
from mirrormq.wire.table import Table

IDLE = 0.5      # seconds without a delivery after which a queue is asked whether it is empty
PERSISTENT = encode_properties(Properties(delivery_mode=2))


class Gone(Exception):
    """The server is not there any more."""


class Client:
    """One connection with one channel."""

    def __init__(self, port: int, *, vhost: str = "/") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = FrameReader(131072)
        self.waiting: list[Frame] = []
        try:
            self._open(vhost)
        except BaseException:
            self.socket.close()         # a server that dies meanwhile
            raise

    def _open(self, vhost: str) -> None:
        self.send(PROTOCOL_HEADER)
        self.expect("connection.start")
        abilities: Table = {"capabilities": {"consumer_cancel_notify": True}}
        self.send(method_frame(0, ConnectionStartOk(abilities, "PLAIN", b"\0guest\0guest", "en_US")))
        self.expect("connection.tune")
        self.send(method_frame(0, ConnectionTuneOk(2047, 131072, 0)) + method_frame(0, ConnectionOpen(vhost)))
        self.expect("connection.open-ok")
        self.call(ChannelOpen(), "channel.open-ok")

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as fault:
            raise Gone from fault

    def call(self, method: Method, answer: str) -> Method:
        self.send(method_frame(1, method))
        return self.expect(answer)

    def expect(self, name: str) -> Method:
        for frame in self.frames():
            if frame.kind == 1:
                method = decode_method(frame.payload)
                assert method.name == name, f"expected {name}, got {method}"
                return method
        raise Gone

    def frames(self) -> Iterator[Frame]:
        """Frames as they come, waiting for them."""
        while True:
            while self.waiting:
                yield self.waiting.pop(0)
            self.read()

    def read(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except OSError as fault:
            raise Gone from fault
        if not data:
            raise Gone
        self.waiting += self.reader.feed(data)

    def has_input(self, within: float = 0.0) -> bool:
        return bool(self.waiting) or bool(select.select([self.socket], [], [], within)[0])

    def declare(self, queue: str) -> None:
        self.call(QueueDeclare(queue, durable=True), "queue.declare-ok")

    def close(self) -> None:
        self.socket.close()


class Publisher(Client):
    """Publishes 1, 2, 3 … to a queue, persistent, with at most `window` unconfirmed."""

    def __init__(self, port: int, queue: str, *, start: int = 0, size: int = 100, window: int = 256) -> None:
        super().__init__(port)
        self.declare(queue)
        self.call(ConfirmSelect(), "confirm.select-ok")
        self.head = method_frame(1, BasicPublish("", queue))
        self.start = start
        self.size = size
        self.window = window
        self.sent = 0
        self.confirmed = 0
        self.refused: set[int] = set()

    def step(self, batch: int = 32) -> None:
        """Publish a batch if the window allows, and take in what was confirmed."""
        room = min(batch, self.window - (self.sent - self.confirmed))
        if room > 0:
            first = self.start + self.sent + 1
            self.sent += room
            self.send(b"".join(self.head + self._content(number) for number in range(first, first + room)))
        while self.has_input(0.05 if room <= 0 else 0.0):
            if not self.waiting:
                self.read()
            while self.waiting:
                self._take(self.waiting.pop(0))

    def _content(self, number: int) -> bytes:
        return content_frames(1, PERSISTENT, b"%019d" % number + b"x" * (self.size - 19), 131072)

    def _take(self, frame: Frame) -> None:
        method = decode_method(frame.payload)
        if isinstance(method, BasicNack):
            self.refused.add(self.start + method.delivery_tag)
            return
        assert isinstance(method, BasicAck), method
        self.confirmed = method.delivery_tag

    def finish(self) -> None:
        """Wait until everything sent is confirmed."""
        while self.confirmed < self.sent:
            self.step(0)

    def confirmed_numbers(self) -> range:
        return range(self.start + 1, self.start + self.confirmed + 1)

    def sent_numbers(self) -> range:
        return range(self.start + 1, self.start + self.sent + 1)


class Taker(Client):
    """Consumes a queue; acks every `every` messages, or at once everything it has when told."""

    def __init__(self, port: int, queue: str, *, every: int = 20, prefetch: int = 100) -> None:
        super().__init__(port)
        self.declare(queue)
        if prefetch:
            self.call(BasicQos(0, prefetch), "basic.qos-ok")
        self.call(BasicConsume(queue), "basic.consume-ok")
        self.every = every
        self.got: list[tuple[int, bool]] = []       # number, redelivered
        self.acked = 0                              # how many of them were acknowledged
        self._tag = 0
        self._coming = 0                            # the tag of what has not come whole yet
        self._redelivered = False

    def step(self, within: float = 0.0) -> bool:
        """Take what is there; False if nothing came."""
        if not self.has_input(within):
            return False
        if not self.waiting:
            self.read()
        while self.waiting:
            self._take(self.waiting.pop(0))
        if len(self.got) - self.acked >= self.every:
            self.ack()
        return True

    def _take(self, frame: Frame) -> None:
        if frame.kind == 1:
            method = decode_method(frame.payload)
            assert isinstance(method, BasicDeliver), method
            self._coming = method.delivery_tag
            self._redelivered = method.redelivered
        elif frame.kind == 3:
            self._tag = self._coming
            self.got.append((int(frame.payload[:19]), self._redelivered))

    def has_all(self, queue: str) -> bool:
        """All that came is acknowledged, and nothing was ready or on its way: on a busy machine a pause tells nothing."""
        self.ack()
        before = len(self.got)
        self.send(method_frame(1, QueueDeclare(queue, passive=True)))
        for frame in self.frames():
            method = decode_method(frame.payload) if frame.kind == 1 else None
            if isinstance(method, QueueDeclareOk):
                return method.message_count == 0 and len(self.got) == before
            self._take(frame)
        raise Gone

    def ack(self) -> None:
        if self._tag and len(self.got) > self.acked:
            self.send(method_frame(1, BasicAck(self._tag, multiple=True)))
            self.acked = len(self.got)


def drain(port: int, queue: str) -> list[tuple[int, bool]]:
    """Everything in the queue, in the order of delivery, acknowledged: number, redelivered."""
    taker = Taker(port, queue, every=200, prefetch=1000)
    try:
        while taker.step(IDLE) or not taker.has_all(queue):
            pass
    finally:
        taker.close()
    return taker.got
