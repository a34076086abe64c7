"""The sending half of a session: lanes that wait for credit, and which of them goes next.

The link's own frames go first, then lane CONTROL. The others share the line by weight, so that none starves: each in its
turn sends its share of bytes, and what it sent beyond its share it lacks the next time (deficit round robin).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mirrormq.cluster.link.errors import FrameTooLarge
from mirrormq.cluster.link.frames import BULK, CONTROL, HEADER_SIZE, LANES, MORE, PIECE, RING, SMALLEST_PIECE, WORK, header
from mirrormq.cluster.link.terms import LaneTerms

_SHARE: Final = 64 * 1024
"""What a weight of one sends in its turn."""

_TURNS: Final = (RING, WORK, BULK)


class Waiting:
    """A frame in its lane."""

    def __init__(self, kind: int, payload: bytes) -> None:
        self.kind = kind
        self.payload = payload


class LaneOut:
    def __init__(self, lane: int, terms: LaneTerms) -> None:
        self.lane = lane
        self.queued = 0
        self.sent = 0
        self.allowed = 0
        self.share = terms.weight * _SHARE
        self.deficit = 0
        self.was_high = False
        self._limit = terms.limit
        self._low = terms.low
        self._is_credited = terms.window > 0
        self._frames: deque[Waiting] = deque()
        self._at = 0

    def put(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        if size > self._limit:
            raise FrameTooLarge(f"{size} bytes are more than a frame of lane {LANES[self.lane]} may carry ({self._limit})")
        self._frames.append(Waiting(kind, payload))
        self.queued += size
        if self.queued > self._low:
            self.was_high = True

    def drained(self) -> bool:
        """True once after the lane held more than its low mark and no longer does."""
        if self.was_high and self.queued <= self._low:
            self.was_high = False
            return True
        return False

    def can_go(self) -> bool:
        if not self._frames:
            return False
        return not self._is_credited or self.allowed > self.sent or not self._frames[0].payload

    def emit(self, parts: list[bytes | memoryview], room: int) -> int:
        """Adds frames for about this many bytes, as far as credit goes; how many bytes they are."""
        spent = 0
        while spent < room and self.can_go():
            spent += self._emit_piece(parts, room - spent)
        return spent

    def _emit_piece(self, parts: list[bytes | memoryview], room: int) -> int:
        frame = self._frames[0]
        left = len(frame.payload) - self._at
        size = self._piece_size(left, room)
        parts.append(header(size, self.lane, frame.kind, MORE if size < left else 0))
        if size == len(frame.payload):
            parts.append(frame.payload)
        else:
            parts.append(memoryview(frame.payload)[self._at : self._at + size])
        self._at += size
        if size == left:
            self._frames.popleft()
            self._at = 0
        self.sent += size
        self.queued -= size
        return size + HEADER_SIZE

    def _piece_size(self, left: int, room: int) -> int:
        size = min(left, PIECE)
        if self._is_credited:
            size = min(size, self.allowed - self.sent)
        return min(size, max(room - HEADER_SIZE, SMALLEST_PIECE))


class Outbound:
    def __init__(self, terms: list[LaneTerms]) -> None:
        self.lanes = [LaneOut(lane, terms[lane]) for lane in range(len(LANES))]
        self._turn = 0

    def can_go(self) -> bool:
        return any(lane.can_go() for lane in self.lanes)

    def emit(self, parts: list[bytes | memoryview], room: int) -> int:
        """Adds frames for about `room` bytes, at most SMALLEST_PIECE and a header more; how many bytes they are."""
        spent = self.lanes[CONTROL].emit(parts, room) if room > 0 else 0
        idle = 0
        while spent < room and idle < len(_TURNS):
            lane = self.lanes[_TURNS[self._turn]]
            if not lane.can_go():
                lane.deficit = 0
                idle += 1
                self._next_turn()
                continue
            idle = 0
            if lane.deficit <= 0:
                lane.deficit += lane.share
            sent = lane.emit(parts, min(room - spent, lane.deficit)) if lane.deficit > 0 else 0
            lane.deficit -= sent
            spent += sent
            if lane.deficit <= 0:
                self._next_turn()
        return spent

    def _next_turn(self) -> None:
        self._turn = (self._turn + 1) % len(_TURNS)
