"""The simulated clock: events in order of time, and of their making where the times are equal."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0
        self.ran = 0

    def after(self, delay: float, do: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay, do, *args)

    def at(self, time: float, do: Callable[..., None], *args: Any) -> None:
        self._made += 1
        heappush(self._events, (time, self._made, do, args))

    def run_until(self, deadline: float, is_done: Callable[[], bool] | None = None) -> bool:
        """Run events up to the deadline; asked now and then, is_done may end it before."""
        events = self._events
        while events and events[0][0] <= deadline:
            self.now, _, do, args = heappop(events)
            do(*args)
            self.ran += 1
            if is_done is not None and self.ran % 16 == 0 and is_done():
                return True
        self.now = max(self.now, deadline)
        return is_done() if is_done is not None else True
