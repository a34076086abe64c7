"""Client sockets: one protocol object for each, from accept to close, with the connection machine behind it."""
from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from mirrormq.broker.auth import is_loopback
from mirrormq.broker.connection import RUNNING, Connection
from mirrormq.broker.peer import Peer, Transport
from mirrormq.node import deadlines
from mirrormq.node.config import TcpOptions
from mirrormq.node.proxy_protocol import ProxyError, ProxyHeader, parse
from mirrormq.node.tls import distinguished_name, login_name

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

WRITE_HIGH: Final = 1 << 20         # bytes waiting in a socket before deliveries pause
LONG_READ: Final = 128 << 10        # bytes; who sends so much at once has more to send
LONG_WORK: Final = 0.0005           # seconds
PROXY_LIMIT: Final = 4096


class SocketTransport(Transport):
    """The connection's way out."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._patience: asyncio.TimerHandle | None = None       # with a peer that has been told everything

    def write(self, data: bytes) -> None:
        if self._is_open():
            self._transport.write(data)

    def write_all(self, pieces: list[bytes]) -> None:
        if self._is_open():
            self._transport.writelines(pieces)

    def _is_open(self) -> bool:
        """uvloop refuses to write to a socket that its peer has closed."""
        return self._patience is None and not self._transport.is_closing()

    def close(self) -> None:
        """Close when everything has left; a peer that does not read is not waited for much longer."""
        self._transport.close()
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(deadlines.LAST_WORDS, self._transport.abort)

    def linger(self) -> None:
        """The peer hears at once that nothing follows. A TLS transport that is closed does all this by itself."""
        if not self._is_open():
            return
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._patience = asyncio.get_running_loop().call_later(deadlines.LAST_WORDS, self._look_again)
            with suppress(OSError):         # the peer is gone, which `connection_lost` will tell
                self._transport.write_eof()
        else:
            self.close()

    def _look_again(self) -> None:
        """Who has read everything has some more time to close its side."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            rest = deadlines.LINGER - deadlines.LAST_WORDS
            self._patience = asyncio.get_running_loop().call_later(rest, self._transport.abort)

    def lost(self) -> None:
        """A timer left behind would keep the connection in memory until it is due."""
        if self._patience is not None:
            self._patience.cancel()

    def pause_reading(self) -> None:
        if self._is_open():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()


class ClientProtocol(asyncio.Protocol):
    def __init__(self, runtime: Runtime, *, expects_proxy: bool, awaits_tls: bool = False) -> None:
        self._runtime = runtime
        self._expects_proxy = expects_proxy
        self._awaits_tls = awaits_tls           # somebody else reads the PROXY header, and TLS comes behind it
        self._early = b""
        self._transport: asyncio.Transport | None = None
        self._out: SocketTransport | None = None
        self._connection: Connection | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)         # uvloop's transports are not subclasses of asyncio's
        self._transport = stream
        stream.set_write_buffer_limits(high=WRITE_HIGH)
        if not self._runtime.admit(self):
            stream.abort()
            return
        timeout = self._runtime.handshake_timeout
        if timeout is not None:
            self._deadline = asyncio.get_running_loop().call_later(timeout, self._too_slow)
        if not self._expects_proxy and not self._awaits_tls:
            self._begin(None)

    def begin_behind_tls(self, stream: asyncio.Transport, proxied: ProxyHeader) -> None:
        """TLS has begun behind a PROXY header. What came through it before we heard of that had to wait."""
        self._transport = stream
        stream.set_write_buffer_limits(high=WRITE_HIGH)
        self._begin(proxied)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def _begin(self, proxied: ProxyHeader | None) -> None:
        assert self._transport is not None
        peer = describe_peer(self._transport, proxied, self._runtime.login_from)
        self._out = SocketTransport(self._transport)
        self._connection = Connection(self._runtime.broker, self._out, peer)

    def data_received(self, data: bytes) -> None:
        runtime = self._runtime
        runtime.tick()
        connection = self._connection
        if connection is None:
            self._early += data
            if not self._awaits_tls:
                self._read_proxy_header()
            return
        if len(data) < LONG_READ:
            connection.receive(data)
        else:
            self._receive_much(connection, data)
        if self._deadline is not None and connection.state >= RUNNING:
            self._deadline.cancel()
            self._deadline = None
        if not runtime.is_scheduled:
            runtime.schedule()

    def _read_proxy_header(self) -> None:
        assert self._transport is not None
        try:
            header = parse(self._early)
        except ProxyError as fault:
            self._runtime.report("error", f"{name_of(self._transport)}: {fault}")
            self._transport.abort()
            return
        if header is None:
            if len(self._early) > PROXY_LIMIT:
                self._transport.abort()
            return
        self._begin(header)
        rest, self._early = self._early[header.size:], b""
        if rest:
            self.data_received(rest)

    def _receive_much(self, connection: Connection, data: bytes) -> None:
        """A client that fills whole reads with small messages waits for the turn after each: or those who consume them, and
        everybody else, would hardly get theirs. Large messages are soon handled, and go to the disk better many at once."""
        began = perf_counter()
        connection.receive(data)
        if perf_counter() - began > LONG_WORK and connection.is_reading and self._transport is not None \
                and not self._transport.is_closing():
            self._transport.pause_reading()
            self._runtime.rest(self)

    def go_on_reading(self) -> None:
        """The turn is over."""
        assert self._transport is not None and self._connection is not None
        if self._connection.is_reading and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.choke()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._runtime.tick()
            self._connection.relax()
            self._runtime.schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._runtime.dismiss(self)
        if self._out is not None:
            self._out.lost()
        if self._connection is not None:
            self._runtime.forget_closing(self._connection)
            self._runtime.tick()
            self._connection.end(f"the client's socket closed ({exc})" if exc else "the client closed its socket")

    def _too_slow(self) -> None:
        self._deadline = None
        if self._transport is not None and (self._connection is None or self._connection.state < RUNNING):
            self._runtime.report("error", f"{name_of(self._transport)}: handshake took too long")
            self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def describe_peer(transport: asyncio.Transport, proxied: ProxyHeader | None, login_from: tuple[str, str, int]) -> Peer:
    here = _host_port(transport.get_extra_info("sockname"))
    there = _host_port(transport.get_extra_info("peername"))
    local = is_loopback(there[0])
    if proxied is not None and proxied.source is not None and proxied.destination is not None:
        there, here = proxied.source, proxied.destination
        local = local and is_loopback(there[0])     # whoever reaches the port may claim any address in the header
    tls, name = _tls_of(transport, login_from)
    return Peer(there[0], there[1], here[0], here[1], is_loopback=local, tls=tls, certificate_name=name)


def name_of(transport: asyncio.Transport) -> str:
    """Whom a line of the log is about."""
    host, port = _host_port(transport.get_extra_info("peername"))
    return f"{host}:{port}"


def _host_port(address: Any) -> tuple[str, int]:
    return (str(address[0]), int(address[1])) if address else ("unknown", 0)


def _tls_of(transport: asyncio.Transport, login_from: tuple[str, str, int]) -> tuple[dict[str, str] | None, str | None]:
    tls_object: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if tls_object is None:
        return None, None
    cipher = tls_object.cipher()
    certificate = tls_object.getpeercert()
    details = {"protocol": str(tls_object.version()), "cipher": cipher[0] if cipher else ""}
    if certificate:
        details |= {"subject": distinguished_name(certificate), "issuer": distinguished_name(certificate, "issuer"),
                    "validity": f"{certificate['notBefore']} - {certificate['notAfter']}"}
    how, san_type, san_index = login_from
    return details, login_name(certificate, how, san_type=san_type, san_index=san_index) if certificate else None


def why_not(fault: OSError, option: str) -> str:
    """Why one cannot listen somewhere, and what to do about it."""
    reason = os.strerror(fault.errno) if fault.errno else str(fault)      # event loops put the address into theirs once more
    match fault.errno:
        case errno.EADDRNOTAVAIL:
            return f"({reason}): no network interface of this machine has this address"
        case errno.EACCES:
            return f"({reason}): ports below 1024 are for root; choose another port with {option}"
    return f"({reason}): choose another port with {option}, or stop what uses it"


def tune_listener(number: int, options: TcpOptions) -> None:
    """Options set on a listening socket, given by its file number, hold for every connection that it accepts."""
    with socket.socket(fileno=os.dup(number)) as twin:
        if options.keepalive:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if options.sndbuf is not None:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.sndbuf)
        if options.recbuf is not None:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.recbuf)
