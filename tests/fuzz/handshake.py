"""What a client says before and after everything else: logins, tuning, opening and closing."""

from __future__ import annotations

from mirrormq.wire.frames import frame
from mirrormq.wire.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from mirrormq.wire.table import Table, encode_table

from .vocabulary import (
    CLIENT_PROPERTIES,
    LONG,
)


def start_ok(mechanism: str = "PLAIN", response: bytes = b"\x00guest\x00guest", properties: Table | None = None) -> bytes:
    given = CLIENT_PROPERTIES if properties is None else properties
    return frame(1, 0, ConnectionStartOk(given, mechanism, response, "en_US").encode())


def tune_ok(channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0) -> bytes:
    return frame(1, 0, ConnectionTuneOk(channel_max, frame_max, heartbeat).encode())


def open_vhost(name: str = "/") -> bytes:
    return frame(1, 0, ConnectionOpen(name).encode())


_AMQPLAIN = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
LOGINS = (
    start_ok(), start_ok("AMQPLAIN", _AMQPLAIN), start_ok("PLAIN", b"\x00clerk\x00clerk"), start_ok(properties={}),
)  # fmt: skip
ODD_LOGINS = (
    start_ok("PLAIN", b"\x00guest\x00wrong"), start_ok("PLAIN", b"garbage"), start_ok("PLAIN", b"\x00\xff\x00\xfe"),
    start_ok("PLAIN", b"\x00nobody\x00\x00"), start_ok("EXTERNAL", b""), start_ok("BOGUS", b"x"), start_ok("", b""),
    start_ok("AMQPLAIN", _AMQPLAIN[:-3]), start_ok("AMQPLAIN", encode_table({"LOGIN": 1})[4:]),
    start_ok("AMQPLAIN", b"\xff" * 9),
    start_ok(properties={"capabilities": "none", "x": [1, {"y": None}]}),
    start_ok("PLAIN", b"\x00guest\x00wrong", {}), start_ok("PLAIN", b"\x00guest\x00" + b"a" * 3800, {}),
    start_ok("PLAIN", b"\x00guest\x00guest", {"a": "b" * 5000}),
)  # fmt: skip
ODD_TUNES = (
    tune_ok(0, 0, 0), tune_ok(1, 4096, 1), tune_ok(65535, 131072), tune_ok(2047, 4095), tune_ok(2047, 2**32 - 1),
    tune_ok(2, 4096),
)  # fmt: skip
ODD_VHOSTS = (open_vhost("other"), open_vhost("missing"), open_vhost(""), open_vhost(LONG))
CLOSE = frame(1, 0, ConnectionClose(200, "bye", 0, 0).encode())
CLOSE_OK = frame(1, 0, ConnectionCloseOk().encode())
