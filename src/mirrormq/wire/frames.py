"""Frames: how methods, headers and bodies are cut up for the wire.

`FrameReader` serves clients and tests. It is given bytes in any portions and returns whole frames; a fault
leaves it useless, as the connection is.
"""

from __future__ import annotations

import struct
from typing import Final

from mirrormq.wire.constants import (
    BASIC,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
)
from mirrormq.wire.faults import bad_frame_end, frame_too_large
from mirrormq.wire.methods.base import Method

_HEAD: Final = struct.Struct(">BHI")
_CONTENT: Final = struct.Struct(">HHQ")
_HEAD_SIZE: Final = 7
_END: Final = bytes((FRAME_END,))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _HEAD.pack(kind, channel, len(payload)) + payload + _END


HEARTBEAT_FRAME: Final = _HEAD.pack(FRAME_HEARTBEAT, 0, 0) + _END


def method_frame(channel: int, method: Method) -> bytes:
    return frame(FRAME_METHOD, channel, method.encode())


def content_frames(channel: int, properties_payload: bytes, body: bytes, frame_max: int) -> bytes:
    """Header frame and as many body frames as `frame_max` (0: unlimited) asks for. `properties_payload` begins at
    the property flags."""
    assert frame_max == 0 or frame_max > FRAME_OVERHEAD
    size = len(body)
    header = _CONTENT.pack(BASIC, 0, size) + properties_payload
    step = frame_max - FRAME_OVERHEAD if frame_max else max(size, 1)
    bodies = [frame(FRAME_BODY, channel, body[at : at + step]) for at in range(0, size, step)]
    return frame(FRAME_HEADER, channel, header) + b"".join(bodies)


class Frame:
    def __init__(self, kind: int, channel: int, payload: bytes) -> None:
        self.kind = kind
        self.channel = channel
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Frame)
            and self.kind == other.kind
            and self.channel == other.channel
            and self.payload == other.payload
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.channel, self.payload))

    def __repr__(self) -> str:
        return f"Frame({self.kind}, {self.channel}, {self.payload!r})"


class FrameReader:
    """Collects bytes into frames. Like RabbitMQ it lets a payload have `frame_max` octets (0: any number), although
    its frame is then eight octets too large: some clients count that way."""

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        if self._rest:
            data = self._rest + data
        frames: list[Frame] = []
        at = 0
        while len(data) - at >= _HEAD_SIZE:
            size = self._payload_size(data, at)
            end = at + _HEAD_SIZE + size
            if end >= len(data):
                break
            frames.append(_frame_at(data, at, end))
            at = end + 1
        self._rest = data[at:]
        return frames

    def _payload_size(self, data: bytes, at: int) -> int:
        size = data[at + 3] << 24 | data[at + 4] << 16 | data[at + 5] << 8 | data[at + 6]
        if self.frame_max and size > self.frame_max:
            raise frame_too_large(data[at], size, self.frame_max)
        return size


def _frame_at(data: bytes, at: int, end: int) -> Frame:
    payload = data[at + _HEAD_SIZE : end]
    if data[end] != FRAME_END:
        raise bad_frame_end(data[at], payload, data[end])
    return Frame(data[at], data[at + 1] << 8 | data[at + 2], payload)
