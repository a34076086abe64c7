"""Memory and disk alarms: when publishers must stop, and when they may go on.

`Alarms` decides and touches nothing: resident memory and free disk come in, sentences come out. `Pressure` feeds it on
the event loop and tells the node. Rules:

- Memory above its limit, or free disk below its limit, raises an alarm; the next sample on the right side clears it.
- The limits are RabbitMQ's: 0.4 of the memory that this process may have (its cgroup's, if that has less than the
  machine), and 50 MB of free disk.
- A sample that could not be taken changes nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirrormq.node import deadlines
from mirrormq.node.config import NodeConfig

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
