"""Numbers of the AMQP 0-9-1 wire format."""

from __future__ import annotations

from typing import Final

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE

FRAME_MIN_SIZE: Final = 4096
FRAME_OVERHEAD: Final = 8

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

CONNECTION: Final = 10
CHANNEL: Final = 20
ACCESS: Final = 30
EXCHANGE: Final = 40
QUEUE: Final = 50
BASIC: Final = 60
CONFIRM: Final = 85
TX: Final = 90
