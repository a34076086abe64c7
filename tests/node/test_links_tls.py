"""Links inside TLS, with certificates of an authority of the cluster's own."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from cluster.link.support import HOST, Member, all_linked, eventually, introduce, on_both_loops, started
from mirrormq.cluster.link import BULK, CONTROL, Frame, HandshakeFailed, LinkError, Unreachable
from mirrormq.node.links import LinkTls


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def both_ways(authority: trustme.CA, issued_to: str = HOST, trusts: trustme.CA | None = None) -> LinkTls:
    certificate = authority.issue_cert(issued_to)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        certificate.configure_cert(context)
        (trusts or authority).configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return LinkTls(server, client)


@on_both_loops
async def test_nodes_link_and_visit_inside_tls(authority: trustme.CA) -> None:
    a, b = Member("a", tls=both_ways(authority)), Member("b", tls=both_ways(authority))
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        content = b"sync" * (2 << 20)
        a.links.peers["b"].send(BULK, 1, content)
        a.links.peers["b"].send(CONTROL, 2, b"meanwhile")
        await eventually(lambda: len(b.diary.frames) == 2)
        assert b.diary.frames == [Frame(CONTROL, 2, b"meanwhile"), Frame(BULK, 1, content)]
        assert await b.links.call(a.address, {"x": 1}, 60) == {"echo": {"x": 1}}


@on_both_loops
async def test_a_certificate_for_another_host_is_not_accepted(authority: trustme.CA) -> None:
    a, b = Member("a", tls=both_ways(authority)), Member("b", tls=both_ways(authority, "elsewhere.example"))
    async with started(a, b):
        with pytest.raises(Unreachable, match="a certificate that is not accepted"):
            await a.links.call(b.address, {}, 60)


@on_both_loops
async def test_a_certificate_may_be_made_out_to_one_name_for_all_nodes(authority: trustme.CA) -> None:
    tls = both_ways(authority, "links.example")
    tls.hostname = "links.example"
    a, b = Member("a", tls=tls), Member("b", tls=tls)
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)


@on_both_loops
async def test_the_secret_without_a_certificate_is_not_enough(authority: trustme.CA) -> None:
    foreign = both_ways(trustme.CA(), trusts=authority)
    a, b, plain = Member("a", tls=foreign), Member("b", tls=both_ways(authority)), Member("p")
    async with started(a, b, plain):
        with pytest.raises(LinkError):
            await a.links.call(b.address, {}, 60)
        with pytest.raises(LinkError):
            await plain.links.call(b.address, {}, 60)
        assert b.diary.visits == []


@on_both_loops
async def test_a_certificate_without_the_secret_is_not_enough(authority: trustme.CA) -> None:
    a, b = Member("a", tls=both_ways(authority), secret=b"not the secret"), Member("b", tls=both_ways(authority))
    async with started(a, b):
        with pytest.raises(HandshakeFailed, match="same cookie"):
            await a.links.call(b.address, {}, 60)
        assert b.diary.visits == []


@on_both_loops
async def test_strangers_that_never_finish_tls_are_counted_and_dropped(authority: trustme.CA) -> None:
    a, b = Member("a", tls=both_ways(authority)), Member("b", tls=both_ways(authority), handshake=4.0)
    async with started(a, b):
        strangers = [await asyncio.open_connection(*b.address) for _ in range(300)]
        try:
            await eventually(lambda: len(b.links._door) == 256)
            introduce(a, b)
            await all_linked(a, b)
            await eventually(lambda: len(b.links._door) == 0)
            assert await asyncio.wait_for(strangers[-1][0].read(), 60) == b""
        finally:
            for _, writer in strangers:
                writer.transport.abort()
