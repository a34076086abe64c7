"""What must outlive the process, as keys and values: vhosts, users, permissions, policies, and whatever is durable.

A key is a JSON list such as `["queue", "/", "orders"]`; a value is a JSON object. Field table types that JSON lacks are wrapped.
The broker notes each change in its journal; the node writes the journal to its store and says when it is stable.
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


class Journal:
    """Changes not yet given to the node, and who waits for them."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str | None]] = []
        self.written: int = 0           # how many changes were noted so far
        self.stable: int = 0            # how many of them are stable

    def put(self, name: str, record: Record) -> None:
        self.changes.append((name, json.dumps(record, ensure_ascii=True)))
        self.written += 1

    def delete(self, name: str) -> None:
        self.changes.append((name, None))
        self.written += 1

    def take(self) -> list[tuple[str, str | None]]:
        changes = self.changes
        self.changes = []
        return changes
