"""The clock of leases: it runs while the machine sleeps, nobody sets it, all processes of a machine share it.

It begins anew with each boot, so times are compared only with those of the same boot.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Final

CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def now() -> float:
    return time.clock_gettime(CLOCK)


@cache
def boot() -> str:
    """A name for this boot of the machine."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:  # no Linux: the moment of the boot names it, to the minute, since the two clocks drift
        return f"minute {round((time.time() - now()) / 60)}"
