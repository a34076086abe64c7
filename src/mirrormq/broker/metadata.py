"""What must outlive the process, as keys and values: vhosts, users, permissions, policies, and whatever is durable.

A key is a JSON list such as `["queue", "/", "orders"]`; a value is a JSON object. Field table types that JSON lacks are wrapped.
"""
from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

from mirrormq.wire.table import ByteArray, Table, Timestamp, Value

Record = dict[str, Any]


def key(*parts: str) -> str:
    return json.dumps(parts, ensure_ascii=True)


def below(*parts: str) -> str:
    """How the keys of everything under these parts begin."""
    return json.dumps(parts, ensure_ascii=True)[:-1] + ", "


def parts(text: str) -> list[str]:
    found: list[str] = json.loads(text)
    return found


def pack(table: Table) -> Record:
    return {name: _pack(value) for name, value in table.items()}


def _pack(value: Value) -> Any:
    if isinstance(value, bytes):
        return {"!": "bytes", "value": base64.b64encode(value).decode()}
    if isinstance(value, ByteArray):
        return {"!": "array", "value": base64.b64encode(value.data).decode()}
    if isinstance(value, Timestamp):
        return {"!": "time", "value": value.seconds}
    if isinstance(value, Decimal):
        return {"!": "decimal", "value": str(value)}
    if isinstance(value, dict):
        return {"!": "table", "value": pack(value)}
    if isinstance(value, list):
        return [_pack(item) for item in value]
    return value


def unpack(record: Record) -> Table:
    return {name: _unpack(value) for name, value in record.items()}


def _unpack(value: Any) -> Value:
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    if not isinstance(value, dict):
        plain: Value = value
        return plain
    kind, inner = value["!"], value["value"]
    if kind == "bytes":
        return base64.b64decode(inner)
    if kind == "array":
        return ByteArray(base64.b64decode(inner))
    if kind == "time":
        return Timestamp(inner)
    return Decimal(inner) if kind == "decimal" else unpack(inner)
