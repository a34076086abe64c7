"""A watch of etcd: a task that reads the stream of one member after another, each from the revision after the last one seen.

etcd sends the changes of one revision in one piece, so a break falls between transactions. After a compaction the prefix is read
as a whole. When nobody takes what arrives, the stream is not read further, and TCP holds it back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from mirrormq.cluster.coordination import deadlines
from mirrormq.cluster.coordination.errors import Closed, CoordinationError, Refused, StoreDamaged
from mirrormq.cluster.coordination.port import Change, Changes, Reset, Snapshot, Watch

from .codec import Codec, Json, number, revision_of
from .endpoints import StaleMember
from .faults import PERMISSION_DENIED, EtcdFault
from .http import Lost, NotSent
from .transport import Transport

log = logging.getLogger(__name__)

LARGEST: Final = 200
"""Answers of etcd that may be pending."""


class Compacted(Exception):
    """etcd no longer has the changes that are asked for."""


class EtcdWatch(Watch):
    def __init__(
        self,
        prefix: str,
        after: int,
        transport: Transport,
        codec: Codec,
        read: Callable[[str], Awaitable[Snapshot]],
        forget: Callable[[EtcdWatch], None],
    ) -> None:
        self._prefix = prefix
        self._seen = after
        self._transport = transport
        self._codec = codec
        self._read = read
        self._forget = forget
        self._pending: deque[Changes | Reset] = deque()
        self._fault: CoordinationError | None = None
        self._is_closed = False
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._denials = 0
        self._silent = ""           # the member that told nothing while others had news
        self._task = asyncio.create_task(self._run(), name=f"coordination-watch {prefix}")

    async def __anext__(self) -> Changes | Reset:
        while not self._is_closed:
            if self._pending:
                return self._hand_out()
            if self._fault is not None:
                raise self._fault
            self._wake.clear()
            await self._wake.wait()
        raise StopAsyncIteration

    def _hand_out(self) -> Changes | Reset:
        """A reset alone, or all changes up to the next one."""
        first = self._pending.popleft()
        self._room.set()
        if isinstance(first, Reset):
            return first
        changes: list[Change] = list(first.changes)
        revision = first.revision
        while self._pending and isinstance(following := self._pending[0], Changes):
            changes += following.changes
            revision = following.revision
            self._pending.popleft()
        return Changes(revision, tuple(changes))

    async def aclose(self) -> None:
        self._is_closed = True
        self._wake.set()
        self._task.cancel()
        await asyncio.wait([self._task])
        self._forget(self)

    async def _run(self) -> None:
        while not self._is_closed:
            try:
                await self._follow()
            except (Refused, StoreDamaged) as fault:
                self._fault = fault
            except Closed:
                self._is_closed = True
            except (Lost, NotSent, StaleMember, EtcdFault, CoordinationError) as fault:
                log.debug("The watch of %r goes on elsewhere: %s", self._prefix, fault)
                await self._pause()
            except Exception:  # a watch that ended in silence would leave its node in the past
                log.exception("The watch of %r goes on after a fault of its own", self._prefix)
                await self._pause()
            if self._fault is not None or self._is_closed:
                self._wake.set()
                return

    async def _pause(self) -> None:
        await asyncio.sleep(deadlines.AGAIN if self._transport.reachability.is_reachable else deadlines.RETRY)

    async def _follow(self) -> None:
        """Read one stream to its end."""
        member = self._transport.member(self._silent)
        self._silent = ""
        try:
            async with self._transport.stream(member, "watch", self._codec.watch(self._prefix, self._seen)) as answers:
                await self._take_all(answers)
            self._silent = member
        except Compacted:
            snapshot = await self._read(self._prefix)
            self._append(snapshot.revision, Reset(snapshot))
        except EtcdFault as fault:
            self._judge(fault)
            raise

    async def _take_all(self, answers: AsyncIterator[Json]) -> None:
        while answer := await self._next(answers):
            self._take(answer)
            while len(self._pending) > LARGEST:
                self._room.clear()
                await self._room.wait()

    async def _next(self, answers: AsyncIterator[Json]) -> Json:
        """The next answer; nothing where none came although the store moved on, perhaps below other prefixes only."""
        waiting = asyncio.ensure_future(anext(answers))
        try:
            while not (await asyncio.wait([waiting], timeout=deadlines.QUIET))[0]:
                if self._transport.guard.revision > self._seen:
                    log.debug("The watch of %r is silent at %d and goes on elsewhere", self._prefix, self._seen)
                    return {}
            return waiting.result()
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])

    def _take(self, answer: Json) -> None:
        if number(answer, "compact_revision"):
            raise Compacted
        if answer.get("canceled", False):
            reason = str(answer.get("cancel_reason", "it canceled the watch"))
            raise EtcdFault({"code": PERMISSION_DENIED if "permission denied" in reason else 14, "message": reason})
        self._denials = 0
        if events := answer.get("events"):
            revision = number(events[-1]["kv"], "mod_revision")
            self._append(revision, self._codec.changes(revision, events))
        elif not answer.get("created", False):
            self._seen = max(self._seen, revision_of(answer))  # a sign of progress: everything up to here was sent

    def _append(self, revision: int, news: Changes | Reset) -> None:
        self._seen = revision
        self._pending.append(news)
        self._wake.set()

    def _judge(self, fault: EtcdFault) -> None:
        """For a watch, an expired login looks like a missing permission: only the second denial, with a new login, is one."""
        if isinstance(refusal := fault.translate(), Refused):
            self._denials += 1
            self._transport.forget_login()
            if self._denials > 1:
                raise refusal
