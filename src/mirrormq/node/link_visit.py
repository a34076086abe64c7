"""Visits: one JSON request and one JSON answer between nodes that know the same secret, members or not.

Rules:

- A visit has a connection of its own, authenticated as all are, and does not count as a link.
- A request that was taken is carried out, even if the visitor is gone before the answer: half a command is worse than one that
  nobody waits for.
- A failure is answered with a sentence. What it was inside stays in this node's log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mirrormq.cluster.link import WORK, Frame, Introduction, LinkError, VisitFailed, deadlines
from mirrormq.node.link_connection import LinkConnection
from mirrormq.node.link_door import Report

REQUEST: Final = 1
ANSWER: Final = 2
FAILURE: Final = 3
AT_ONCE: Final = 64
"""So many visits are served at a time; one more gets a sentence."""

Request = dict[str, Any]
Serve = Callable[[Request], Awaitable[Request]]


class Caller:
    """The visitor's side."""

    def __init__(self, request: Request) -> None:
        self._request = json.dumps(request).encode()
        self.answer: asyncio.Future[Request | LinkError] = asyncio.get_running_loop().create_future()

    def introduced(self, connection: LinkConnection, peer: Introduction) -> str:
        raise AssertionError("who dials is not introduced to")

    def established(self, connection: LinkConnection) -> None:
        assert connection.session is not None
        connection.session.send(WORK, REQUEST, self._request)

    def frames(self, connection: LinkConnection, frames: list[Frame]) -> None:
        self._settle(_read_answer(frames[0]))

    def drained(self, connection: LinkConnection, lane: int) -> None: ...

    def ended(self, connection: LinkConnection, error: LinkError) -> None:
        self._settle(error)

    def _settle(self, result: Request | LinkError) -> None:
        if not self.answer.done():
            self.answer.set_result(result)


def _read_answer(frame: Frame) -> Request | LinkError:
    if frame.kind == FAILURE:
        return VisitFailed(frame.payload.decode(errors="replace"))
    found = _read_object(frame.payload)
    return found if found is not None else VisitFailed("the answer is not a JSON object")


def _read_object(raw: bytes) -> Request | None:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class Reception:
    """The side that is visited, for all its visitors."""

    def __init__(self, serve: Serve, report: Report) -> None:
        self._serve = serve
        self._report = report
        self.visitors: set[LinkConnection] = set()
        self._deadlines: dict[LinkConnection, asyncio.TimerHandle] = {}
        self._tasks: dict[LinkConnection, asyncio.Task[None]] = {}

    def introduced(self, connection: LinkConnection, peer: Introduction) -> str:
        raise AssertionError("a visitor comes here after its introduction")

    def established(self, connection: LinkConnection) -> None:
        self.visitors.add(connection)
        self._expect(connection)

    def frames(self, connection: LinkConnection, frames: list[Frame]) -> None:
        if connection in self._tasks:
            connection.fail(LinkError("a visitor asked twice"))
            return
        self._relax(connection)
        if len(self._tasks) >= AT_ONCE:
            self._answer(connection, FAILURE, b"too many other nodes are asking; try again")
            return
        task = asyncio.get_running_loop().create_task(self._attend(connection, frames[0]))
        self._tasks[connection] = task
        task.add_done_callback(lambda _: self._tasks.pop(connection, None))

    def drained(self, connection: LinkConnection, lane: int) -> None: ...

    def ended(self, connection: LinkConnection, error: LinkError) -> None:
        self.visitors.discard(connection)
        self._relax(connection)

    async def stop(self, sentence: str) -> None:
        for connection in list(self.visitors):
            connection.close(sentence)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _attend(self, connection: LinkConnection, frame: Frame) -> None:
        request = _read_object(frame.payload) if frame.kind == REQUEST else None
        if request is None:
            self._answer(connection, FAILURE, b"the request is not a JSON object")
            return
        try:
            answer = json.dumps(await self._serve(request)).encode()
        except LinkError as error:
            self._answer(connection, FAILURE, str(error).encode(errors="replace"))
        except Exception as error:  # noqa: BLE001 - whatever a command does, its visitor gets an answer
            self._report("error", f"a request of another node failed: {type(error).__name__}: {error}")
            self._answer(connection, FAILURE, b"the request failed inside; the log of the node says why")
        else:
            self._answer(connection, ANSWER, answer)

    def _answer(self, connection: LinkConnection, kind: int, payload: bytes) -> None:
        if connection.is_over:
            return
        assert connection.session is not None
        connection.session.send(WORK, kind, payload)
        connection.touch()
        self._expect(connection)

    def _expect(self, connection: LinkConnection) -> None:
        """The visitor's turn: to ask, or to take its answer and go."""
        loop = asyncio.get_running_loop()
        error = LinkError("a visitor took too long")
        self._deadlines[connection] = loop.call_later(deadlines.VISIT_REQUEST, connection.fail, error)

    def _relax(self, connection: LinkConnection) -> None:
        handle = self._deadlines.pop(connection, None)
        if handle is not None:
            handle.cancel()
