"""What stands between a node and etcd, or in its place: connections that hang, servers of another kind, foreign keys."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from urllib.parse import urlsplit

import pytest
import trustme

from cluster.etcd import EtcdCluster
from mirrormq.cluster.coordination import Refused, StoreDamaged, Unreachable, open_coordination
from mirrormq.cluster.coordination.etcd.endpoints import Endpoints
from mirrormq.cluster.coordination.etcd.http import Http, trust
from mirrormq.cluster.coordination.etcd.transport import READ, Transport

from .support import PATIENCE, Copy, put


class Proxy:
    """Forwards to one member; the streams of watches can be made to hang, as behind a middle box that forgot them."""

    def __init__(self, url: str) -> None:
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._watches: list[asyncio.Task[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            for writer in self._writers:
                writer.close()
            await asyncio.gather(*self._tasks, *(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        self._writers += [writer, back]
        answering = asyncio.create_task(self._forward(there, writer, None))
        self._tasks |= {answering, asyncio.create_task(self._forward(reader, back, answering))}

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: asyncio.Task[None] | None
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if answering is not None and b"/v3/watch" in data:
                    self._watches.append(answering)
                writer.write(data)
                await writer.drain()
            writer.close()

    def hang_watches(self) -> None:
        assert self._watches
        for task in self._watches:
            task.cancel()
        self._watches.clear()


@pytest.mark.live
async def test_a_watch_whose_stream_hangs_is_asked_anew(etcd: EtcdCluster) -> None:
    namespace = f"test-{secrets.token_hex(8)}"
    direct = await open_coordination(etcd.spec, namespace=namespace)
    async with Proxy(etcd.members[0].url).running() as proxy:
        store = await open_coordination(f"etcd:{proxy.url}", namespace=namespace)
        watch = store.watch("", await put(store, "start"))
        copy = Copy()
        await put(direct, "first")
        await copy.until(watch, "first")
        proxy.hang_watches()
        for number in range(10):
            await put(direct, f"k/{number}")
        await copy.until(watch, "k/9")
        assert [key for key, _ in copy.told] == ["first", *(f"k/{number}" for number in range(10))]
        await store.close()
    await direct.close()


@pytest.mark.live
async def test_a_key_that_is_no_text_is_named(etcd: EtcdCluster) -> None:
    key = b64encode(b"foreign/\xff").decode()
    etcd.ask(0, "kv/put", {"key": key, "value": ""})
    store = await open_coordination(etcd.spec, namespace="foreign")
    with pytest.raises(StoreDamaged, match=r"Zm9yZWlnbi\S+ \(in base64\) was not written by us"):
        await store.read("")
    with pytest.raises(StoreDamaged):
        await asyncio.wait_for(anext(store.watch("", 0)), PATIENCE)
    await store.close()


@pytest.mark.parametrize(
    ("status", "body"),
    [("200 OK", "<html>hello</html>"), ("200 OK", "{}"), ("502 Bad Gateway", "[1, 2]")],
)
async def test_a_server_of_another_kind_is_no_store(status: str, body: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    store = await open_coordination("etcd:http://{}:{}".format(*server.sockets[0].getsockname()))
    faults = await asyncio.gather(store.read(""), put(store, "a"), return_exceptions=True)
    assert all(isinstance(fault, Unreachable) and "answer" in str(fault) for fault in faults)
    await store.close()
    server.close()


async def test_members_without_trust_are_told_from_slow_ones() -> None:
    """Each hangs at first, shows its certificate once, and hangs again: once is enough."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    hanging = asyncio.Event()

    def make_member() -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        visitors = count(1)

        async def meet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if next(visitors) == 2:
                with suppress(OSError):
                    await writer.start_tls(context)
            else:
                await hanging.wait()
            writer.close()

        return meet

    members = [await asyncio.start_server(make_member(), "127.0.0.1", 0) for _ in range(2)]
    addresses = ["https://{}:{}".format(*member.sockets[0].getsockname()) for member in members]
    transport = Transport(Http(trust("", "", "")), Endpoints(addresses), probe={}, user="", password="")
    try:
        with pytest.raises(Refused, match="authority"):
            await transport.ask(READ, {}, repeatable=True)
    finally:
        hanging.set()
        await transport.close()
        for member in members:
            member.close()


async def test_where_nobody_listens_the_store_is_away() -> None:
    store = await open_coordination("etcd:http://127.0.0.1:1,http://127.0.0.1:2")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:2"):
        await store.read("")
    assert not store.reachability.is_reachable
    await store.close()
