"""Building what a producer publishes, once, with the wire package."""

from __future__ import annotations

import struct

from mirrormq.cli.perf.hot.publish import NUMBERED_SIZE, STAMP_SIZE, Block
from mirrormq.cli.perf.settings import Settings
from mirrormq.wire.frames import content_frames, method_frame
from mirrormq.wire.methods import BasicPublish
from mirrormq.wire.properties import encode_properties

HEADER_OVERHEAD = 8 + 12


def build_block(settings: Settings, producer: int, channel: int, frame_max: int) -> Block:
    """The message of a producer, split where its stamp goes: behind the first body frame's header."""
    publish = BasicPublish(settings.exchange, settings.key_of(producer), mandatory=settings.mandatory)
    properties = encode_properties(settings.properties)
    method = method_frame(channel, publish)
    frames = method + content_frames(channel, properties, body_of(settings.size), frame_max)
    if settings.size < STAMP_SIZE:
        return Block(frames, b"", b"", stamped=False)
    body_at = len(method) + HEADER_OVERHEAD + len(properties) + 7
    mark = struct.pack(">II", settings.run, producer) if settings.verify else b""
    used = NUMBERED_SIZE if mark else STAMP_SIZE
    return Block(frames[:body_at], frames[body_at + used :], mark, stamped=True)


def body_of(size: int) -> bytes:
    """A body that is neither constant nor random: numbered lines of text."""
    line = b"The quick brown fox jumps over the lazy dog. 0123456789 abcdefg\n"
    return (line * (size // len(line) + 1))[:size]
