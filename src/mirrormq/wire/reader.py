"""A cursor over the arguments of one method or one property list.

Reading past the end is a `FrameError`, as in RabbitMQ, and so is a short string that is not UTF-8.
"""

from __future__ import annotations

from mirrormq.wire.errors import FrameError
from mirrormq.wire.faults import cannot_decode
from mirrormq.wire.table import Table, decode_table


class Reader:
    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.start = offset
        self.offset = offset

    def _take(self, size: int) -> int:
        """Step over `size` octets and return where they begin."""
        at = self.offset
        if at + size > len(self.data):
            raise cannot_decode(self.data[self.start :])
        self.offset = at + size
        return at

    def octet(self) -> int:
        return self.data[self._take(1)]

    def short(self) -> int:
        at = self._take(2)
        return self.data[at] << 8 | self.data[at + 1]

    def long(self) -> int:
        at = self._take(4)
        data = self.data
        return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]

    def longlong(self) -> int:
        at = self._take(8)
        return int.from_bytes(self.data[at : at + 8], "big")

    def shortstr(self) -> str:
        size = self.octet()
        at = self._take(size)
        try:
            return self.data[at : at + size].decode("utf-8")
        except UnicodeDecodeError:
            raise FrameError("Malformed UTF-8 in shortstr") from None

    def longstr(self) -> bytes:
        size = self.long()
        at = self._take(size)
        return self.data[at : at + size]

    def text(self) -> str:
        """A long string meant for people or made of names; nothing in it can be malformed."""
        return self.longstr().decode("utf-8", "surrogateescape")

    def table(self) -> Table:
        size = self.long()
        self._take(size)
        return decode_table(self.data, self.offset - size - 4)[0]

    def finish(self) -> None:
        """Nothing may follow."""
        if self.offset != len(self.data):
            raise cannot_decode(self.data[self.start :])
