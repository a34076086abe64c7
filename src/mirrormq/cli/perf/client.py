"""One connection to the broker with one channel: handshake, requests, and what the broker says unasked.

At any time one caller waits for one answer. Afterwards the link runs by itself and only failures come up here: the
first one is kept, told to `on_failure`, and ends the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from mirrormq.cli.perf.address import Address
from mirrormq.cli.perf.errors import CannotConnect, LoginRefused, PerfError
from mirrormq.cli.perf.hot.deliver import BadFrame
from mirrormq.cli.perf.hot.link import Link
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.frames import HEARTBEAT_FRAME, method_frame
from mirrormq.wire.methods import (
    BasicCancel,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    decode_method,
)
from mirrormq.wire.table import Table

T = TypeVar("T", bound=Method)
CHANNEL = 1
# A broker under load may take seconds to accept; one that takes longer than this is as good as absent.
CONNECT_SECONDS = 15.0
# Declaring a queue waits for the disk.
ANSWER_SECONDS = 60.0
CLOSE_SECONDS = 3.0
CAPABILITIES: Table = {
    "publisher_confirms": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
    "basic.nack": True,
}


class Client:
    """A connection, named `label` in messages to the user."""

    def __init__(self, label: str, heartbeat: int, frame_max: int) -> None:
        self.label = label
        self.heartbeat = heartbeat
        self.frame_max = frame_max
        self.address: Address | None = None
        self.blocked = False
        self.failure: PerfError | None = None
        self.on_failure: Callable[[PerfError], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Method] | None = None
        self._stage = "connecting"
        self.link = Link(self._loop, self._method, self._lost)

    async def open(self, addresses: Sequence[Address]) -> None:
        """Connect to the first address that answers, log in, open the channel."""
        refusals = []
        for address in addresses:
            try:
                await self._dial(address)
                break
            except CannotConnect as error:
                refusals.append(str(error))
        else:
            raise CannotConnect("; ".join(dict.fromkeys(refusals)))
        await self._handshake(address)
        await self.call(ChannelOpen())

    async def call(self, method: Method, channel: int = CHANNEL) -> Method:
        """Send `method` and wait for its answer."""
        self.link.write(method_frame(channel, method))
        return await self._next(f"answered {method.name}")

    async def close(self) -> None:
        """Say goodbye; whatever happens then is no failure."""
        self._stage = "closing"
        if self.link.transport is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                answer: Method | None = None
                self.link.write(method_frame(0, ConnectionClose(200, "goodbye")))
                while not isinstance(answer, ConnectionCloseOk):
                    answer = await self._next("said goodbye")
        except (PerfError, TimeoutError):
            pass
        if self.link.transport is not None:
            self.link.transport.abort()

    def beat(self) -> None:
        """Send a heartbeat."""
        self.link.write(HEARTBEAT_FRAME)

    async def _dial(self, address: Address) -> None:
        self.address = address
        context = address.ssl_context()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                factory = cast("Callable[[], asyncio.Protocol]", lambda: self.link)
                await self._loop.create_connection(factory, address.host, address.port, ssl=context)
        except TimeoutError as error:
            raise CannotConnect(f"{address} does not answer within {CONNECT_SECONDS:.0f} s") from error
        except ssl.SSLError as error:
            raise CannotConnect(f"{address}: TLS failed: {error}") from error
        except OSError as error:
            raise CannotConnect(f"cannot connect to {address}: {_reason(error)}") from error

    async def _handshake(self, address: Address) -> None:
        self._stage = "shaking hands"
        self.link.write(b"AMQP\x00\x00\x09\x01")
        start = await self._expect(ConnectionStart, "began the handshake")
        if "PLAIN" not in start.mechanisms.split():
            raise LoginRefused(f"{address} offers only {start.mechanisms}; this tool logs in with PLAIN")
        self._stage = "logging in"
        self.link.write(method_frame(0, self._credentials(address)))
        tune = await self._expect(ConnectionTune, "answered the login")
        self.frame_max = min(self.frame_max, tune.frame_max) if tune.frame_max else self.frame_max
        self.heartbeat = min(self.heartbeat, tune.heartbeat) if tune.heartbeat else self.heartbeat
        self.link.write(method_frame(0, ConnectionTuneOk(tune.channel_max, self.frame_max, self.heartbeat)))
        self._stage = "opening the virtual host"
        await self.call(ConnectionOpen(address.vhost), 0)
        self._stage = "running"

    def _credentials(self, address: Address) -> ConnectionStartOk:
        properties: Table = {"product": "MirrorMQ perf", "connection_name": self.label, "capabilities": CAPABILITIES}
        return ConnectionStartOk(properties, "PLAIN", f"\0{address.user}\0{address.password}".encode())

    async def _expect(self, kind: type[T], what: str) -> T:
        answer = await self._next(what)
        if not isinstance(answer, kind):
            raise PerfError(f"{self._who()} answered with {answer.name} where {kind.name} should come")
        return answer

    async def _next(self, what: str) -> Method:
        if self.failure is not None:
            raise self.failure
        self._answer = self._loop.create_future()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer
        except TimeoutError as error:
            raise PerfError(f"{self._who()} has not {what} within {ANSWER_SECONDS:.0f} s") from error
        finally:
            self._answer = None

    def _method(self, channel: int, payload: bytes) -> None:
        try:
            method = decode_method(payload)
        except AMQPError as error:
            self._fail(PerfError(f"{self._who()} sent a method that cannot be read: {error}"))
            return
        if not self._unasked(method) and self._answer is not None and not self._answer.done():
            self._answer.set_result(method)

    def _unasked(self, method: Method) -> bool:
        if isinstance(method, ConnectionBlocked | ConnectionUnblocked):
            self.blocked = isinstance(method, ConnectionBlocked)
        elif isinstance(method, ConnectionClose):
            self.link.write(method_frame(0, ConnectionCloseOk()))
            self._fail(self._closed(method.reply_code, method.reply_text, "connection"))
        elif isinstance(method, ChannelClose):
            self._fail(self._closed(method.reply_code, method.reply_text, "channel"))
        elif isinstance(method, BasicCancel):
            self._fail(PerfError(f"{self.label}: the broker cancelled the consumer; its queue is gone"))
        elif isinstance(method, ChannelFlow):
            self.link.write(method_frame(CHANNEL, ChannelFlowOk(active=method.active)))
        else:
            return False
        return True

    def _closed(self, code: int, text: str, what: str) -> PerfError:
        if self._stage == "logging in":
            user = self.address.user if self.address else ""
            return LoginRefused(f"{self.address} refused the login of user {user!r}: {code} {text}")
        if self._stage == "opening the virtual host":
            return LoginRefused(f"{self.address} refused the virtual host: {code} {text}")
        return PerfError(f"{self.label}: the broker closed the {what}: {code} {text}")

    def _lost(self, error: BaseException | None) -> None:
        if self._stage == "shaking hands":
            self._fail(CannotConnect(f"{self.address} does not speak AMQP 0-9-1{_because(error)}"))
        elif self._stage == "logging in":
            self._fail(LoginRefused(f"{self.address} hung up during login; wrong user or password?"))
        elif isinstance(error, BadFrame | IndexError):
            self._fail(PerfError(f"{self._who()} broke the protocol{_because(error)}"))
        else:
            self._fail(PerfError(f"{self.label}: the connection to {self.address} was lost{_because(error)}"))

    def _fail(self, failure: PerfError) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(failure)
        elif self.on_failure is not None and self._stage == "running":
            self.on_failure(failure)

    def _who(self) -> str:
        return f"{self.label}: {self.address}"


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError) or "refused" in str(error).lower():
        return "connection refused; does the broker run there?"
    return error.strerror or str(error) or type(error).__name__


def _because(error: BaseException | None) -> str:
    text = str(error) if error is not None else ""
    return f" ({text})" if text else ""
