"""JSON on one side, AMQP field tables and properties on the other."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from mirrormq.admin.errors import bad_request
from mirrormq.wire.properties import Properties
from mirrormq.wire.table import ByteArray, Table, Timestamp, Value
from mirrormq.wire.values import fits_int64

NUMBERS: Final = ("delivery_mode", "priority", "timestamp")
OCTET: Final = 255


def new_name(name: str) -> str:
    """Of a queue or exchange: a client could neither declare nor use it under bytes that are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise bad_request("Malformed UTF-8 in shortstr") from None
    return name


def to_table(arguments: object) -> Table:
    """Arguments of a body; an empty list, which some clients send for no arguments, is none."""
    if arguments is None or arguments == []:
        return {}
    if not isinstance(arguments, dict):
        raise bad_request("arguments are not a JSON object")
    return {key: _to_value(value) for key, value in arguments.items()}


def _to_value(value: object) -> Value:
    if value is None:
        raise bad_request("null_not_allowed")
    if isinstance(value, dict):
        return to_table(value)
    if isinstance(value, list):
        return [_to_value(item) for item in value]
    if isinstance(value, int) and not fits_int64(value):
        raise bad_request(["integer_too_large", value])
    assert isinstance(value, (bool, int, float, str))
    return value


def from_table(table: Table) -> dict[str, Any]:
    return {key: from_value(value) for key, value in sorted(table.items())}


def from_value(value: Value) -> Any:
    if isinstance(value, dict):
        return from_table(value)
    if isinstance(value, list):
        return [from_value(item) for item in value]
    if isinstance(value, ByteArray):
        return from_value(value.data)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Timestamp):
        return value.seconds
    return float(value) if isinstance(value, Decimal) else value


def to_properties(body: object) -> Properties:
    """Properties of a message to publish; names that AMQP does not know are passed over."""
    if body == []:
        body = {}
    if not isinstance(body, dict):
        raise bad_request("properties are not a JSON object")
    known = {name: _to_property(name, body[name]) for name in Properties.FIELDS if name in body}
    return Properties(**known)


def _to_property(name: str, value: object) -> Any:
    if name == "headers":
        return to_table(value)
    if name in NUMBERS:
        limit = (1 << 64) - 1 if name == "timestamp" else OCTET
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise bad_request(["not_int", name])
        return value
    if not isinstance(value, str) or len(value.encode("utf-8", "surrogatepass")) > OCTET:
        raise bad_request(["not_string", name])
    return value


def from_properties(properties: Properties) -> Any:
    """Those that are set; none at all is an empty list, as RabbitMQ has it."""
    shown: dict[str, Any] = {}
    for name in Properties.FIELDS:
        value = getattr(properties, name)
        if value is not None:
            shown[name] = from_table(value) if name == "headers" else value
    return shown or []
