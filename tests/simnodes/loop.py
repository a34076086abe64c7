"""The event loop of one simulated process: asyncio's own, without sockets, over the world's time.

Handles run in asyncio's order. What the seed decides is when a turn begins, and so what has arrived by then.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simnodes.timing import Clock, Current

if TYPE_CHECKING:
    from simnodes.world import World

FOREVER = 1e18


class SimLoop(asyncio.BaseEventLoop):
    is_dead = False
    _in_turn = False

    def __init__(self, world: World, clock: Clock, host: str) -> None:
        super().__init__()
        self.world = world
        self.clock = clock
        self.host = host
        self.frozen_until = 0.0
        self.lag = 0.00005          # how long a turn takes
        self._due = FOREVER
        self._readers: dict[Any, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self.set_exception_handler(self._complain)

    # --- time ---------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.clock.monotonic()

    def _call_soon(self, callback: Any, args: Any, context: Any) -> asyncio.Handle:
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        if not self._in_turn and self._due > self.world.now + self.lag:
            self._arrange()
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, context=context)
        if not self._in_turn and self.clock.world_time(when) < self._due:
            self._arrange()
        return timer

    def _arrange(self) -> None:
        """See to it that the next turn comes in time."""
        world = self.world
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if self._ready:
            when = world.now + self.lag * (0.2 + world.rng.random())
        elif scheduled:
            when = max(self.clock.world_time(scheduled[0]._when), world.now)
        else:
            return
        when = max(when, self.frozen_until)
        if when < self._due:
            self._due = when
            world.at(when, self._turn_at, when)

    def _turn_at(self, when: float) -> None:
        if self.is_dead or when != self._due:
            return
        self._due = FOREVER
        if self.world.now < self.frozen_until:
            self._arrange_thawed()
            return
        self._turn()
        if not self.is_dead:
            self._arrange()

    def _arrange_thawed(self) -> None:
        self._due = self.frozen_until
        self.world.at(self._due, self._turn_at, self._due)

    def _turn(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        end = self.time() + 1e-6
        Current.clock = self.clock
        self._in_turn = True
        events._set_running_loop(self)
        try:
            while scheduled and scheduled[0]._when <= end:
                timer = heapq.heappop(scheduled)
                timer._scheduled = False
                if not timer._cancelled:
                    ready.append(timer)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                    if self.is_dead:
                        return
        finally:
            events._set_running_loop(None)
            self._in_turn = False
            Current.clock = None

    def rearrange(self) -> None:
        """The clock, or the time until which the process is frozen, has changed."""
        self._due = FOREVER
        self._arrange()

    def run_inside(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call something as if from this process, between two turns."""
        Current.clock = self.clock
        events._set_running_loop(self)
        try:
            return function(*args)
        finally:
            events._set_running_loop(None)
            Current.clock = None

    def __del__(self) -> None:
        pass

    def is_running(self) -> bool:
        return self._in_turn

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _complain(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.world.complain(self.host, context.get("message", ""), context.get("exception"))

    # --- beside the loop ---------------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        self.call_later(self.world.disk_delay(self.host), self._execute, future, func, args)
        return future

    def _execute(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if future.cancelled():
            return
        try:
            result = func(*args)
        except Exception as fault:  # noqa: BLE001 - whoever waits is to have it
            future.set_exception(fault)
        else:
            future.set_result(result)

    # --- sockets -----------------------------------------------------------------------------------------------------

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        self._readers[fd] = (callback, args)
        if fd.waiting:
            self.call_soon(callback, *args)

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    def readable(self, fd: Any) -> None:
        if fd in self._readers:
            callback, args = self._readers[fd]
            self.call_soon(callback, *args)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_options: Any) -> Any:  # type: ignore[override]
        return await self.world.network.connect(self, protocol_factory, host, port)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_options: Any) -> Any:  # type: ignore[override]
        return self.world.network.serve(self, protocol_factory, port)

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **_options: Any) -> Any:  # type: ignore[override]
        return sock.open(protocol_factory())
