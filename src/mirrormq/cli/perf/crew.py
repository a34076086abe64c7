"""Teams at work in this process or in others, behind one small port.

Other processes are forked before any event loop runs here; each serves one command at a time from a pipe. A process
that loses its pipe ends.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Coroutine
from multiprocessing.connection import Connection
from typing import Any, Protocol

from mirrormq.cli.perf.errors import BadOption, PerfError, error_of
from mirrormq.cli.perf.loop import run_loop
from mirrormq.cli.perf.measure import Snapshot
from mirrormq.cli.perf.settings import Settings
from mirrormq.cli.perf.team import Team
from mirrormq.cli.perf.verdict import Evidence


class Crew(Protocol):
    """A team, wherever it runs. Every method may raise the team's failure."""

    async def connect(self) -> None: ...

    async def start(self) -> None: ...

    async def snapshot(self) -> Snapshot: ...

    async def stop(self) -> None: ...

    async def evidence(self) -> Evidence: ...

    async def close(self) -> None: ...


class LocalCrew:
    """A team in this process."""

    def __init__(self, settings: Settings) -> None:
        self._team = Team(settings, range(settings.producers), range(settings.consumers))

    async def connect(self) -> None:
        await self._team.connect()

    async def start(self) -> None:
        await self._team.start()

    async def snapshot(self) -> Snapshot:
        if self._team.failure is not None:
            raise self._team.failure
        return self._team.snapshot()

    async def stop(self) -> None:
        await self._team.stop()

    async def evidence(self) -> Evidence:
        return self._team.evidence()

    async def close(self) -> None:
        await self._team.close()


class RemoteCrew:
    """A team in a forked process."""

    def __init__(self, settings: Settings, producers: range, consumers: range) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, settings, producers, consumers), daemon=True)
        self._process.start()
        theirs.close()

    async def connect(self) -> None:
        await self._ask("connect")

    async def start(self) -> None:
        await self._ask("start")

    async def snapshot(self) -> Snapshot:
        return Snapshot.unpacked(await self._ask("snapshot"))

    async def stop(self) -> None:
        await self._ask("stop")

    async def evidence(self) -> Evidence:
        return Evidence(**await self._ask("evidence"))

    async def close(self) -> None:
        await self._ask("close")
        self._pipe.close()

    async def _ask(self, command: str) -> Any:
        return await asyncio.to_thread(self._exchange, command)

    def _exchange(self, command: str) -> Any:
        try:
            self._pipe.send(command)
            exit_code, answer = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise PerfError("a load process ended unexpectedly") from error
        if exit_code:
            raise error_of(exit_code, answer)
        return answer


def crews_for(settings: Settings) -> list[Crew]:
    """One crew in this process, or as many forked ones as the settings ask for; call it before the loop runs."""
    if settings.processes == 1:
        return [LocalCrew(settings)]
    if "fork" not in multiprocessing.get_all_start_methods():
        raise BadOption("--processes needs fork, which this system does not have")
    return [RemoteCrew(settings, *share) for share in shares(settings)]


def shares(settings: Settings) -> list[tuple[range, range]]:
    """Producers and consumers for each process; dealt from opposite ends, so that two processes part the two roles."""
    step = settings.processes
    producers = [range(share, settings.producers, step) for share in range(step)]
    consumers = [range(share, settings.consumers, step) for share in range(step)]
    return list(zip(producers, reversed(consumers), strict=True))


def _serve(pipe: Connection, settings: Settings, producers: range, consumers: range) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_loop(_obey(pipe, settings, producers, consumers))


async def _obey(pipe: Connection, settings: Settings, producers: range, consumers: range) -> None:
    team = Team(settings, producers, consumers)
    command = ""
    while command != "close":
        try:
            command = await asyncio.to_thread(pipe.recv)
        except EOFError:
            return
        pipe.send(await _answer(team, command))


async def _answer(team: Team, command: str) -> tuple[int, Any]:
    try:
        if team.failure is not None and command != "close":
            raise team.failure
        return 0, await _perform(team, command)
    except PerfError as error:
        return error.exit_code, str(error)


async def _perform(team: Team, command: str) -> Any:
    if command == "snapshot":
        return team.snapshot().packed()
    if command == "evidence":
        return team.evidence().__dict__
    jobs: dict[str, Any] = {"connect": team.connect, "start": team.start, "stop": team.stop, "close": team.close}
    job: Coroutine[Any, Any, None] = jobs[command]()
    return await job
