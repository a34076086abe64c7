"""A TLS listener behind a load balancer: the PROXY header comes first, in clear, and then the client's TLS handshake.

Rules:

- Not one byte behind the header is read here: it is TLS's. So the header is read in pieces that cannot be too large.
- The client counts as one, with its limits and its deadline, from the first moment.
"""
from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, cast

from mirrormq.node.listener import ClientProtocol, name_of
from mirrormq.node.proxy_protocol import ProxyError, ProxyHeader, parse, wanted

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime


class HeaderProtocol(asyncio.BufferedProtocol):
    """Reads the header; then `client` goes on behind TLS."""

    def __init__(self, runtime: Runtime, context: ssl.SSLContext, timeout: float | None) -> None:
        self._runtime = runtime
        self._context = context
        self._timeout = timeout
        self._client = ClientProtocol(runtime, expects_proxy=False, awaits_tls=True)
        self._transport: asyncio.Transport | None = None
        self._header = b""
        self._piece = bytearray()
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)      # uvloop's transports are not subclasses of asyncio's
        self._client.connection_made(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        self._piece = bytearray(wanted(self._header))
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        assert self._transport is not None
        self._header += self._piece[:nbytes]
        try:
            header = parse(self._header)
        except ProxyError as fault:
            self._runtime.report("error", f"{name_of(self._transport)}: {fault}")
            self._transport.abort()
            return
        if header is not None:
            self._transport.pause_reading()
            self._handshake = asyncio.get_running_loop().create_task(self._begin_tls(header), name="TLS behind a balancer")

    async def _begin_tls(self, header: ProxyHeader) -> None:
        """Ends with the handshake, or with the socket."""
        assert self._transport is not None
        try:
            stream = await asyncio.get_running_loop().start_tls(
                self._transport, self._client, self._context, server_side=True, ssl_handshake_timeout=self._timeout)
        except OSError as fault:
            if not isinstance(fault, ssl.SSLError):     # the context tells of those
                self._runtime.report("error", f"{name_of(self._transport)}: TLS handshake failed ({fault})")
            self._client.connection_lost(None)
            return
        if stream is not None and not stream.is_closing():
            self._client.begin_behind_tls(stream, header)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.connection_lost(exc)
