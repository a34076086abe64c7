"""Links between processes: one that is killed is noticed at once, one that is frozen by its silence, and both come back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.link.support import HOST, Member, eventually, on_uvloop, started
from mirrormq.cluster.link import WORK, Terms

pytestmark = pytest.mark.live

CHILD = Path(__file__).parent.parent / "cluster" / "link" / "link_child.py"


class Child:
    """Another process with links."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.told: list[list[Any]] = []
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.told.append(json.loads(line))

    @property
    def port(self) -> int:
        return next((words[1] for words in self.told if words[0] == "port"), 0)

    def told_of(self, what: str) -> list[list[Any]]:
        return [words for words in self.told if words[0] == what]

    def set_peers(self, *members: Member) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({member.name: member.address for member in members}).encode() + b"\n")

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        await self._reading


@asynccontextmanager
async def child(name: str, incarnation: int = 1) -> AsyncIterator[Child]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), name, str(incarnation), stdin=pipe, stdout=pipe
    )
    found = Child(name, process)
    try:
        await eventually(lambda: found.port, "the process listens")
        yield found
    finally:
        await found.end()


async def link(member: Member, other: Child) -> None:
    member.links.set_peers({other.name: (HOST, other.port)})
    other.set_peers(member)
    await eventually(lambda: other.name in member.links.peers and other.told_of("up"))


@on_uvloop
@pytest.mark.parametrize(("here", "there"), [("a", "b"), ("b", "a")])
async def test_a_killed_process_is_noticed_at_once_and_linked_again_when_it_returns(here: str, there: str) -> None:
    member = Member(here)
    async with started(member):
        async with child(there) as other:
            await link(member, other)
            other.process.send_signal(signal.SIGKILL)
            await eventually(lambda: member.diary.last_words)
            assert "nothing came" not in member.diary.last_words, "the closed socket tells, not the silence"
        async with child(there, incarnation=2) as again:
            await link(member, again)
            assert member.links.peers[there].incarnation == 2
            assert [what for what, _ in member.diary.events] == ["up", "down", "up"]


@on_uvloop
@pytest.mark.parametrize(("here", "there"), [("a", "b"), ("b", "a")])
async def test_a_frozen_process_is_noticed_by_its_silence_and_returns(here: str, there: str) -> None:
    member = Member(here)
    async with started(member), child(there) as other:
        await link(member, other)
        for round_number in (1, 2):
            other.process.send_signal(signal.SIGSTOP)
            await eventually(lambda n=round_number: len([1 for what, _ in member.diary.events if what == "down"]) == n)  # type: ignore[misc]
            assert "nothing came for" in member.diary.last_words
            other.process.send_signal(signal.SIGCONT)
            await eventually(lambda n=round_number: len(other.told_of("up")) == n + 1 and there in member.links.peers)  # type: ignore[misc]
        assert [words[0] for words in other.told if words[0] in ("up", "down")] == ["up", "down"] * 2 + ["up"]


@on_uvloop
async def test_a_process_that_was_frozen_for_a_moment_keeps_its_links() -> None:
    member = Member("a", terms=Terms(silence=5.0))
    async with started(member), child("b") as other:
        await link(member, other)
        for _ in range(2):
            other.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(2.0)
            other.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.3)
        assert member.diary.events == [("up", "b")]
        assert len(other.told_of("up")) == 1
        assert other.told_of("down") == []


@on_uvloop
async def test_a_frozen_process_reads_before_it_finds_its_peer_silent() -> None:
    """Its peer's limit is longer than the freeze, so the connection stands, and in it lie the heartbeats of all that time."""
    member = Member("a", terms=Terms(silence=30.0))
    async with started(member), child("b") as other:
        await link(member, other)
        other.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(4)
        other.process.send_signal(signal.SIGCONT)
        member.links.peers["b"].send(WORK, 1, b"echo")
        await eventually(lambda: member.diary.frames)
        await asyncio.sleep(1)
        assert other.told_of("down") == []
        assert member.diary.events == [("up", "b")]


@on_uvloop
async def test_a_process_that_ends_well_says_goodbye() -> None:
    member = Member("a")
    async with started(member), child("b") as other:
        await link(member, other)
        assert other.process.stdin is not None
        other.process.stdin.close()
        await eventually(lambda: member.diary.last_words == "b: the node is stopping")
        await eventually(lambda: other.told_of("stopped"))
        assert await other.process.wait() == 0


@on_uvloop
async def test_echoes_of_many_sizes_come_back_from_another_process() -> None:
    member = Member("a")
    async with started(member), child("b") as other:
        await link(member, other)
        sent = [bytes([n]) * size for n, size in enumerate([0, 1, 1000, 65_536, 262_144, 262_145, 3_000_000, 20_000_000])]
        for number, payload in enumerate(sent):
            member.links.peers["b"].send(WORK, number, payload)
        await eventually(lambda: len(member.diary.frames) == len(sent))
        assert [frame.payload for frame in member.diary.frames] == sent
