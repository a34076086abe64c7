"""RabbitMQ's words for bytes that are no frame or no method, as clients and people know them from its logs."""

from __future__ import annotations

from typing import Final

from mirrormq.wire.constants import FRAME_OVERHEAD
from mirrormq.wire.errors import FrameError

_SHOWN: Final = 16
_ESCAPES: Final[dict[int, str]] = {
    8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\",
}  # fmt: skip


def _numbers(data: bytes) -> str:
    return f"<<{','.join([str(octet) for octet in data])}>>"


def _printable(data: bytes) -> str:
    """A quoted string where every octet is ASCII text, else numbers."""
    if not data or not all(32 <= octet < 127 or octet in _ESCAPES for octet in data):
        return _numbers(data)
    return f'<<"{"".join([_ESCAPES.get(octet, chr(octet)) for octet in data])}">>'


def octets(kind: int, payload: bytes) -> str:
    """A frame in an error text: its type and its beginning."""
    if len(payload) <= _SHOWN:
        return f"type {kind}, all octets = {_printable(payload)}"
    return f"type {kind}, first {_SHOWN} octets = {_printable(payload[:_SHOWN])}"


def unknown_frame(kind: int, payload: bytes) -> FrameError:
    """No such frame type, or a payload too short for its type."""
    return FrameError(f"{octets(kind, payload)}: unknown_frame")


def frame_too_large(kind: int, size: int, frame_max: int) -> FrameError:
    return FrameError(f"{octets(kind, b'')}: {{frame_too_large,{size},{frame_max - FRAME_OVERHEAD}}}")


def bad_frame_end(kind: int, payload: bytes, marker: int) -> FrameError:
    return FrameError(f"{octets(kind, payload)}: {{invalid_frame_end_marker,{marker}}}")


def cannot_decode(arguments: bytes) -> FrameError:
    """Arguments that do not fit their method. The cut is far beyond what a reply text holds."""
    return FrameError(f"cannot decode {_numbers(arguments[:256])}")
