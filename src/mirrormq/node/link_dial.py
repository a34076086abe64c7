"""Dialling one peer, for as long as it is a member: a task of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from mirrormq.cluster.link import LinkError, Unreachable, deadlines
from mirrormq.cluster.link.deadlines import retry_pause
from mirrormq.node.link_connection import LinkConnection
from mirrormq.node.link_door import Report
from mirrormq.node.link_sockets import Address, LinkTls, connect


class PeerDialler:
    def __init__(
        self,
        name: str,
        address: Address,
        tls: LinkTls | None,
        prepare: Callable[[], LinkConnection],
        report: Report,
    ) -> None:
        self._name = name
        self._address = address
        self._tls = tls
        self._prepare = prepare
        self._report = report
        self._said = ""
        self._connection: LinkConnection | None = None
        self._loop = asyncio.get_running_loop()
        self._up: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[LinkError] = self._loop.create_future()
        self._moved = asyncio.Event()
        self._task = self._loop.create_task(self._run())

    def redirect(self, address: Address) -> None:
        """The peer is elsewhere: the next attempt goes there, at once. A link that is up stays."""
        if address != self._address:
            self._address = address
            self._moved.set()

    def succeeded(self, connection: LinkConnection) -> None:
        if connection is self._connection and not self._up.done():
            self._up.set_result(None)

    def failed(self, connection: LinkConnection, error: LinkError) -> None:
        if connection is self._connection and not self._over.done():
            self._over.set_result(error)

    def cancel(self) -> None:
        self._task.cancel()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while True:
            began = self._loop.time()
            error = await self._link()
            if self._up.done() and self._loop.time() - began >= deadlines.LASTED:
                failures = 0
                continue
            failures += 1
            self._say(error)
            await self._pause(retry_pause(failures, random.random()))  # noqa: S311 - spreads attempts, guards nothing

    async def _link(self) -> LinkError:
        """One attempt, to the end of the link if it succeeds."""
        connection = self._connection = self._prepare()
        self._up, self._over = self._loop.create_future(), self._loop.create_future()
        try:
            async with asyncio.timeout(deadlines.DIAL):
                await connect(connection, self._address, self._tls)
                either: list[asyncio.Future[Any]] = [self._up, self._over]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return await self._over
        except TimeoutError:
            return Unreachable(f"{self._address[0]}:{self._address[1]} did not answer within {deadlines.DIAL:g} s")
        except LinkError as error:
            return error
        finally:
            connection.close("the attempt was given up")

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            pass
        self._moved.clear()

    def _say(self, error: LinkError) -> None:
        """Each reason once, not with every attempt."""
        sentence = f"no link to {self._name}: {error}"
        if not self._up.done() and sentence != self._said:
            self._said = sentence
            self._report("warning", sentence)
        elif self._up.done():
            self._said = ""
