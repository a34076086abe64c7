"""What the tests of the links share: two ends in memory, byte by byte if need be, and users that write down what they hear."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from mirrormq.cluster.link import Acceptor, Dialler, Frame, Identity, Introduction, LaneTerms, LinkSession, Terms
from mirrormq.node.links import Links, Peer

SECRET = b"one secret for all of them"
HOST = "127.0.0.1"
KIB = 1024


LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


Test = Callable[..., Coroutine[Any, Any, None]]


def on_both_loops(test: Test) -> Callable[..., None]:
    """Runs a test once on asyncio's loop and once on uvloop, which differ in when they write and close."""
    return on_loops(test, *LOOPS)


def on_uvloop(test: Test) -> Callable[..., None]:
    """For tests that take seconds: only on the loop that nodes use."""
    return on_loops(test, "uvloop")


def on_loops(test: Test, *names: str) -> Callable[..., None]:

    @functools.wraps(test)
    def run(*, loop_name: str, **arguments: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
            runner.run(test(**arguments))

    given = inspect.signature(test)
    name = inspect.Parameter("loop_name", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = given.replace(parameters=[*given.parameters.values(), name])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("loop_name", names)(run)


def introduction(name: str, **fields: Any) -> Introduction:
    return Introduction(Identity(name, f"id-of-{name}", 1), **fields)


def nonce(number: int) -> bytes:
    return bytes([number]) * 32


def small_terms(*, limit: int = 1024 * KIB, window: int = 64 * KIB) -> Terms:
    """Lanes like the standard ones, small enough that tests reach their edges."""
    lanes = [LaneTerms(limit, 0 if lane == 0 else window, 8 * KIB, weight) for lane, weight in enumerate((1, 4, 4, 1))]
    return Terms(lanes=lanes)


def portions(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def shake_hands(dialler: Dialler, acceptor: Acceptor, me: Introduction, size: int = 1 << 20) -> tuple[bytes, bytes]:
    """Runs a handshake, in portions of so many bytes, and lets the dialler in. All that each side sent."""
    up, down = dialler.hello, b""
    todo = up
    while todo:
        answer = b"".join([acceptor.receive(part) for part in portions(todo, size)])
        if acceptor.peer is not None and not acceptor.is_done:
            answer += acceptor.welcome(me)
        down += answer
        todo = b"".join([dialler.receive(part) for part in portions(answer, size)])
        up += todo
    return up, down


class Pair:
    """Two sessions and the line between them; the line is read when `run` is called."""

    def __init__(self, terms: Terms, *, digests: bool = True) -> None:
        self.left = LinkSession(terms, 0)
        self.right = LinkSession(terms, 0)
        self.digests = digests
        self.frames: list[Frame] = []

    def carry(self, limit: int = 1 << 20) -> int:
        """One write of each side; how many bytes went from left to right."""
        data = self.left.data_to_send(limit)
        found = self.right.receive(data, 0) if data else []
        self.frames += found
        if self.digests:
            for frame in found:
                self.right.consumed(frame.lane, len(frame.payload))
        back = self.right.data_to_send(limit)
        if back:
            assert self.left.receive(back, 0) == []
        return len(data) + len(back)

    def run(self, limit: int = 1 << 20) -> list[Frame]:
        while self.carry(limit):
            pass
        return self.frames


class Diary:
    """A user of links that writes down what happens, and digests what it gets."""

    def __init__(self, *, digests: bool = True) -> None:
        self.events: list[tuple[str, str]] = []
        self.peers: list[Peer] = []
        self.frames: list[Frame] = []
        self.drained: list[int] = []
        self.digests = digests
        self.visits: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], dict[str, Any]] = lambda request: {"echo": request}

    def link_up(self, peer: Peer) -> None:
        self.events.append(("up", peer.name))
        self.peers.append(peer)

    def link_down(self, peer: Peer, reason: str) -> None:
        assert not peer.is_up
        self.events.append(("down", f"{peer.name}: {reason}"))

    def link_frames(self, peer: Peer, frames: list[Frame]) -> None:
        assert peer.is_up
        self.frames += frames
        if self.digests:
            for frame in frames:
                peer.consumed(frame.lane, len(frame.payload))

    def link_drained(self, peer: Peer, lane: int) -> None:
        self.drained.append(lane)

    async def visit(self, request: dict[str, Any]) -> dict[str, Any]:
        self.visits.append(request)
        await asyncio.sleep(0)
        return self.answer(request)

    @property
    def last_words(self) -> str:
        return next((words for what, words in reversed(self.events) if what == "down"), "")


class Member:
    """A node of the tests: its links, its diary, its log."""

    def __init__(self, name: str, *, node_id: str = "", incarnation: int = 1, secret: bytes = SECRET, **options: Any) -> None:
        self.name = name
        self.diary = Diary()
        self.log: list[str] = []
        identity = Identity(name, node_id or f"id-of-{name}", incarnation)
        options.setdefault("report", lambda level, sentence: self.log.append(f"{level}: {sentence}"))
        self.links = Links(identity, secret, self.diary, **options)

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self.links.port


@asynccontextmanager
async def started(*members: Member) -> AsyncIterator[None]:
    for member in members:
        await member.links.start(HOST, 0)
    try:
        yield
    finally:
        for member in members:
            await member.links.stop()


def introduce(*members: Member) -> None:
    """Each is told of all others."""
    addresses = {member.name: member.address for member in members}
    for member in members:
        member.links.set_peers(addresses)


async def eventually(condition: Callable[[], object], what: str = "", within: float = 60.0) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + within
    while not condition():
        assert loop.time() < until, f"did not happen within {within} s: {what or condition}"
        await asyncio.sleep(0.005)


async def all_linked(*members: Member) -> None:
    def linked() -> bool:
        return all(len(member.links.peers) == len(members) - 1 for member in members)

    await eventually(linked, "all are linked")
