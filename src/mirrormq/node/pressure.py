"""When publishers must wait: memory and disk alarms, a log that cannot be written, a disk that is behind.

Rules:

- Memory that Python has freed and the C library kept is given back before an alarm is raised for it.
- A log that cannot be written is a disk alarm, whatever the disk says of its space.
- The node is told when something has changed, and only then.
"""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mirrormq.node import deadlines
from mirrormq.node.alarms import DISK, Alarms, disk_interval, limits_of
from mirrormq.node.config import NodeConfig
from mirrormq.node.resources import free_disk, release_memory, resident_memory, total_memory


class Changed(Protocol):
    """Takes the alarms in force, by name with the words that publishers are told, and whether the disk is behind."""

    def __call__(self, alarms: dict[str, str], *, is_busy: bool) -> None: ...


class Pressure:
    def __init__(self, config: NodeConfig, changed: Changed,
                 report: Callable[[str, str], None]) -> None:
        self._config = config
        self._changed = changed
        self._report = report
        self.alarms = Alarms(limits_of(config, total_memory()))
        self._fault: str | None = None
        self._is_busy = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._look()

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def _look(self) -> None:
        """Take a sample, and another one soon: the sooner the nearer the disk is to its limit."""
        assert self._loop is not None
        self.sample()
        free = self.alarms.disk_free
        soon = deadlines.SAMPLE_DISK_SLOWEST if free is None else disk_interval(free, self.alarms.limits.disk)
        self._next = self._loop.call_later(min(soon, self._config.memory_monitor_interval_ms / 1000), self._look)

    def sample(self) -> None:
        used = resident_memory()
        if used > self.alarms.limits.memory:
            release_memory()
            used = resident_memory()
        sentences = self.alarms.sample(memory=used, disk=free_disk(self._config.data_dir))
        for sentence in sentences:
            self._report("warning", sentence)
        if sentences:
            self._tell()

    def set_fault(self, sentence: str | None) -> None:
        """The log cannot be written (a sentence), or can again (None)."""
        if sentence != self._fault:
            self._fault = sentence
            self._tell()

    def set_busy(self, *, is_busy: bool) -> None:
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            self._tell()

    def raised(self) -> dict[str, str]:
        alarms = {name: f"low on {name}" for name in self.alarms.raised}
        if self._fault is not None:
            alarms[DISK] = f"low on {DISK}"
        return alarms

    def _tell(self) -> None:
        self._changed(self.raised(), is_busy=self._is_busy)
