"""A line between two programs that can fail: it forwards TCP, and breaks, holds or delays what it forwards when told.

    async with FaultProxy(("127.0.0.1", port)) as line:
        line.address        # dial this instead of the target
        line.blackhole()    # as a lost network: connections stay, nothing arrives; new ones are accepted and get no answer
        line.hold(UP)       # one way only: UP is towards the target, DOWN is back
        line.delay(0.05)    # each byte arrives so much later
        line.cut()          # connections break, new ones break at once
        line.heal()         # everything that was held arrives, in order
        line.reset()        # the connections of now break, new ones work

Nothing is ever lost inside a connection that lives on, as TCP promises. `ThreadedFaultProxy` is the same for tests without a
loop: it runs in a thread of its own, and its methods return when they have taken effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

UP = "up"
DOWN = "down"
CHUNK = 64 * 1024
CHUNKS = 64  # so much waits here; the rest waits in the kernels, as on a real line


class _Flow:
    """One direction of one connection."""

    def __init__(self, line: FaultProxy, direction: str, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        self._line = line
        self._direction = direction
        self._source = source
        self._target = target
        self._chunks: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue(CHUNKS)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read())
            tasks.create_task(self._write())

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            data = await self._next()
            await self._chunks.put((loop.time() + self._line.latency, data))
            if not data:
                return

    async def _next(self) -> bytes | None:
        """None: the source broke. That too is news which a held line does not carry."""
        try:
            return await self._source.read(CHUNK)
        except OSError:
            return None

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._chunks.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self._line.gates[self._direction].wait()
            if data is None:
                raise ConnectionResetError
            if not data:
                self._target.write_eof()
                return
            self._target.write(data)
            self._line.carried[self._direction] += len(data)
            await self._target.drain()


class FaultProxy:
    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.latency = 0.0
        self.gates = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self.carried = {UP: 0, DOWN: 0}
        self.accepted = 0
        self._is_cut = False
        self._listener: socket.socket | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter | None] = {}
        self.heal()

    @property
    def address(self) -> tuple[str, int]:
        assert self._listener is not None
        host, port = self._listener.getsockname()
        return host, port

    async def start(self, port: int = 0) -> None:
        """Accepting is done here, not by asyncio's server: what that has accepted when it is closed, nobody ever closes."""
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def stop(self) -> None:
        self.deafen()
        tasks = list(self._connections)
        self.reset()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    def deafen(self) -> None:
        """Who dials is refused, as where no process listens; what is open stays. `start` with the same port ends it."""
        assert self._listener is not None
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()

    def hold(self, *directions: str) -> None:
        for direction in directions:
            self.gates[direction].clear()

    def blackhole(self) -> None:
        self.hold(UP, DOWN)

    def delay(self, seconds: float) -> None:
        self.latency = seconds

    def cut(self) -> None:
        self._is_cut = True
        self.reset()

    def reset(self) -> None:
        for task, writer in self._connections.items():
            if writer is not None:
                writer.transport.abort()
            task.cancel()

    def heal(self) -> None:
        self._is_cut = False
        self.latency = 0.0
        for gate in self.gates.values():
            gate.set()

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            client, _ = self._listener.accept()
        except OSError:             # who dialled has gone
            return
        self.accepted += 1
        if self._is_cut:
            client.close()
            return
        client.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._connections[task] = None
        task.add_done_callback(partial(self._ended, client))

    def _ended(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        if self._connections.pop(task) is None:     # it was reset before it began
            client.close()

    async def _serve(self, client: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        reader, writer = await asyncio.open_connection(sock=client)
        self._connections[task] = writer
        try:
            await self._forward(reader, writer)
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self.target)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_Flow(self, UP, reader, back).run())
                tasks.create_task(_Flow(self, DOWN, there, writer).run())
            back.close()
            writer.close()
            await asyncio.gather(back.wait_closed(), writer.wait_closed())
        except BaseException:
            back.transport.abort()
            raise


class ThreadedFaultProxy:
    """A FaultProxy with a loop and a thread of its own."""

    def __init__(self, target: tuple[str, int], port: int = 0) -> None:
        self.address = ("", port)
        self._target = target
        self._is_deaf = False
        self._loop = asyncio.new_event_loop()
        self._proxy: FaultProxy | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._proxy is not None
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._proxy.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._proxy = FaultProxy(self._target)
        await self._proxy.start(self.address[1])
        self.address = self._proxy.address

    def _do(self, action: Callable[[FaultProxy], None]) -> None:
        async def act() -> None:
            assert self._proxy is not None
            action(self._proxy)

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(10)

    def carried(self) -> int:
        """Octets that have passed so far, both ways."""
        assert self._proxy is not None
        return sum(self._proxy.carried.values())

    def deafen(self) -> None:
        self._is_deaf = True
        self._do(FaultProxy.deafen)

    def listen(self) -> None:
        """Again, if it was made deaf."""
        if self._is_deaf:
            self._is_deaf = False
            assert self._proxy is not None
            asyncio.run_coroutine_threadsafe(self._proxy.start(self.address[1]), self._loop).result(10)

    def cut(self) -> None:
        self._do(FaultProxy.cut)

    def reset(self) -> None:
        self._do(FaultProxy.reset)

    def heal(self) -> None:
        self._do(FaultProxy.heal)

    def blackhole(self) -> None:
        self._do(FaultProxy.blackhole)

    def hold(self, *directions: str) -> None:
        self._do(lambda proxy: proxy.hold(*directions))

    def delay(self, seconds: float) -> None:
        self._do(lambda proxy: proxy.delay(seconds))
