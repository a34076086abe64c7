"""Builds the payload of one method, the counterpart of `Reader`."""

from __future__ import annotations

import struct
from typing import Final

from mirrormq.wire.table import Table, encode_shortstr, encode_table

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")


class Writer:
    def __init__(self, method: int) -> None:
        self.data = bytearray(_U32.pack(method))

    def octet(self, value: int) -> None:
        self.data.append(value)

    def short(self, value: int) -> None:
        self.data += _U16.pack(value)

    def long(self, value: int) -> None:
        self.data += _U32.pack(value)

    def longlong(self, value: int) -> None:
        self.data += _U64.pack(value)

    def shortstr(self, text: str) -> None:
        self.data += encode_shortstr(text)

    def longstr(self, value: bytes) -> None:
        self.data += _U32.pack(len(value))
        self.data += value

    def text(self, value: str) -> None:
        self.longstr(value.encode("utf-8", "surrogateescape"))

    def table(self, table: Table) -> None:
        self.data += encode_table(table)

    def bits(self, flags: list[bool]) -> None:
        """Flags that stand side by side share one octet, the first in its lowest bit."""
        octet = 0
        for place, flag in enumerate(flags):
            octet |= flag << place
        self.data.append(octet)

    def finish(self) -> bytes:
        return bytes(self.data)
