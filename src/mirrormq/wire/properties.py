"""The basic class's content properties: decoded whole, scanned for what the broker needs, or edited in place.

On the wire: 16 flag bits, then the properties whose flag is set, in a fixed order. The two lowest bits name no
property; RabbitMQ ignores them and so do we. Scanning and editing never decode the headers, and an edit leaves
every other byte as the publisher sent it.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final

from mirrormq.wire.errors import SyntaxFault
from mirrormq.wire.table import Table, check_table, decode_table, encode_shortstr, encode_table

_U16: Final = struct.Struct(">H")
_U64: Final = struct.Struct(">Q")

# One property per place, in the wire's order; the flag of place p is 1 << (15 - p).
_SHORTSTR: Final = ord("s")
_OCTET: Final = ord("o")
_TABLE: Final = ord("t")
_KINDS: Final = b"sstoosssslssss"
_COUNT: Final = 14

_HEADERS: Final = 2
_DELIVERY_MODE: Final = 3
_PRIORITY: Final = 4
_REPLY_TO: Final = 6
_EXPIRATION: Final = 7
_USER_ID: Final = 11


class Properties:
    """The fourteen properties; None where the publisher set none."""

    FIELDS: ClassVar[tuple[str, ...]] = (
        "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
        "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
    )  # fmt: skip

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Table | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration = expiration
        self.message_id = message_id
        self.timestamp = timestamp
        self.type = type
        self.user_id = user_id
        self.app_id = app_id
        self.cluster_id = cluster_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Properties):
            return False
        return all(getattr(self, field) == getattr(other, field) for field in self.FIELDS)

    def __hash__(self) -> int:
        return hash((self.message_id, self.correlation_id, self.timestamp))

    def __repr__(self) -> str:
        present = [(field, getattr(self, field)) for field in self.FIELDS]
        return f"Properties({', '.join([f'{field}={value!r}' for field, value in present if value is not None])})"


class PropertyScan:
    """What a queue has to know of a message. Absent: 0 for the mode, -1 for priority and `headers_at`, else None."""

    def __init__(
        self,
        delivery_mode: int,
        priority: int,
        expiration: str | None,
        user_id: str | None,
        reply_to: str | None,
        headers_at: int,
        headers_end: int,
    ) -> None:
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.expiration = expiration
        self.user_id = user_id
        self.reply_to = reply_to
        self.headers_at = headers_at
        self.headers_end = headers_end


# Finding the properties


def _flags(data: bytes, offset: int) -> int:
    if offset + 2 > len(data):
        raise SyntaxFault("content properties cut short")
    return data[offset] << 8 | data[offset + 1]


def _places(data: bytes, offset: int) -> list[int]:
    """Where each property begins, and where the last one ends. An absent one begins where it ends."""
    flags = _flags(data, offset)
    at = offset + 2
    places: list[int] = [at]
    for place in range(_COUNT):
        if flags & (0x8000 >> place):
            at = _property_end(data, at, _KINDS[place])
        places.append(at)
    if at != len(data):
        raise SyntaxFault("content properties and their flags do not agree")
    return places


def _property_end(data: bytes, at: int, kind: int) -> int:
    if kind == _TABLE:
        return check_table(data, at)
    if kind == _SHORTSTR:
        end = at + 1 + data[at] if at < len(data) else at + 1
    else:
        end = at + 1 if kind == _OCTET else at + 8
    if end > len(data):
        raise SyntaxFault("content properties cut short")
    return end


def _octet(data: bytes, places: list[int], place: int, absent: int) -> int:
    return data[places[place]] if places[place + 1] > places[place] else absent


def _text(data: bytes, places: list[int], place: int) -> str | None:
    begin = places[place]
    end = places[place + 1]
    return data[begin + 1 : end].decode("utf-8", "surrogateescape") if end > begin else None


# Reading


def scan_properties(data: bytes, offset: int) -> PropertyScan:
    """Check the properties whose flags are at `offset` and pick out what the broker needs."""
    places = _places(data, offset)
    has_headers = places[_HEADERS + 1] > places[_HEADERS]
    return PropertyScan(
        _octet(data, places, _DELIVERY_MODE, 0),
        _octet(data, places, _PRIORITY, -1),
        _text(data, places, _EXPIRATION),
        _text(data, places, _USER_ID),
        _text(data, places, _REPLY_TO),
        places[_HEADERS] if has_headers else -1,
        places[_HEADERS + 1] if has_headers else -1,
    )


def decode_properties(data: bytes, offset: int) -> Properties:
    """All properties of the list whose flags are at `offset`."""
    p = _places(data, offset)
    return Properties(
        _text(data, p, 0),
        _text(data, p, 1),
        decode_table(data, p[2])[0] if p[3] > p[2] else None,
        data[p[3]] if p[4] > p[3] else None,
        data[p[4]] if p[5] > p[4] else None,
        _text(data, p, 5),
        _text(data, p, 6),
        _text(data, p, 7),
        _text(data, p, 8),
        int.from_bytes(data[p[9] : p[10]], "big") if p[10] > p[9] else None,
        _text(data, p, 10),
        _text(data, p, 11),
        _text(data, p, 12),
        _text(data, p, 13),
    )


# Writing


class _List:
    """A property list in the making."""

    def __init__(self) -> None:
        self.flags = 0
        self.place = 0
        self.body = bytearray()

    def add(self, encoded: bytes | None) -> None:
        if encoded is not None:
            self.flags |= 0x8000 >> self.place
            self.body += encoded
        self.place += 1

    def text(self, value: str | None) -> None:
        self.add(None if value is None else encode_shortstr(value))

    def octet(self, value: int | None) -> None:
        self.add(None if value is None else bytes((value,)))

    def finish(self) -> bytes:
        assert self.place == _COUNT
        return _U16.pack(self.flags) + bytes(self.body)


def encode_properties(properties: Properties) -> bytes:
    """Flags and property list."""
    p = _List()
    p.text(properties.content_type)
    p.text(properties.content_encoding)
    p.add(None if properties.headers is None else encode_table(properties.headers))
    p.octet(properties.delivery_mode)
    p.octet(properties.priority)
    p.text(properties.correlation_id)
    p.text(properties.reply_to)
    p.text(properties.expiration)
    p.text(properties.message_id)
    p.add(None if properties.timestamp is None else _U64.pack(properties.timestamp))
    p.text(properties.type)
    p.text(properties.user_id)
    p.text(properties.app_id)
    p.text(properties.cluster_id)
    return p.finish()


# Editing


def _replace(data: bytes, offset: int, place: int, encoded: bytes | None) -> bytes:
    places = _places(data, offset)
    flag = 0x8000 >> place
    flags = _flags(data, offset) & ~flag
    if encoded is None:
        encoded = b""
    else:
        flags |= flag
    return _U16.pack(flags) + data[offset + 2 : places[place]] + encoded + data[places[place + 1] :]


def replace_headers(data: bytes, offset: int, headers: bytes | None) -> bytes:
    """Flags and property list with this table (as `join_fields` makes it) for headers, or with none."""
    return _replace(data, offset, _HEADERS, headers)


def replace_expiration(data: bytes, offset: int, expiration: str | None) -> bytes:
    return _replace(data, offset, _EXPIRATION, None if expiration is None else encode_shortstr(expiration))


def replace_reply_to(data: bytes, offset: int, reply_to: str | None) -> bytes:
    return _replace(data, offset, _REPLY_TO, None if reply_to is None else encode_shortstr(reply_to))
