"""Sockets in memory: bytes that take their time, arrive in portions, stand still where a line is cut, and outlive who sent them.

A line that is cut in one direction keeps what is sent until it is healed, as TCP does. A process that is killed leaves its last
bytes under way, and then an end of file or a reset. A machine that is lost says nothing.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simnodes.loop import SimLoop
    from simnodes.world import World

KERNEL = 64 << 10           # bytes that leave the writer without its noticing
CLIENTS = "clients"


class SimSocket:
    """What code may ask of a socket."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def setsockopt(self, *_arguments: Any) -> None:
        return

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def fileno(self) -> int:
        return -1


class Accepted(SimSocket):
    """A connection in the queue of a listener."""

    def __init__(self, end: End) -> None:
        super().__init__(end.here)
        self.end = end

    def open(self, protocol: Any) -> tuple[End, Any]:
        self.end.attach(protocol)
        return self.end, protocol

    def settimeout(self, _seconds: float) -> None:
        return

    def close(self) -> None:
        self.end.abort()


class Listener(SimSocket):
    def __init__(self, network: Network, loop: SimLoop, port: int) -> None:
        super().__init__((loop.host, port))
        self.network = network
        self.loop = loop
        self.port = port
        self.waiting: deque[End] = deque()
        self.factory: Any = None
        self.sockets = [self]
        self.is_closed = False

    def accept(self) -> tuple[Accepted, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError
        end = self.waiting.popleft()
        return Accepted(end), end.there

    def arrived(self, end: End) -> None:
        if self.loop.is_dead:
            return              # nobody accepts it any more
        if self.factory is None:
            self.waiting.append(end)
            self.loop.readable(self)
        else:
            self.loop.call_soon(self._take, end)

    def _take(self, end: End) -> None:
        if self.is_closed:
            end.abort()
        else:
            end.attach(self.factory())

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if self.network.listeners.get((self.loop.host, self.port)) is self:
                del self.network.listeners[self.loop.host, self.port]
            while self.waiting and not self.loop.is_dead:
                self.waiting.popleft().abort()


class End(asyncio.Transport):
    """One end of a connection, as its process and its kernel see it."""

    def __init__(self, network: Network, loop: SimLoop, here: tuple[str, int], there: tuple[str, int]) -> None:
        super().__init__()
        self.network = network
        self.loop = loop
        self.here = here
        self.there = there
        self.peer: End
        self.protocol: Any = None
        self.received: deque[tuple[str, bytes]] = deque()
        self.is_read = False            # a read is under way
        self.is_paused = False
        self.is_choked = False
        self.closing = False
        self.is_gone = False            # the kernel knows it no more
        self.is_lost = False            # its protocol has heard of its end
        self.outstanding = 0
        self.high, self.low = KERNEL, KERNEL // 4
        self.stalled: list[tuple[str, bytes]] = []
        self.last_at = 0.0
        self.is_clear = False           # `closing`, and all has been read by the other side

    def attach(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.connection_made(self)
        if self.is_gone:        # it was reset before anybody looked
            self.loop.call_soon(self._lose, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        else:
            self._read_soon()

    # --- for the process ---------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.there, "sockname": self.here, "socket": SimSocket(self.here)}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = KERNEL if high is None else high
        self.low = self.high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return max(0, self.outstanding - KERNEL)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self.low, self.high

    def is_closing(self) -> bool:
        return self.closing

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_reading(self) -> bool:
        return not self.is_paused

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        self._read_soon()

    def write(self, data: Any) -> None:
        if self.closing or not data:
            return
        data = bytes(data)
        self.outstanding += len(data)
        self.network.send(self, ("data", data))
        if not self.is_choked and self.get_write_buffer_size() > self.high:
            self.is_choked = True
            self.protocol.pause_writing()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if self.closing:
            return
        self.closing = True
        if self.get_write_buffer_size() == 0:
            self._finish()

    def _finish(self) -> None:
        """Everything that was written is in the kernel."""
        if self.is_gone:
            return
        self.is_gone = True
        unread = any(kind == "data" for kind, _ in self.received)
        self.network.send(self, ("reset", b"") if unread else ("end", b""))
        self.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self.closing = True
        if not self.is_gone:
            self.is_gone = True
            self.network.send(self, ("reset", b""))
            self.loop.call_soon(self._lose, None)

    def _lose(self, fault: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = self.closing = self.is_gone = True
            if self.protocol is not None:
                self.protocol.connection_lost(fault)

    # --- for the kernel ----------------------------------------------------------------------------------------------

    def arrive(self, item: tuple[str, bytes]) -> None:
        kind = item[0]
        if self.loop.is_dead or self.is_gone:
            if kind == "data" and not self.network.is_silent(self.here[0]):
                self.network.send(self, ("reset", b""))
            return
        if kind == "reset":
            self.received.clear()
            self.is_gone = True
            if self.protocol is not None:
                self.loop.call_soon(self._lose, ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            return
        self.received.append(item)
        self._read_soon()

    def _read_soon(self) -> None:
        if self.received and not self.is_read and not self.is_paused and self.protocol is not None:
            self.is_read = True
            self.loop.call_soon(self._read)

    def _read(self) -> None:
        self.is_read = False
        if self.is_paused or self.closing or not self.received:
            return
        kind, data = self.received.popleft()
        if kind == "end":
            if not self.protocol.eof_received():
                self.close()
            return
        while self.received and self.received[0][0] == "data":
            data += self.received.popleft()[1]
        rng = self.network.world.rng
        if len(data) > 1 and rng.random() < 0.15:
            at = rng.randrange(1, len(data))
            self.received.appendleft(("data", data[at:]))
            data = data[:at]
        self.network.world.later(0.0001, self.peer.left, len(data))
        self.protocol.data_received(data)
        self._read_soon()

    def left(self, size: int) -> None:
        """So much has been read by the other side."""
        self.outstanding -= size
        if self.loop.is_dead or self.is_lost:
            return
        if self.closing and not self.is_gone and self.get_write_buffer_size() == 0:
            self._finish()
        elif self.is_choked and self.get_write_buffer_size() <= self.low:
            self.is_choked = False
            self.loop.call_soon(self._resume)

    def _resume(self) -> None:
        if not self.closing:
            self.protocol.resume_writing()


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.cut: set[tuple[str, str]] = set()
        self.silent: dict[str, None] = {}           # machines without power
        self.slow: dict[tuple[str, str], float] = {}
        self.ends: list[End] = []
        self._ports = 40_000

    def is_silent(self, host: str) -> bool:
        return host in self.silent

    def delay(self, source: str, target: str) -> float:
        rng = self.world.rng
        base = 0.00005 if source == target else 0.0002
        delay = base * (0.5 + rng.random())
        if rng.random() < 0.02:
            delay += rng.random() * 0.02
        return delay + self.slow.get((source, target), 0.0) * rng.random()

    # --- bytes -------------------------------------------------------------------------------------------------------

    def send(self, end: End, item: tuple[str, bytes]) -> None:
        lane = (end.here[0], end.there[0])
        if self.is_silent(lane[0]):
            return
        if lane in self.cut or end.stalled:
            end.stalled.append(item)
            return
        now = self.world.now
        end.last_at = max(end.last_at, now + self.delay(*lane))
        self.world.at(end.last_at, self._arrive, end, item)

    def _arrive(self, end: End, item: tuple[str, bytes]) -> None:
        lane = (end.here[0], end.there[0])
        if end.stalled or lane in self.cut:
            end.stalled.append(item)
        elif not self.is_silent(lane[1]):
            end.peer.arrive(item)

    def cut_lane(self, source: str, target: str) -> None:
        self.cut.add((source, target))

    def heal_lane(self, source: str, target: str) -> None:
        if (source, target) not in self.cut:
            return
        self.cut.discard((source, target))
        for end in self.ends:
            if end.stalled and (end.here[0], end.there[0]) == (source, target):
                stalled, end.stalled = end.stalled, []
                for item in stalled:
                    self.send(end, item)
        self.ends = [end for end in self.ends if not (end.is_gone and end.peer.is_gone and not end.stalled)]

    def break_connections(self, one: str, other: str) -> None:
        """Something between has forgotten all connections of two machines."""
        for end in list(self.ends):
            if {end.here[0], end.there[0]} == {one, other} and not end.is_gone and not end.loop.is_dead:
                end.arrive(("reset", b""))

    def process_ended(self, loop: SimLoop) -> None:
        """The kernel closes what a process had open, one thing after another: a listener may outlive connections for a while."""
        lingers = self.world.rng.random() < 0.2
        for listener in list(self.listeners.values()):
            if listener.loop is loop and lingers:
                self.world.later(self.world.rng.random() * 0.02, self._close_late, listener)
            elif listener.loop is loop:
                listener.close()
        for end in self.ends:
            if end.loop is loop and not end.is_gone:
                end.is_gone = end.is_lost = end.closing = True
                self.send(end, ("reset", b"") if end.received else ("end", b""))

    def _close_late(self, listener: Listener) -> None:
        if self.listeners.get((listener.loop.host, listener.port)) is listener:
            listener.close()
        for end in self.ends:
            if end.loop is listener.loop and not end.is_gone:
                end.is_gone = end.is_lost = end.closing = True
                self.send(end, ("reset", b""))

    def machine_lost(self, host: str) -> None:
        self.silent[host] = None
        for end in self.ends:
            if end.here[0] == host:
                end.is_gone = end.is_lost = end.closing = True
                end.stalled = []
            elif end.there[0] == host and end.here[0] == CLIENTS:
                self.world.later(1 + 3 * self.world.rng.random(), end.arrive, ("reset", b""))

    def machine_back(self, host: str) -> None:
        self.silent.pop(host, None)

    # --- connections --------------------------------------------------------------------------------------------------

    def listen(self, loop: SimLoop, port: int) -> Listener:
        found = self.listeners.get((loop.host, port))
        if found is not None and not found.loop.is_dead:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        listener = self.listeners[loop.host, port] = Listener(self, loop, port)
        return listener

    def serve(self, loop: SimLoop, factory: Any, port: int) -> Listener:
        listener = self.listen(loop, port)
        listener.factory = factory
        return listener

    async def connect(self, loop: SimLoop, factory: Any, host: str, port: int) -> tuple[End, Any]:
        future: asyncio.Future[End] = loop.create_future()
        self._ports += 1
        self._knock(loop, future, (loop.host, self._ports), (host, port))
        end = await future
        protocol = factory()
        end.attach(protocol)
        return end, protocol

    def _knock(self, loop: SimLoop, future: asyncio.Future[End], here: tuple[str, int], there: tuple[str, int]) -> None:
        if loop.is_dead or future.done():
            return
        source, target = here[0], there[0]
        if (source, target) in self.cut or (target, source) in self.cut or self.is_silent(target):
            self.world.later(1.0, self._knock, loop, future, here, there)
            return
        self.world.later(self.delay(source, target), self._knocked, loop, future, here, there)

    def _knocked(self, loop: SimLoop, future: asyncio.Future[End], here: tuple[str, int], there: tuple[str, int]) -> None:
        listener = self.listeners.get(there)
        back = self.delay(there[0], here[0])
        if loop.is_dead or future.done():
            return
        if self.is_silent(there[0]):
            self.world.later(1.0, self._knock, loop, future, here, there)
        elif listener is None:
            self.world.later(back, self._refused, loop, future)
        else:
            ours = End(self, loop, here, there)
            theirs = End(self, listener.loop, there, here)
            ours.peer, theirs.peer = theirs, ours
            self.ends += (ours, theirs)
            if len(self.ends) > 400:
                self.ends = [end for end in self.ends if not (end.is_gone and end.peer.is_gone and not end.stalled)]
            listener.arrived(theirs)
            self.world.later(back, self._connected, loop, future, ours)

    def _refused(self, loop: SimLoop, future: asyncio.Future[End]) -> None:
        if not loop.is_dead and not future.done():
            future.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))

    def _connected(self, loop: SimLoop, future: asyncio.Future[End], end: End) -> None:
        if loop.is_dead:
            return
        if future.done():
            end.abort()
        else:
            future.set_result(end)
