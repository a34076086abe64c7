"""One question to one member: the only place that knows aiohttp. Its errors end here.

`NotSent` and `Lost` are different things for a write: a question that never left did nothing.
"""

from __future__ import annotations

import asyncio
import io
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from mirrormq.cluster.coordination import deadlines
from mirrormq.cluster.coordination.errors import Refused

from .codec import Json
from .faults import EtcdFault

HEADERS: Final = {"Content-Type": "application/json", "Grpc-Metadata-hasleader": "true"}
"""The second: a member that has lost its leader says so at once, also in the middle of a watch."""


class NotSent(Exception):
    """No connection to this member."""


class NotTrusted(NotSent):
    """The member's certificate is not good."""


class Lost(Exception):
    """The question may have reached this member; no answer came."""


def trust(ca: str, cert: str, key: str) -> ssl.SSLContext:
    """How members are recognised, and we by them."""
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if cert:
            context.load_cert_chain(cert, key or None)
    except OSError as fault:
        names = ", ".join(name for name in (ca, cert, key) if name)
        raise Refused(f"certificates for etcd cannot be used ({fault}): look at {names}") from fault
    return context


class Http:
    def __init__(self, context: ssl.SSLContext | None) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=context or True, socket_factory=_make_socket)
        self._session = aiohttp.ClientSession(connector=connector, headers=HEADERS)
        self._streams: dict[str, set[aiohttp.ClientResponse]] = {}

    async def ask(self, address: str, path: str, body: Json, token: str, limit: float) -> Json:
        timeout = aiohttp.ClientTimeout(total=limit, sock_connect=min(deadlines.ATTEMPT, limit / 2))
        async with self._ask(address, path, body, token, timeout) as response:
            text = await response.read()
            return _parse(text.split(b"\n")[0], response.status)

    @asynccontextmanager
    async def stream(self, address: str, path: str, body: Json, token: str) -> AsyncIterator[AsyncIterator[Json]]:
        """Answers without end; `cut` ends them."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=deadlines.ATTEMPT)
        async with self._ask(address, path, body, token, timeout) as response:
            streams = self._streams.setdefault(address, set())
            streams.add(response)
            try:
                yield _lines(response)
            finally:
                streams.discard(response)

    def cut(self, address: str) -> None:
        """End the streams of a member that no longer counts: it may be silent for ever."""
        for response in list(self._streams.get(address, ())):
            response.close()

    def cut_all(self) -> None:
        for address in self._streams:
            self.cut(address)

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def _ask(
        self, address: str, path: str, body: Json, token: str, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session.closed:
            raise NotSent("this end is closed")
        headers = {"Authorization": token} if token else {}
        data = io.BytesIO(json.dumps(body).encode())  # aiohttp sends a file piece by piece, and other bytes at once
        try:
            async with asyncio.timeout(deadlines.CALL):  # until the head of the answer, also of a stream
                response = await self._session.post(f"{address}/v3/{path}", data=data, headers=headers, timeout=timeout)
            async with response:
                yield response
        except aiohttp.ClientConnectorCertificateError as fault:
            raise NotTrusted(f"its certificate is not trusted ({fault.certificate_error})") from fault
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as fault:
            raise NotSent(_words(fault)) from fault
        except (aiohttp.ClientError, OSError) as fault:
            raise Lost(_words(fault)) from fault


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[Json]:
    """One JSON text per line, of any length."""
    parts: list[bytes] = []
    async for chunk in response.content.iter_any():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = b"".join([*parts, line])
            parts.clear()
            if whole:
                yield _parse(whole, response.status)
        parts.append(rest)
    raise Lost("it ended the watch")


def _parse(text: bytes, status: int) -> Json:
    try:
        answer: Any = json.loads(text)
    except ValueError as fault:
        raise Lost(f"it answered no JSON (HTTP status {status})") from fault
    if isinstance(answer, dict) and (status != 200 or "error" in answer):
        raise EtcdFault(answer)
    result: Any = answer.get("result", answer) if isinstance(answer, dict) else None
    if not isinstance(result, dict) or not isinstance(result.get("header"), dict):
        raise Lost("it does not answer as an etcd does")
    return result


def _words(fault: Exception) -> str:
    if isinstance(fault, TimeoutError):
        return "it did not answer in time"
    return str(fault) or type(fault).__name__


def _make_socket(address: tuple[Any, ...]) -> socket.socket:
    """A connection whose other end vanished without a word is noticed by TCP itself."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", deadlines.KEEP_ALIVE_IDLE),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", deadlines.KEEP_ALIVE_TRIES),
        ("TCP_USER_TIMEOUT", deadlines.SILENCE),
    ):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def check_files(*names: str) -> None:
    for name in names:
        if name and not Path(name).is_file():
            raise Refused(f"there is no file {name}: correct the configuration of etcd's certificates")
