"""The values a field table can hold, and RabbitMQ's names for their types."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias


class Timestamp:
    """Seconds since 1970, a type of its own on the wire."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __int__(self) -> int:
        return self.seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and other.seconds == self.seconds

    def __hash__(self) -> int:
        return hash(("timestamp", self.seconds))

    def __repr__(self) -> str:
        return f"Timestamp({self.seconds})"


class ByteArray:
    """Bytes sent as RabbitMQ's binary type; plain `bytes` are a long string that is not text."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __bytes__(self) -> bytes:
        return self.data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteArray) and other.data == self.data

    def __hash__(self) -> int:
        return hash(("binary", self.data))

    def __repr__(self) -> str:
        return f"ByteArray({self.data!r})"


Value: TypeAlias = "bool | int | float | Decimal | str | bytes | Timestamp | ByteArray | list[Value] | Table | None"
Table: TypeAlias = "dict[str, Value]"


def fits_int32(value: int) -> bool:
    return -0x80000000 <= value <= 0x7FFFFFFF


def fits_int64(value: int) -> bool:
    return -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF


def type_name(value: Value) -> str:
    """What RabbitMQ calls the type in its error texts."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if fits_int32(value) else "long"
    if isinstance(value, (str, bytes)):
        return "longstr"
    if isinstance(value, dict):
        return "table"
    if isinstance(value, list):
        return "array"
    return _rare_type_name(value)


def _rare_type_name(value: float | Decimal | Timestamp | ByteArray | None) -> str:
    if value is None:
        return "void"
    if isinstance(value, float):
        return "double"
    if isinstance(value, Timestamp):
        return "timestamp"
    return "binary" if isinstance(value, ByteArray) else "decimal"
