"""The receiving half of a session: from bytes in any portions to whole frames, and the credit that it gives.

Credit is a total that only grows: a lane may have carried so many bytes since the session began. The receiver allows what its
user has digested, plus a window. Bytes of a frame that is not yet whole are allowed as well, because the user cannot digest
them; so a lane holds at most a window and one frame, and a frame larger than the window comes through.
"""

from __future__ import annotations

from mirrormq.cluster.link.errors import LinkFault
from mirrormq.cluster.link.frames import (
    HEADER_SIZE,
    LANES,
    MORE,
    OWN,
    OWN_LIMIT,
    PIECE,
    Frame,
    read_header,
)
from mirrormq.cluster.link.terms import LaneTerms


class LaneIn:
    """One lane: the pieces of the frame that is on its way, and the account of credit."""

    def __init__(self, lane: int, terms: LaneTerms) -> None:
        self.lane = lane
        self.window = terms.window
        self.announced = 0
        self.received = 0
        self.digested = 0
        self._limit = terms.limit
        self._parts: list[bytes | memoryview] = []
        self._size = 0
        self._kind = -1

    def begin(self, kind: int, size: int) -> None:
        """A piece of this size follows."""
        if self._kind >= 0 and kind != self._kind:
            raise LinkFault(f"a frame of lane {LANES[self.lane]} began as kind {self._kind} and went on as kind {kind}")
        if self._size + size > self._limit:
            raise LinkFault(f"a frame of lane {LANES[self.lane]} is longer than {self._limit} bytes")
        self.received += size
        if self.window and self.received > self.announced:
            raise LinkFault(f"lane {LANES[self.lane]} carried more than its credit of {self.announced} bytes")
        self._kind = kind

    def add(self, data: bytes, at: int, size: int, *, is_whole: bool) -> None:
        """`is_whole`: these bytes are all of the frame, and are cut out at once; others are copied when all are there."""
        end = at + size
        self._parts.append(data[at:end] if is_whole and not self._parts else memoryview(data)[at:end])
        self._size += size

    def finish(self) -> Frame:
        parts = self._parts
        if len(parts) == 1 and isinstance(parts[0], bytes):
            payload = parts[0]
        else:
            payload = b"".join(parts)
        frame = Frame(self.lane, self._kind, payload)
        self._parts = []
        self._size = 0
        self._kind = -1
        return frame

    def grant(self) -> int:
        return self.digested + self._size + self.window

    def grant_is_due(self) -> bool:
        """Credit goes back in batches of a quarter of the window."""
        return self.window > 0 and self.grant() - self.announced >= max(self.window // 4, 1)


class Inbound:
    def __init__(self, terms: list[LaneTerms]) -> None:
        self.lanes = [LaneIn(lane, terms[lane]) for lane in range(len(LANES))]
        own = LaneTerms(limit=OWN_LIMIT, window=0, low=0, weight=1)
        self._all = [*self.lanes, LaneIn(OWN, own)]
        self._head = b""
        self._left = 0
        self._piece_is_last = True
        self._lane: LaneIn | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """All frames that these bytes complete, those of the link itself among them."""
        frames: list[Frame] = []
        at = 0
        end = len(data)
        while True:
            lane = self._lane
            if lane is None:
                at = self._read_head(data, at)
                if at < 0:
                    return frames
                lane = self._lane
                assert lane is not None
            take = min(self._left, end - at)
            if take:
                lane.add(data, at, take, is_whole=take == self._left and self._piece_is_last)
                at += take
                self._left -= take
            if self._left:
                return frames
            self._lane = None
            if self._piece_is_last:
                frames.append(lane.finish())

    def _read_head(self, data: bytes, at: int) -> int:
        """Where the payload begins, or -1 if the header is not all there."""
        held = len(self._head)
        missing = HEADER_SIZE - held
        if len(data) - at < missing:
            self._head += data[at:]
            return -1
        if held:
            fields = read_header(self._head + data[at : at + missing], 0)
            self._head = b""
        else:
            fields = read_header(data, at)
        self._begin(fields[0], fields[1], fields[2], fields[3], fields[4])
        return at + missing

    def _begin(self, size: int, lane: int, kind: int, flags: int, zero: int) -> None:
        if lane >= len(self._all) or flags > MORE or zero:
            raise LinkFault("the bytes of the link are not a frame")
        if size > PIECE or (lane == OWN and (flags or size > OWN_LIMIT)):
            raise LinkFault(f"a frame announces {size} bytes, more than any may have")
        self._all[lane].begin(kind, size)
        self._lane = self._all[lane]
        self._left = size
        self._piece_is_last = flags == 0
