"""A whole cluster in one process, over simulated time. One seed makes one schedule: the same every time."""

from __future__ import annotations

import heapq
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirrormq.cluster.coordination import Item
from simnodes.loop import SimLoop
from simnodes.network import CLIENTS, Network
from simnodes.node import SimNode
from simnodes.store import Server
from simnodes.timing import Clock, Current, seed_chance

MEMORY = Path("/dev/shm")


class Violation(Exception):
    """What must never happen has happened; the sentence says what."""


class World:
    def __init__(self, seed: int, directory: Path, *, is_tracing: bool = False) -> None:
        self.seed = seed
        self.now = 0.0
        self.rng = random.Random(seed)
        seed_chance(seed)
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.count = 0
        self.trace: list[str] = []
        self.is_tracing = is_tracing
        self.violations: list[str] = []
        self.graveyard: list[Any] = []          # nothing of a process that is gone is collected, for that would run its code
        self.directory = directory
        self.network = Network(self)
        self.server = Server(self)
        self.nodes: list[SimNode] = []          # those that belong to the cluster, or are on their way in or out
        self.machines: dict[str, SimNode] = {}  # all that there ever were, by the name of their node
        self.asking: dict[Any, None] = {}       # connections whose client waits for something
        self.slow_disks: dict[str, float] = {}
        self.clients_loop = SimLoop(self, Clock(lambda: self.now), CLIENTS)
        self.store_listeners: list[Callable[[dict[str, Item | None]], None]] = []
        self._listen_to_logs()

    # --- the schedule ------------------------------------------------------------------------------------------------

    def at(self, when: float, function: Callable[..., None], *arguments: Any) -> None:
        self.count += 1
        heapq.heappush(self.events, (when, self.count, function, arguments))

    def later(self, delay: float, function: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay, function, *arguments)

    def run_until(self, when: float) -> None:
        events = self.events
        while events and events[0][0] <= when and not self.violations:
            self.now, _, function, arguments = heapq.heappop(events)
            function(*arguments)
        self.now = max(self.now, when)

    def run_while(self, condition: Callable[[], bool], most: float) -> bool:
        """Until the condition no longer holds; False if it still does after so many seconds."""
        end = self.now + most
        while condition():
            if self.now >= end or self.violations:
                return False
            self.run_until(min(end, self.now + 0.05))
        return True

    # --- what happens ------------------------------------------------------------------------------------------------

    def note(self, who: str, what: str) -> None:
        if self.is_tracing:
            self.trace.append(f"{self.now:10.5f} {who:8} {what}")

    def violate(self, sentence: str) -> None:
        self.note("CHECK", sentence)
        self.violations.append(sentence)

    def complain(self, host: str, message: str, fault: BaseException | None) -> None:
        self.violate(f"(fault) on {host}: {message}: {fault!r}")

    def _listen_to_logs(self) -> None:
        logger = logging.getLogger("mirrormq")
        logger.handlers[:] = [_Ear(self)]
        logger.propagate = False
        logger.setLevel(logging.INFO if self.is_tracing else logging.ERROR)

    def store_changed(self, changes: dict[str, Item | None]) -> None:
        for listener in self.store_listeners:
            listener(changes)

    def disk_delay(self, host: str) -> float:
        slow = self.slow_disks.get(host, 0.0)
        return 0.0003 * (0.5 + self.rng.random()) + slow * self.rng.random() + (0.02 if self.rng.random() < 0.01 else 0.0)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def add_node(self) -> SimNode:
        host = f"n{len(self.machines) + 1}"
        root = self.directory / host
        root.mkdir(parents=True)
        node = SimNode(self, host, root)
        node.clock.rate = 1 + (self.rng.random() - 0.5) * 1e-3
        node.clock.start = self.rng.random() * 1e5
        node.clock.step = self.rng.choice([0.0, self.rng.random() * 4 - 2])
        self.nodes.append(node)
        self.machines[node.name] = node
        return node

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class _Ear(logging.Handler):
    """The log of whichever node speaks. A fault that the program calls its own is a violation by itself."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        clock = Current.clock
        who = next((node.host for node in world.machines.values() if node.clock is clock), "?")
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            fault = record.exc_info[1]
            frame = fault.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            where = "" if frame is None else f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
            world.violate(f"(fault) on {who}: {text}: {fault!r}{where}")
            if world.is_tracing:
                import traceback
                world.trace.append("".join(traceback.format_exception(fault)))
        else:
            world.note(who, f"{record.levelname}: {text}")
