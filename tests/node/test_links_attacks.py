"""Strangers at the port of the links: they learn nothing, stop nothing, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from pathlib import Path

import pytest

from cluster.link.support import HOST, SECRET, Member, all_linked, eventually, introduce, introduction, on_both_loops, on_uvloop
from cluster.link.support import started as running
from mirrormq.cluster.link import CONTROL, WORK, Dialler, Frame, HandshakeFailed, LinkSession, Terms
from mirrormq.cluster.link.frames import PIECE, header
from mirrormq.cluster.link.handshake import HELLO_SIZE, MAGIC, NONCE_SIZE, NOT_KNOWN, PROOF_SIZE


async def said_to(member: Member, *parts: bytes) -> bytes:
    """All that the port answers to these bytes before it closes the connection. It has answered the first part before the next
    is sent."""
    reader, writer = await asyncio.open_connection(*member.address)
    heard = bytearray()

    async def listen() -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                heard.extend(data)

    listening = asyncio.ensure_future(listen())
    for part in parts:
        writer.write(part)
        if part is not parts[-1]:
            await eventually(lambda: heard or listening.done())
    await asyncio.wait_for(listening, 60)
    writer.transport.abort()
    return bytes(heard)


async def is_well(a: Member, b: Member) -> None:
    """Two nodes that were linked before still are, and talk."""
    before = len(b.diary.frames)
    a.links.peers["b"].send(CONTROL, 1, b"are you well?")
    await eventually(lambda: len(b.diary.frames) == before + 1)
    assert a.diary.events == [("up", "b")]
    assert b.diary.events == [("up", "a")]


@on_both_loops
async def test_who_does_not_begin_with_the_magic_hears_nothing() -> None:
    a, b = Member("a"), Member("b")
    async with running(a, b):
        introduce(a, b)
        await all_linked(a, b)
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"AMQP\0\0\x09\x01", os.urandom(100), bytes(1 << 20), b"MMQLINK2" + bytes(32)):
            assert await said_to(b, words) == b""
        await is_well(a, b)


@on_both_loops
async def test_a_line_that_ends_in_the_handshake_is_not_blamed_on_the_cookie() -> None:
    """As when a cut or a stop ends a connection cleanly, after the other side has said hello."""
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(HELLO_SIZE)
        writer.write(MAGIC + os.urandom(NONCE_SIZE))
        await reader.readexactly(PROOF_SIZE)
        writer.close()

    a = Member("a")
    server = await asyncio.start_server(hang_up, HOST, 0)
    async with server, running(a):
        with pytest.raises(HandshakeFailed, match=r"closed the connection during the handshake$"):
            await a.links.call(server.sockets[0].getsockname()[:2], {}, 60)


@on_both_loops
async def test_a_wrong_secret_hears_a_nonce_and_that_it_is_wrong() -> None:
    a, b = Member("a"), Member("b")
    async with running(a, b):
        introduce(a, b)
        await all_linked(a, b)
        heard = await said_to(b, MAGIC + os.urandom(32), os.urandom(PROOF_SIZE))
        assert len(heard) == HELLO_SIZE + PROOF_SIZE
        assert heard.startswith(MAGIC)
        assert heard.endswith(NOT_KNOWN)
        assert any("turned away" in words and "same cookie" in words for words in b.log)
        await is_well(a, b)


@on_both_loops
async def test_too_many_bytes_before_authentication_end_it() -> None:
    b = Member("b")
    async with running(b):
        assert await said_to(b, MAGIC + bytes(32) + bytes(100_000)) == b""
        assert len(await said_to(b, MAGIC + bytes(32), bytes(100_000))) <= HELLO_SIZE


@on_both_loops
async def test_a_truncated_handshake_leaves_nothing_behind() -> None:
    b = Member("b")
    async with running(b):
        for size in (0, 1, 8, 39, 40, 41, 71):
            _, writer = await asyncio.open_connection(*b.address)
            writer.write((MAGIC + bytes(64))[:size])
            writer.close()
        await eventually(lambda: len(b.links._door) == 0)


async def recorded(a: Member, b: Member) -> bytes:
    """What a real dialler says to b, as somebody on the line heard it."""
    heard = b""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        there, back = await asyncio.open_connection(*b.address)

        async def answer() -> None:
            while data := await there.read(65536):
                writer.write(data)

        task = asyncio.ensure_future(answer())
        while data := await reader.read(65536):
            heard += data
            back.write(data)
        task.cancel()
        for end in (back, writer):
            end.transport.abort()

    server = await asyncio.start_server(listen, HOST, 0)
    address = server.sockets[0].getsockname()[:2]
    assert await a.links.call((address[0], address[1]), {"secret": "order"}, 60) == {"echo": {"secret": "order"}}
    await eventually(lambda: b"order" in heard)
    server.close()
    return heard


@on_both_loops
async def test_a_replayed_visit_is_not_served_again() -> None:
    a, b = Member("a"), Member("b")
    async with running(a, b):
        words = await recorded(a, b)
        assert b.diary.visits == [{"secret": "order"}]
        hello, proof, rest = words[:HELLO_SIZE], words[HELLO_SIZE : HELLO_SIZE + PROOF_SIZE], words[HELLO_SIZE + PROOF_SIZE :]
        assert len(await said_to(b, hello, proof, rest)) <= HELLO_SIZE
        assert b.diary.visits == [{"secret": "order"}]


@on_both_loops
async def test_a_dialler_is_not_fooled_by_an_echo() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    a = Member("a")
    server = await asyncio.start_server(echo, HOST, 0)
    async with running(a):
        a.links.set_peers({"b": server.sockets[0].getsockname()[:2]})
        await eventually(lambda: any("only repeats what it is told" in words for words in a.log))
        assert a.diary.events == []
    server.close()


@on_both_loops
async def test_a_dialler_that_is_led_back_to_itself_does_not_link_with_itself() -> None:
    a = Member("a")
    async with running(a):
        a.links.set_peers({"b": a.address})
        await eventually(lambda: any("this is a, not b" in words for words in a.log))
        assert a.diary.events == []


class Insider:
    """Knows the secret and does what it likes after the handshake."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, attempt: int = 0) -> None:
        self.shake = Dialler(SECRET, introduction(name, to="b", attempt=attempt), os.urandom(32))
        self.reader, self.writer = reader, writer

    async def enter(self) -> None:
        self.writer.write(self.shake.hello)
        while not self.shake.is_done:
            self.writer.write(self.shake.receive(await self.reader.read(65536)))


@on_both_loops
@pytest.mark.parametrize(
    ("bytes_sent", "words"),
    [
        (header(PIECE + 1, WORK, 1, 0), "announces"),
        (header(0xFFFFFFFF, WORK, 1, 0), "announces"),
        (b"\xff" * 100, "not a frame"),
        ((header(PIECE, CONTROL, 1, 1) + bytes(PIECE)) * 5, "longer than 1048576 bytes"),
        ((header(PIECE, WORK, 1, 0) + bytes(PIECE)) * 40, "more than its credit"),
    ],
)
async def test_a_peer_that_breaks_the_rules_is_dropped_with_a_reason(bytes_sent: bytes, words: str) -> None:
    b = Member("b")
    b.diary.digests = False
    async with running(b):
        b.links.set_peers({"a": (HOST, 1)})
        insider = Insider("a", *await asyncio.open_connection(*b.address))
        await insider.enter()
        insider.writer.write(bytes_sent)
        await eventually(lambda: words in b.diary.last_words)
        assert b.links.peers == {}
        insider.writer.transport.abort()


@on_both_loops
async def test_a_later_attempt_takes_the_place_of_a_connection_that_only_the_dialler_knows_is_dead() -> None:
    b = Member("b")
    async with running(b):
        b.links.set_peers({"a": (HOST, 1)})
        first = Insider("a", *await asyncio.open_connection(*b.address), attempt=1)
        await first.enter()
        second = Insider("a", *await asyncio.open_connection(*b.address), attempt=2)
        await second.enter()
        await eventually(lambda: len(b.diary.events) == 3)
        words = "a: a newer connection of the same node took its place"
        assert b.diary.events == [("up", "a"), ("down", words), ("up", "a")]
        assert [peer.is_up for peer in b.diary.peers] == [False, True]
        assert b.links.peers["a"] is b.diary.peers[1]
        for insider in (first, second):
            insider.writer.transport.abort()


@on_both_loops
async def test_an_insider_that_is_no_member_cannot_link() -> None:
    b = Member("b")
    async with running(b):
        insider = Insider("a", *await asyncio.open_connection(*b.address))
        with pytest.raises(Exception, match="a is no member of the cluster as b knows it"):
            await insider.enter()
        assert b.diary.events == []
        insider.writer.transport.abort()


@on_both_loops
async def test_a_visitor_that_asks_nothing_or_nonsense_does_not_stay() -> None:
    b = Member("b")
    async with running(b):
        for payload in (b"[1]", b"not json", b"\xff"):
            reader, writer = await asyncio.open_connection(*b.address)
            shake = Dialler(SECRET, introduction("v", role="visitor"), os.urandom(32))
            writer.write(shake.hello)
            while not shake.is_done:
                writer.write(shake.receive(await reader.read(65536)))
            session = LinkSession(Terms(), 0)
            session.receive(shake.rest, 0)
            frames: list[Frame] = []
            session.send(WORK, 1, payload)
            while not frames:
                writer.write(session.data_to_send(1000))
                frames = session.receive(await reader.read(65536), 0)
            assert frames == [Frame(WORK, 3, b"the request is not a JSON object")]
            writer.transport.abort()
        await eventually(lambda: b.links._reception.visitors == set())
        assert b.diary.visits == []


@on_uvloop
async def test_a_slow_stranger_is_dropped_at_the_deadline() -> None:
    b = Member("b", handshake=1.0)
    async with running(b):
        assert await said_to(b) == b""
        assert len(await said_to(b, MAGIC + bytes(32))) == HELLO_SIZE
        assert any("the handshake took too long" in words for words in b.log)


@on_both_loops
async def test_half_open_connections_do_not_keep_a_peer_out() -> None:
    a, b = Member("a"), Member("b")
    async with running(a, b):
        strangers = [await open_half(b) for _ in range(400)]
        await eventually(lambda: len(b.links._door) == 256)
        introduce(a, b)
        await all_linked(a, b)
        assert len([words for words in b.log if "turned away" in words]) <= 2, "the log is not flooded"
        for stranger in strangers:
            stranger.close()
        await eventually(lambda: len(b.links._door) == 0)


async def open_half(member: Member) -> socket.socket:
    stranger = socket.socket()
    stranger.setblocking(False)
    await asyncio.get_running_loop().sock_connect(stranger, member.address)
    return stranger


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.live
@on_uvloop
async def test_ten_thousand_half_open_connections_stop_nothing_and_cost_nothing() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(10_000, most - 1000)
    a, b, late = Member("a"), Member("b"), Member("aa")
    async with running(a, b, late):
        introduce(a, b)
        await all_linked(a, b)
        strangers = [await open_half(b) for _ in range(500)]
        before = resident()
        strangers += [await open_half(b) for _ in range(count - 500)]
        for number, stranger in enumerate(strangers):
            with contextlib.suppress(OSError):
                stranger.send(MAGIC + bytes(number % 40))
        b.links.set_peers({"a": a.address, "aa": late.address})
        late.links.set_peers({"b": b.address})
        await eventually(lambda: "b" in late.links.peers)
        assert len(b.links._door) <= 256
        assert resident() - before < 30 << 20, "the sockets of the test itself are part of it"
        assert await late.links.call(b.address, {"still": "there"}, 60) == {"echo": {"still": "there"}}
        assert a.diary.events == [("up", "b")]
        for stranger in strangers:
            stranger.close()
        await eventually(lambda: len(b.links._door) == 0)
