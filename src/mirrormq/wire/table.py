"""Field tables, with the value types RabbitMQ uses.

Decoding maps each wire type to one Python value; encoding maps each Python value to one wire type, so a
decoded and encoded table keeps its meaning but not its bytes. Where the bytes must survive (headers of a
message passing through) edit with `split_fields`, `encode_value` and `join_fields`.

Whatever a peer sends that is not a table is a `SyntaxFault`. A value that cannot be written is the
caller's fault: `ValueError`.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Final

from mirrormq.wire.errors import SyntaxFault
from mirrormq.wire.values import ByteArray, Table, Timestamp, Value, fits_int32, fits_int64, type_name

__all__ = [
    "MAX_DEPTH",
    "ByteArray",
    "Table",
    "Timestamp",
    "Value",
    "check_table",
    "decode_table",
    "decode_value",
    "encode_shortstr",
    "encode_table",
    "encode_value",
    "join_fields",
    "split_fields",
    "type_name",
]

MAX_DEPTH: Final = 64
"""Tables and arrays inside one another. No client nests this deep; a hostile one nests to exhaust the stack."""

_LONGSTR: Final = ord("S")
_BINARY: Final = ord("x")
_TABLE: Final = ord("F")
_ARRAY: Final = ord("A")
_BOOL: Final = ord("t")
_VOID: Final = ord("V")
_TIMESTAMP: Final = ord("T")
_DOUBLE: Final = ord("d")
_FLOAT: Final = ord("f")
_DECIMAL: Final = ord("D")
_UNSIGNED: Final = b"Bui"

_PREFIXED: Final = 254
_UNKNOWN: Final = 255
_FIXED: Final = {"t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "l": 8, "L": 8, "f": 4, "d": 8, "D": 5}


def _sizes() -> bytes:
    sizes = bytearray([_UNKNOWN] * 256)
    for kind, size in _FIXED.items():
        sizes[ord(kind)] = size
    for kind_with_length in b"SxFA":
        sizes[kind_with_length] = _PREFIXED
    sizes[_TIMESTAMP] = 8
    sizes[_VOID] = 0
    return bytes(sizes)


_SIZES: Final = _sizes()
"""Octets that follow each type octet."""

_U32: Final = struct.Struct(">I")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_U64: Final = struct.Struct(">Q")
_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")


# Strings


def encode_shortstr(text: str) -> bytes:
    """Length octet and UTF-8. Bytes that were not UTF-8 when they came in go out as they were."""
    data = text.encode("utf-8", "surrogateescape")
    size = len(data)
    if size > 255:
        raise ValueError(f"a short string holds 255 bytes, not {size}")
    return bytes((size,)) + data


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


# Bounds: every read stays within `end`, which lies within the data.


def _announced_end(data: bytes, offset: int, end: int) -> int:
    """The end of what the 4-byte length at `offset` announces."""
    if offset + 4 > end:
        raise SyntaxFault("field table cut short")
    size = data[offset] << 24 | data[offset + 1] << 16 | data[offset + 2] << 8 | data[offset + 3]
    if offset + 4 + size > end:
        raise SyntaxFault("field value longer than what holds it")
    return offset + 4 + size


def _key_end(data: bytes, offset: int, end: int) -> int:
    stop = offset + 1 + data[offset]
    if stop >= end:
        raise SyntaxFault("field name without a value")
    return stop


def _value_end(data: bytes, offset: int, end: int) -> int:
    """The end of the value whose type octet is at `offset`, its inside unexamined."""
    size = _SIZES[data[offset]]
    if size == _PREFIXED:
        return _announced_end(data, offset + 1, end)
    if size == _UNKNOWN:
        raise SyntaxFault(f"unknown field type {data[offset]}")
    if offset + 1 + size > end:
        raise SyntaxFault("field value longer than what holds it")
    return offset + 1 + size


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SyntaxFault("field table nested too deeply")


# Decoding


def decode_table(data: bytes, offset: int) -> tuple[Table, int]:
    """The table whose 4-byte length is at `offset`, and the offset after it."""
    end = _announced_end(data, offset, len(data))
    return _decode_fields(data, offset + 4, end, 1), end


def decode_value(data: bytes) -> Value:
    """The value that `encode_value` or `split_fields` gave: type octet first, nothing after."""
    if not data or _value_end(data, 0, len(data)) != len(data):
        raise SyntaxFault("not one field value")
    return _decode_value(data, 0, len(data), 1)


def _decode_fields(data: bytes, offset: int, end: int, depth: int) -> Table:
    _check_depth(depth)
    table: Table = {}
    while offset < end:
        at = _key_end(data, offset, end)
        key = data[offset + 1 : at].decode("utf-8", "surrogateescape")
        offset = _value_end(data, at, end)
        table[key] = _decode_value(data, at, offset, depth)
    return table


def _decode_items(data: bytes, offset: int, end: int, depth: int) -> list[Value]:
    _check_depth(depth)
    items: list[Value] = []
    while offset < end:
        at = offset
        offset = _value_end(data, at, end)
        items.append(_decode_value(data, at, offset, depth))
    return items


def _decode_value(data: bytes, offset: int, end: int, depth: int) -> Value:
    """The value from its type octet at `offset` to exactly `end`."""
    kind = data[offset]
    if kind == _LONGSTR:
        return _text_or_bytes(data[offset + 5 : end])
    if kind == _TABLE:
        return _decode_fields(data, offset + 5, end, depth + 1)
    if kind == _ARRAY:
        return _decode_items(data, offset + 5, end, depth + 1)
    if kind == _BOOL:
        return data[offset + 1] != 0
    if kind == _VOID:
        return None
    return _decode_scalar(data, kind, offset + 1, end)


def _decode_scalar(data: bytes, kind: int, at: int, end: int) -> Value:
    if kind in (_DOUBLE, _FLOAT):
        return _decode_float(data, kind, at)
    if kind == _TIMESTAMP:
        return Timestamp(int.from_bytes(data[at:end], "big"))
    if kind == _BINARY:
        return ByteArray(data[at + 4 : end])
    if kind == _DECIMAL:
        unscaled = int.from_bytes(data[at + 1 : end], "big", signed=True)
        return Decimal(unscaled).scaleb(-data[at])
    return int.from_bytes(data[at:end], "big", signed=kind not in _UNSIGNED)


def _decode_float(data: bytes, kind: int, at: int) -> float:
    """Infinities and not-a-number are no values in RabbitMQ either."""
    number: float = (_F64 if kind == _DOUBLE else _F32).unpack_from(data, at)[0]
    if not math.isfinite(number):
        raise SyntaxFault("field value is not a finite number")
    return number


# Encoding


def encode_table(table: Table) -> bytes:
    """The table with its 4-byte length."""
    return _encode_fields(table, 1)


def encode_value(value: Value) -> bytes:
    """Type octet and value."""
    return _encode_value(value, 1)


def _encode_fields(table: Table, depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise ValueError("field table nested too deeply")
    body = bytearray()
    for key, value in table.items():
        body += encode_shortstr(key)
        body += _encode_value(value, depth)
    return _U32.pack(len(body)) + bytes(body)


def _encode_items(items: list[Value], depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise ValueError("field table nested too deeply")
    return _prefixed(b"".join([_encode_value(item, depth) for item in items]))


def _prefixed(data: bytes) -> bytes:
    return _U32.pack(len(data)) + data


def _encode_value(value: Value, depth: int) -> bytes:
    if isinstance(value, str):
        return b"S" + _prefixed(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, int):
        return _encode_int(value)
    if isinstance(value, dict):
        return b"F" + _encode_fields(value, depth + 1)
    if isinstance(value, list):
        return b"A" + _encode_items(value, depth + 1)
    if value is None:
        return b"V"
    return _encode_scalar(value)


def _encode_scalar(value: float | Decimal | bytes | Timestamp | ByteArray) -> bytes:
    if isinstance(value, float):
        return _encode_float(value)
    if isinstance(value, bytes):
        return b"S" + _prefixed(value)
    if isinstance(value, Timestamp):
        return _encode_timestamp(value.seconds)
    if isinstance(value, ByteArray):
        return b"x" + _prefixed(value.data)
    if isinstance(value, Decimal):
        return _encode_decimal(value)
    raise ValueError(f"a field table cannot hold {type(value).__name__}")


def _encode_int(value: int) -> bytes:
    if fits_int32(value):
        return b"I" + _I32.pack(value)
    if fits_int64(value):
        return b"l" + _I64.pack(value)
    raise ValueError("a field table holds integers of 64 bits")


def _encode_float(value: float) -> bytes:
    if not math.isfinite(value):
        raise ValueError("a field table holds finite numbers")
    return b"d" + _F64.pack(value)


def _encode_timestamp(seconds: int) -> bytes:
    if not 0 <= seconds <= 0xFFFFFFFFFFFFFFFF:
        raise ValueError("a timestamp holds 64 bits and no sign")
    return b"T" + _U64.pack(seconds)


def _encode_decimal(value: Decimal) -> bytes:
    """Scale octet, then the digits as a signed integer, as clients do (RabbitMQ itself reads them unsigned)."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not -255 <= exponent <= 9:
        raise ValueError(f"a field table cannot hold the decimal {value}")
    scale = max(0, -exponent)
    unscaled = int(value.scaleb(scale))
    if not fits_int32(unscaled):
        raise ValueError(f"a field table cannot hold the decimal {value}")
    return b"D" + bytes((scale,)) + _I32.pack(unscaled)


# Walking and editing without decoding


def check_table(data: bytes, offset: int) -> int:
    """Check that a well-formed table stands at `offset`, and return the offset after it."""
    end = _announced_end(data, offset, len(data))
    _check_fields(data, offset + 4, end, 1)
    return end


def _check_fields(data: bytes, offset: int, end: int, depth: int) -> None:
    _check_depth(depth)
    while offset < end:
        offset = _check_value(data, _key_end(data, offset, end), end, depth)


def _check_items(data: bytes, offset: int, end: int, depth: int) -> None:
    _check_depth(depth)
    while offset < end:
        offset = _check_value(data, offset, end, depth)


def _check_value(data: bytes, offset: int, end: int, depth: int) -> int:
    stop = _value_end(data, offset, end)
    kind = data[offset]
    if kind == _TABLE:
        _check_fields(data, offset + 5, stop, depth + 1)
    elif kind == _ARRAY:
        _check_items(data, offset + 5, stop, depth + 1)
    elif kind in (_DOUBLE, _FLOAT):
        _decode_float(data, kind, offset + 1)
    return stop


def split_fields(raw: bytes, offset: int) -> list[tuple[str, bytes]]:
    """The fields of the table at `offset`, each as its name and its encoded value (type octet first)."""
    end = _announced_end(raw, offset, len(raw))
    offset += 4
    fields: list[tuple[str, bytes]] = []
    while offset < end:
        at = _key_end(raw, offset, end)
        key = raw[offset + 1 : at].decode("utf-8", "surrogateescape")
        offset = _check_value(raw, at, end, 1)
        fields.append((key, raw[at:offset]))
    return fields


def join_fields(fields: list[tuple[str, bytes]]) -> bytes:
    """The table, with its 4-byte length, that `split_fields` took apart."""
    return _prefixed(b"".join([encode_shortstr(key) + value for key, value in fields]))
