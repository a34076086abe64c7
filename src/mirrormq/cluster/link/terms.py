"""The terms of a session: what each lane may carry and hold, and when silence means death. The same on all nodes by default."""

from __future__ import annotations

from typing import Final

from mirrormq.cluster.link import deadlines
from mirrormq.cluster.link.deadlines import milliseconds

KIB: Final = 1024
MIB: Final = 1024 * 1024

LARGEST_FRAME: Final = 576 * MIB
"""The largest `max_message_size` is 512 MiB, and what surrounds a message needs room."""


class LaneTerms:
    """`limit`: the longest payload. `window`: how many bytes the receiver takes beyond those it has digested (0: no credit).
    `low`: when fewer bytes wait, the user is told that it may go on."""

    def __init__(self, limit: int, window: int, low: int, weight: int) -> None:
        assert weight > 0
        self.limit = limit
        self.window = window
        self.low = low
        self.weight = weight


class Terms:
    def __init__(
        self,
        *,
        lanes: list[LaneTerms] | None = None,
        heartbeat: float = deadlines.HEARTBEAT,
        silence: float = deadlines.SILENCE,
    ) -> None:
        self.lanes = lanes if lanes is not None else standard_lanes()
        self.heartbeat_ms = milliseconds(heartbeat)
        self.silence_ms = milliseconds(silence)


def standard_lanes() -> list[LaneTerms]:
    """Weights are shares of a line that is full: full sync gets a ninth of it, so that it ends even then."""
    return [
        LaneTerms(limit=MIB, window=0, low=64 * KIB, weight=1),
        LaneTerms(limit=LARGEST_FRAME, window=8 * MIB, low=MIB, weight=4),
        LaneTerms(limit=LARGEST_FRAME, window=16 * MIB, low=MIB, weight=4),
        LaneTerms(limit=LARGEST_FRAME, window=4 * MIB, low=MIB, weight=1),
    ]
