"""Time and chance of a simulated process: whoever asks the clock gets that of the node whose code runs at this moment.

`install` must come before anything of MirrorMQ is imported, since modules may take functions of `time` by name.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable
from typing import Any

real_time = time.perf_counter
EPOCH = 1_800_000_000.0


class Clock:
    """One machine's clocks, over the world's time: monotonic time that drifts, and wall time that can be set."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.rate = 1.0
        self.start = 1000.0
        self.step = 0.0

    def monotonic(self) -> float:
        return self.start + self._now() * self.rate

    def wall(self) -> float:
        return EPOCH + self.step + self._now() * self.rate

    def world_time(self, monotonic: float) -> float:
        return (monotonic - self.start) / self.rate


class Current:
    clock: Clock | None = None


def install() -> None:
    """The standard library's clocks, sleeps and sources of chance, for the rest of this process."""
    started = time.perf_counter()

    def monotonic() -> float:
        clock = Current.clock
        return clock.monotonic() if clock is not None else real_time() - started

    def wall() -> float:
        clock = Current.clock
        return clock.wall() if clock is not None else EPOCH

    replaced: dict[str, Any] = {
        "monotonic": monotonic, "perf_counter": monotonic, "time": wall, "sleep": _no_sleep,
        "monotonic_ns": lambda: int(monotonic() * 1e9), "perf_counter_ns": lambda: int(monotonic() * 1e9),
        "time_ns": lambda: int(wall() * 1e9),
    }
    for name, function in replaced.items():
        setattr(time, name, function)


def _no_sleep(_seconds: float) -> None:
    """Who sleeps in a helper takes its time from the simulation."""


def seed_chance(seed: int) -> None:
    """All that is random below comes from the seed from now on."""
    source = random.Random(seed)
    os.urandom = source.randbytes  # type: ignore[assignment]
    random._urandom = source.randbytes  # type: ignore[attr-defined]
    random.seed(seed)
    gc.disable()        # the collector comes at moments that depend on what ran before
