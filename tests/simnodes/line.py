"""A client's connection with one channel, at the level of AMQP's bytes. It waits for answers as long as they take, and never asks
twice by a timer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.wire.frames import FrameReader, content_frames, method_frame
from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    decode_method,
)
from mirrormq.wire.properties import Properties, encode_properties

if TYPE_CHECKING:
    from simnodes.node import SimNode
    from simnodes.world import World

METHOD, HEADER, BODY = 1, 2, 3
PERSISTENT = encode_properties(Properties(delivery_mode=2))
TRANSIENT = encode_properties(Properties(delivery_mode=1))
CAPABILITIES = {"capabilities": {"publisher_confirms": True, "basic.nack": True, "consumer_cancel_notify": True,
                                 "connection.blocked": True}}


class Gone(Exception):
    """The connection has ended; what was asked may have been done or not."""


class Refused(Exception):
    """The channel was closed with a code and a sentence."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class Line(asyncio.Protocol):
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.node = ""
        self.on_deliver: Callable[[BasicDeliver, bytes], None] = lambda _method, _body: None
        self.on_confirm: Callable[[int, bool, bool], None] = lambda _tag, _multiple, _is_taken: None
        self.on_cancel: Callable[[str], None] = lambda _tag: None
        self.on_end: Callable[[], None] = lambda: None
        self.end: Exception | None = None
        self.asked: deque[tuple[float, str]] = deque()
        self._transport: Any = None
        self._reader = FrameReader(0)
        self._waiting: asyncio.Future[Any] | None = None
        self._content: tuple[Method, int, bytearray] | None = None

    # --- from the socket ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if frame.kind == METHOD:
                self._method(decode_method(frame.payload))
            elif frame.kind == HEADER:
                assert self._content is not None
                method, _, body = self._content
                self._content = (method, int.from_bytes(frame.payload[4:12], "big"), body)
                self._complete()
            elif frame.kind == BODY:
                assert self._content is not None
                self._content[2].extend(frame.payload)
                self._complete()

    def _complete(self) -> None:
        assert self._content is not None
        method, size, body = self._content
        if len(body) == size:
            self._content = None
            if isinstance(method, BasicDeliver):
                self.on_deliver(method, bytes(body))
            elif isinstance(method, BasicGetOk):
                self._answer((method, bytes(body)))

    def _method(self, method: Method) -> None:
        if isinstance(method, BasicDeliver | BasicGetOk | BasicReturn):
            self._content = (method, 0, bytearray())
            if not isinstance(method, BasicReturn):
                self._content = (method, -1, bytearray())
        elif isinstance(method, BasicAck):
            self.on_confirm(method.delivery_tag, method.multiple, True)
        elif isinstance(method, BasicNack):
            self.on_confirm(method.delivery_tag, method.multiple, False)
        elif isinstance(method, BasicCancel):
            self.on_cancel(method.consumer_tag)
        elif isinstance(method, ChannelClose):
            self.send(ChannelCloseOk())
            self._over(Refused(method.reply_code, method.reply_text))
            self._transport.close()
        elif isinstance(method, ConnectionClose):
            self.send(ConnectionCloseOk(), channel=0)
            self._over(Refused(method.reply_code, method.reply_text))
            self._transport.close()
        elif not isinstance(method, ConnectionBlocked | ConnectionUnblocked):
            self._answer(method)

    def _answer(self, answer: Any) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over(Gone(str(exc or "end of file")))

    def _over(self, why: Exception) -> None:
        if self.end is None:
            self.end = why
            self.world.note(self.name, f"its connection to {self.node} has ended: {why}")
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_exception(why)
            self.on_end()

    # --- for the client ----------------------------------------------------------------------------------------------

    async def open(self, node: SimNode, *, is_transaction: bool = False) -> None:
        self.node = node.host
        loop = self.world.clients_loop
        try:
            await self._asking("connect", loop.create_connection(lambda: self, node.host, 5672))
        except OSError as fault:
            self.end = Gone(str(fault))
            raise self.end from fault
        await self._call_with(b"AMQP\x00\x00\x09\x01", "protocol header")
        await self.call(ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US"), channel=0)
        self.send(ConnectionTuneOk(2047, 131072, 0), channel=0)
        await self.call(ConnectionOpen("/"), channel=0)
        await self.call(ChannelOpen())

    async def _asking(self, what: str, work: Any) -> Any:
        mark = (self.world.now, what)
        self.asked.append(mark)
        self.world.asking[self] = None
        try:
            return await work
        finally:
            self.asked.remove(mark)
            if not self.asked:
                self.world.asking.pop(self, None)

    async def _call_with(self, data: bytes, what: str) -> Any:
        if self.end is not None:
            raise self.end
        self._waiting = self.world.clients_loop.create_future()
        self._transport.write(data)
        return await self._asking(what, self._waiting)

    async def call(self, method: Method, *, channel: int = 1) -> Any:
        """The answer. Gone if the connection ends before, Refused if the server closes the channel."""
        return await self._call_with(method_frame(channel, method), repr(method))

    def waits_for(self, what: str) -> tuple[float, str]:
        """Something is expected that is no answer to a method, such as confirms."""
        mark = (self.world.now, what)
        self.asked.append(mark)
        self.world.asking[self] = None
        return mark

    def has(self, mark: tuple[float, str]) -> None:
        self.asked.remove(mark)
        if not self.asked:
            self.world.asking.pop(self, None)

    def send(self, method: Method, *, channel: int = 1) -> None:
        if self._transport is not None and self.end is None:
            self._transport.write(method_frame(channel, method))

    def publish(self, exchange: str, key: str, body: bytes, *, is_persistent: bool = True) -> None:
        if self.end is None:
            properties = PERSISTENT if is_persistent else TRANSIENT
            self._transport.write(method_frame(1, BasicPublish(exchange, key)) + content_frames(1, properties, body, 131072))

    async def close(self) -> None:
        """Politely; returns when the close-ok is there. What is still under way to this client goes back, and others may have
        it before it arrives here."""
        self.on_deliver = lambda _method, _body: None
        if self.end is None:
            await self.call(ConnectionClose(200, "goodbye"), channel=0)
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
