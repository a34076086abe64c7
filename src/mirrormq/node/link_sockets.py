"""The sockets of links: how they are listened on, tuned and dialled, and which errors of the world come out of that."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from typing import Final

from mirrormq.cluster.link import Unreachable, deadlines

BACKLOG: Final = 1024
"""A flood of strangers fills the queue of the kernel; a real peer must still find a place in it."""

Address = tuple[str, int]


class LinkTls:
    """The two contexts of a node: the one it shows to who dials it, the one with which it checks whom it dials. Both should
    demand a certificate of the cluster's own authority. `hostname` is what certificates are made out to, if not to the host
    in the address."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, hostname: str | None = None) -> None:
        self.server = server
        self.client = client
        self.hostname = hostname


def tune(transport: asyncio.BaseTransport) -> None:
    """Small writes leave at once, and a connection whose other end is gone does not stay."""
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _system_options():
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _system_options() -> list[tuple[int, int]]:
    wanted = {
        "TCP_KEEPIDLE": 2,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": deadlines.milliseconds(deadlines.UNACKNOWLEDGED),
    }
    return [(getattr(socket, name), value) for name, value in wanted.items() if hasattr(socket, name)]


async def listen(host: str, port: int) -> list[socket.socket]:
    """One listening socket for each address that the host has; port 0 takes one that is free, the same for all."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(_listen_on(family, kind, protocol, address, port))
            port = sockets[0].getsockname()[1]
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _listen_on(family: int, kind: int, protocol: int, address: tuple[object, ...], port: int) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address[0], port, *address[2:]))
        sock.listen(BACKLOG)
        sock.settimeout(0)
    except BaseException:
        sock.close()
        raise
    return sock


async def connect(protocol: asyncio.Protocol, address: Address, tls: LinkTls | None) -> None:
    """Connects, with TLS if asked for. Unreachable, with a sentence, if that fails."""
    host, port = address
    loop = asyncio.get_running_loop()
    try:
        if tls is None:
            await loop.create_connection(lambda: protocol, host, port)
        else:
            await loop.create_connection(
                lambda: protocol,
                host,
                port,
                ssl=tls.client,
                server_hostname=tls.hostname or host,
                ssl_handshake_timeout=deadlines.DIAL,
            )
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"{host}:{port} has a certificate that is not accepted: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Unreachable(f"TLS with {host}:{port} failed: {error.reason or error}") from None
    except OSError as error:
        raise Unreachable(f"{host}:{port} cannot be reached: {describe(error)}") from None


def describe(error: BaseException) -> str:
    """The least that says what happened: the system's words, without numbers and addresses."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
