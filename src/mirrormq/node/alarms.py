"""Memory and disk alarms: when publishers must stop, and when they may go on.

`Alarms` decides and touches nothing: resident memory and free disk come in, sentences come out. `AlarmWatch` feeds it
on the event loop and tells the node. Rules:

- Memory above its limit, or free disk below its limit, raises an alarm; the next sample on the right side clears it.
- The limits are RabbitMQ's: 0.4 of the memory that this process may have (its cgroup's, if that has less than the
  machine), and 50 MB of free disk.
- A sample that could not be taken changes nothing.
- A log that cannot be written is a disk alarm, whatever the disk says of its space.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple, Protocol

from mirrormq.node import deadlines, resources
from mirrormq.node.config import NodeConfig

log = logging.getLogger("mirrormq")

DEFAULT_DISK_LIMIT: Final = 50_000_000
FASTEST_FILL: Final = 250_000_000
"""Bytes a second that a disk may fill with: decides how soon to look again."""

MEMORY: Final = "memory"
DISK: Final = "disk"


class Limits(NamedTuple):
    memory: int
    disk: int


def limits_of(config: NodeConfig, total_memory: int) -> Limits:
    total = config.memory_total or total_memory
    wanted = int(total * config.memory_relative) if config.memory_absolute is None else config.memory_absolute
    if config.disk_absolute is not None:
        disk = config.disk_absolute
    elif config.disk_relative is not None:
        disk = int(total * config.disk_relative)
    else:
        disk = DEFAULT_DISK_LIMIT
    return Limits(min(wanted, total), disk)


class Alarms:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.memory_used: int | None = None
        self.disk_free: int | None = None
        self._raised: set[str] = set()

    @property
    def raised(self) -> frozenset[str]:
        return frozenset(self._raised)

    @property
    def blocked_reason(self) -> str:
        """What `connection.blocked` tells a publisher; empty while nothing is raised."""
        return "low on " + " & ".join(sorted(self._raised, reverse=True)) if self._raised else ""

    def set_limits(self, limits: Limits) -> list[str]:
        self.limits = limits
        return self.sample(memory=self.memory_used, disk=self.disk_free)

    def sample(self, *, memory: int | None, disk: int | None) -> list[str]:
        """Takes resident memory and free disk in bytes; returns a sentence for each alarm raised or cleared."""
        changes: list[str] = []
        if memory is not None:
            self.memory_used = memory
            above = memory > self.limits.memory
            changes += self._turn(MEMORY, f"{memory} bytes of memory used, limit {self.limits.memory}", on=above)
        if disk is not None:
            self.disk_free = disk
            below = disk < self.limits.disk
            changes += self._turn(DISK, f"{disk} bytes of disk free, limit {self.limits.disk}", on=below)
        return changes

    def _turn(self, name: str, facts: str, *, on: bool) -> list[str]:
        if on == (name in self._raised):
            return []
        if on:
            self._raised.add(name)
            return [f"{name} alarm raised, publishers are blocked: {facts}"]
        self._raised.discard(name)
        return [f"{name} alarm cleared: {facts}"]


def disk_interval(free: int, limit: int) -> float:
    """Seconds until the next look at the disk: the nearer its limit, the sooner; never later than it could fill."""
    until_limit = 2 * (free - limit) / FASTEST_FILL
    return max(deadlines.SAMPLE_DISK_FASTEST, min(deadlines.SAMPLE_DISK_SLOWEST, until_limit))


class Changed(Protocol):
    """Takes the alarms in force, by name with the words that publishers are told, and whether the disk is behind."""

    def __call__(self, alarms: dict[str, str], *, is_busy: bool) -> None: ...


class AlarmWatch:
    """Samples memory and disk from time to time, and calls `changed` when what publishers must know has changed."""

    def __init__(self, config: NodeConfig, changed: Changed) -> None:
        self.alarms = Alarms(limits_of(config, resources.total_memory()))
        self._folder = config.data_dir
        self._memory_interval = config.memory_monitor_interval_ms / 1000
        self._changed = changed
        self._fault: str | None = None
        self._is_busy = False
        self._told: tuple[dict[str, str], bool] = ({}, False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.look_at_memory()
        self.look_at_disk()

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def set_fault(self, sentence: str | None) -> None:
        """The log cannot be written, for this reason; None when it can again."""
        self._fault = sentence
        self._tell()

    def set_busy(self, is_busy: bool) -> None:  # noqa: FBT001 - the one word that it says is its name
        self._is_busy = is_busy
        self._tell()

    def look_at_memory(self) -> None:
        used = resources.resident_memory()
        if used > self.alarms.limits.memory:
            resources.release_memory()
            used = resources.resident_memory()
        self._say(self.alarms.sample(memory=used, disk=None))
        self._again(MEMORY, self._memory_interval)

    def look_at_disk(self) -> None:
        free = resources.free_disk(self._folder)
        self._say(self.alarms.sample(memory=None, disk=free))
        seconds = deadlines.SAMPLE_DISK_SLOWEST if free is None else disk_interval(free, self.alarms.limits.disk)
        self._again(DISK, seconds)

    def _again(self, what: str, seconds: float) -> None:
        if self._loop is not None:
            look = self.look_at_memory if what == MEMORY else self.look_at_disk
            self._timers[what] = self._loop.call_later(seconds, look)

    def _say(self, changes: list[str]) -> None:
        for sentence in changes:
            log.warning("%s", sentence)
        self._tell()

    def _tell(self) -> None:
        names = self.alarms.raised | ({DISK} if self._fault else set())
        state = ({name: f"low on {name}" for name in sorted(names)}, self._is_busy)
        if state != self._told:
            self._told = state
            self._changed(state[0], is_busy=state[1])
