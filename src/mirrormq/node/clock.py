"""The node's time: milliseconds since 1970, as its cluster counts them. It goes on evenly; nobody sets it.

Rules
 1. Time runs on the boot clock, which goes on while the machine sleeps and which no operator sets. The wall clock only says where
    to begin. When somebody sets it, nothing is due for that.
 2. What the log holds was stamped with this time. So the distance to the wall clock is kept in the data directory, and a restart
    goes on with it. A clock that was set while the node was down cannot be told from a node that was down for longer or shorter.
 3. The time approaches the wall clock by a thousandth of what goes by: no message's time to live shifts by more than that.
 4. What differs by more than a day was never a right time: it is not kept over a restart.
 5. What people are shown is the wall clock's: `Broker.wall`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

FILE: Final = "clock.json"
FORMAT: Final = 1
SLEW: Final = 0.001         # of the time that goes by
STEP: Final = 500.0         # milliseconds by which the wall clock moves against the boot clock when somebody sets it
DAY: Final = 86_400_000.0
WORTH: Final = 100.0        # milliseconds by which the distance must have changed to be written down again
BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot() -> float:
    return time.clock_gettime(BOOT)


class Clock:
    def __init__(self, path: Path, report: Callable[[str, str], None], wall: Callable[[], float] = time.time,
                 steady: Callable[[], float] = since_boot) -> None:
        self._path = path
        self._report = report
        self._wall = wall
        self._steady = steady
        self._kept = self._load()
        self._began = self._slewed = steady() * 1000
        self._offset = wall() * 1000 + self._kept - self._began
        self._ahead = -self._kept

    def now(self) -> float:
        return self._steady() * 1000 + self._offset

    def wall(self) -> float:
        return self._wall() * 1000

    def age(self) -> float:
        """Milliseconds since it began, or since it was in doubt for the last time."""
        return self._steady() * 1000 - self._began

    def wall_ahead(self) -> float:
        """How far the wall clock is ahead of the node's time. After a step the node's time is in doubt: a virtual machine that
        was stopped sees its wall clock set when it goes on, and then it is its boot clock that is wrong."""
        ahead = self.wall() - self.now()
        step = ahead - self._ahead
        self._ahead = ahead
        if abs(step) > STEP:
            self._report("warning", f"the clock was set {'forward' if step > 0 else 'back'} by {abs(step) / 1000:.1f} seconds")
            self._began = self._steady() * 1000
        return ahead

    def step(self, by: float) -> None:
        """At once: others know the time better."""
        self._offset += by
        self._ahead -= by

    def slew(self, by: float, most: float = SLEW) -> float:
        """By and by; returns what is left of it. To be called all the time."""
        steady = self._steady() * 1000
        room = (steady - self._slewed) * most
        self._slewed = steady
        moved = min(max(by, -room), room)
        self.step(moved)
        return by - moved

    # --- over a restart -------------------------------------------------------------------------------------------------------

    def _load(self) -> float:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
            if known["format"] > FORMAT:
                raise ValueError(f"format {known['format']} is of a later release")
            ahead = float(known["ahead_ms"])
        except FileNotFoundError:
            return 0.0
        except (OSError, ValueError, TypeError, KeyError) as fault:
            self._report("warning", f"{self._path} cannot be read ({fault}): time goes on with the wall clock's")
            return 0.0
        if not abs(ahead) <= DAY:
            self._report("warning", f"before the restart this node's time and the wall clock were {abs(ahead) / DAY:.1f} days "
                                    "apart: time goes on with the wall clock's")
            return 0.0
        return ahead

    def is_to_save(self) -> bool:
        return abs(self._ahead + self._kept) > WORTH

    def save(self) -> None:
        """Blocks while the disk works."""
        ahead = -self._ahead
        fresh = self._path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "ahead_ms": round(ahead, 3)}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._kept = ahead
