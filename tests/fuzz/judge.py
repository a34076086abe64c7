"""The other end of a connection: reads every byte that the broker sends and refuses what no broker may say.

1. Everything is whole frames, no larger than was agreed, and every method decodes and is one that servers send.
2. Content follows the method that announces it at once, in the announced size, with readable properties.
3. A channel speaks between its open-ok and its close; after connection.close comes nothing but close-ok.
4. Reply codes are AMQP's, soft ones close channels and hard ones connections, and the text begins with the code's name.
5. Delivery tags grow by one; a publish is confirmed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mirrormq.wire import errors
from mirrormq.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, PROTOCOL_HEADER
from mirrormq.wire.frames import Frame, FrameReader
from mirrormq.wire.methods import (
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQosOk,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlowOk,
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionUnblocked,
    ConnectionUpdateSecretOk,
    ExchangeBindOk,
    ExchangeDeclareOk,
    ExchangeDeleteOk,
    ExchangeUnbindOk,
    Method,
    QueueBindOk,
    QueueDeclareOk,
    QueueDeleteOk,
    QueuePurgeOk,
    QueueUnbindOk,
    TxCommitOk,
    TxRollbackOk,
    TxSelectOk,
    decode_method,
)
from mirrormq.wire.properties import decode_properties

from .world import Violation

OF_CONNECTIONS = {
    method.ID
    for method in (
        ConnectionStart, ConnectionTune, ConnectionOpenOk, ConnectionClose, ConnectionCloseOk, ConnectionBlocked,
        ConnectionUnblocked, ConnectionUpdateSecretOk,
    )
}  # fmt: skip
OF_CHANNELS = {
    method.ID
    for method in (
        AccessRequestOk, BasicAck, BasicCancel, BasicCancelOk, BasicConsumeOk, BasicDeliver, BasicGetEmpty, BasicGetOk,
        BasicNack, BasicQosOk, BasicRecoverOk, BasicReturn, ChannelClose, ChannelCloseOk, ChannelFlowOk, ChannelOpenOk,
        ConfirmSelectOk, ExchangeBindOk, ExchangeDeclareOk, ExchangeDeleteOk, ExchangeUnbindOk, QueueBindOk,
        QueueDeclareOk, QueueDeleteOk, QueuePurgeOk, QueueUnbindOk, TxCommitOk, TxRollbackOk, TxSelectOk,
    )
}  # fmt: skip


def _all_errors(base: type[errors.AMQPError]) -> Iterator[type[errors.AMQPError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _all_errors(kind)


SOFT = {kind.code: kind.name for kind in _all_errors(errors.ChannelError)}
HARD = {kind.code: kind.name for kind in _all_errors(errors.HardError) if kind is not errors.InternalError}

SILENT, OPEN, CLOSING = range(3)


class Line:
    """What one channel has said so far."""

    def __init__(self) -> None:
        self.state = SILENT
        self.begin()

    def begin(self) -> None:
        self.tag = 0
        self.confirmed = 0
        self.confirmed_singly: set[int] = set()

    def confirm(self, upto: int, *, multiple: bool) -> None:
        if upto <= self.confirmed or upto in self.confirmed_singly:
            raise Violation(f"publish {upto} was confirmed twice")
        if multiple:
            self.confirmed = upto
            self.confirmed_singly = {number for number in self.confirmed_singly if number > upto}
        else:
            self.confirmed_singly.add(upto)
        while self.confirmed + 1 in self.confirmed_singly:
            self.confirmed += 1
            self.confirmed_singly.remove(self.confirmed)


class Judge:
    def __init__(self, seen: Counter[str]) -> None:
        self.seen = seen
        self.frame_max = 0
        self.has_refused_protocol = False
        self.close: ConnectionClose | None = None
        self.has_said_close_ok = False
        self.methods: list[tuple[int, Method]] = []
        self.bodies: list[bytes] = []
        self.keeps_methods = False
        self._reader = FrameReader(0)
        self._lines: dict[int, Line] = {}
        self._has_begun = False
        self._content_on = 0
        self._body_left = -1
        self._body = b""

    def hear(self, data: bytes) -> None:
        if not self._has_begun and data:
            self._has_begun = True
            if data[:8] == PROTOCOL_HEADER:
                self.has_refused_protocol = True
                self.seen["protocol refused"] += 1
                data = data[8:]
        for frame in self._reader.feed(data):
            # A content header cannot be cut; like RabbitMQ's it may be larger than its receiver takes.
            if self.frame_max and len(frame.payload) + 8 > self.frame_max and frame.kind != FRAME_HEADER:
                raise Violation(f"a frame of {len(frame.payload) + 8} octets where {self.frame_max} were agreed")
            self._frame(frame)

    def finish(self) -> None:
        """The socket is closed: nothing may be left unsaid."""
        if self._reader._rest:
            raise Violation(f"the connection ended in the middle of a frame: {self._reader._rest[:40]!r}")
        if self._content_on:
            raise Violation("the connection ended in the middle of a message")

    def _frame(self, frame: Frame) -> None:
        if frame.kind == FRAME_HEARTBEAT:
            return
        if self.has_refused_protocol or (self.has_said_close_ok and self.close is None):
            raise Violation(f"{frame!r} came after the last word")
        if self._content_on:
            self._content(frame)
            return
        if frame.kind != FRAME_METHOD:
            raise Violation(f"{frame!r} without a method before it")
        method = decode_method(frame.payload)
        if self.keeps_methods:
            self.methods.append((frame.channel, method))
        self.seen[method.name] += 1
        if self.close is not None and not (frame.channel == 0 and isinstance(method, ConnectionCloseOk)):
            raise Violation(f"{method!r} on channel {frame.channel} came after connection.close")
        if frame.channel == 0:
            self._on_connection(method)
        else:
            self._on_channel(frame.channel, method)

    def _on_connection(self, method: Method) -> None:
        if method.ID not in OF_CONNECTIONS:
            raise Violation(f"{method!r} on channel 0")
        if isinstance(method, ConnectionClose):
            self._check_reply(method.reply_code, method.reply_text, HARD)
            self.close = method
        elif isinstance(method, ConnectionCloseOk):
            self.has_said_close_ok = True

    def _check_reply(self, code: int, text: str, names: dict[int, str]) -> None:
        name = names.get(code)
        if name is None or not text.startswith(name):
            raise Violation(f"closed with {code} {text!r}")
        self.seen[f"{code} {name}"] += 1

    def _on_channel(self, number: int, method: Method) -> None:
        line = self._lines.setdefault(number, Line())
        if method.ID not in OF_CHANNELS:
            raise Violation(f"{method!r} on channel {number}")
        if isinstance(method, ChannelOpenOk):
            if line.state == OPEN:
                raise Violation(f"channel {number} was opened twice")
            line.state = OPEN
            line.begin()
        elif isinstance(method, ChannelCloseOk):
            if line.state == SILENT:
                raise Violation(f"close-ok on channel {number}, which is closed")
            line.state = SILENT if line.state == OPEN else CLOSING
        elif line.state != OPEN:
            raise Violation(f"{method!r} on channel {number}, which is closed")
        elif isinstance(method, ChannelClose):
            self._check_reply(method.reply_code, method.reply_text, SOFT)
            line.state = CLOSING
        else:
            self._on_open_channel(number, line, method)

    def _on_open_channel(self, number: int, line: Line, method: Method) -> None:
        if isinstance(method, (BasicAck, BasicNack)):
            line.confirm(method.delivery_tag, multiple=method.multiple)
        elif isinstance(method, (BasicDeliver, BasicGetOk)):
            if method.delivery_tag != line.tag + 1:
                raise Violation(f"delivery tag {method.delivery_tag} after {line.tag}")
            line.tag = method.delivery_tag
            self._expect_content(number)
        elif isinstance(method, BasicReturn):
            self._expect_content(number)

    def _expect_content(self, number: int) -> None:
        self._content_on = number
        self._body_left = -1
        self._body = b""

    def _content(self, frame: Frame) -> None:
        if frame.channel != self._content_on:
            raise Violation(f"{frame!r} inside a message of channel {self._content_on}")
        payload = frame.payload
        if self._body_left < 0:
            if frame.kind != FRAME_HEADER or payload[:4] != b"\x00\x3c\x00\x00":
                raise Violation(f"{frame!r} instead of a content header")
            decode_properties(payload, 12)
            self._body_left = int.from_bytes(payload[4:12], "big")
        else:
            if frame.kind != FRAME_BODY or len(payload) > self._body_left:
                raise Violation(f"{frame!r} where {self._body_left} octets of a body are missing")
            self._body_left -= len(payload)
            if self.keeps_methods:
                self._body += payload
        if self._body_left == 0:
            self._content_on = 0
            if self.keeps_methods:
                self.bodies.append(self._body)
