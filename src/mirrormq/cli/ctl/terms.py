"""Values in the notation of RabbitMQ's command line: `[{"x-max-priority",10}]`, and process numbers."""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

INT32 = 1 << 31


class Arguments(NamedTuple):
    """A table of arguments, as the API shows it."""

    table: dict[str, Any]


class Tags(NamedTuple):
    names: list[str]


class Pids(NamedTuple):
    """Of a mirrored queue's copies, one for each of these nodes."""

    nodes: list[str]
    of: str

    def names(self) -> list[str]:
        return [pid(node, "queue", self.of) for node in self.nodes]


def pid(node: str, *parts: object) -> str:
    """Something like a process number, the same for the same thing."""
    number = zlib.crc32(" ".join(map(str, parts)).encode("utf-8", "replace"))
    return f"<{node}.1.{number}.0>"


def cell(value: object) -> str:
    """A value in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _printable(value)
    if isinstance(value, Tags):
        return "[" + ", ".join(value.names) + "]"
    if isinstance(value, Pids):
        return "[" + ", ".join(value.names()) + "]"
    if isinstance(value, Arguments):
        return term(value.table)
    return term(value) if isinstance(value, (dict, list)) else str(value)


def _printable(text: str) -> str:
    """One line, whatever a client chose for a name."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def term(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs = [f"{{{json.dumps(key, ensure_ascii=False)},{term(item)}}}" for key, item in value.items()]
        return "[" + ",".join(pairs) + "]"
    if isinstance(value, list):
        return "[" + ",".join(term(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def erlang(value: object) -> str:
    """For `--formatter erlang`."""
    if isinstance(value, str):
        return f'<<"{value}">>'
    if value is None:
        return "undefined"
    if isinstance(value, Tags):
        return "[" + ",".join(value.names) + "]"
    return cell(value)


def plain(value: object) -> object:
    """For JSON: arguments carry the types that AMQP has for them."""
    if isinstance(value, Arguments):
        return [_typed(name, item) for name, item in value.table.items()]
    if isinstance(value, Pids):
        return value.names()
    return list(value.names) if isinstance(value, Tags) else value


def _typed(name: str, value: object) -> list[object]:
    if isinstance(value, dict):
        return [name, "table", [_typed(key, item) for key, item in value.items()]]
    if isinstance(value, list):
        return [name, "array", [_typed("", item)[1:] for item in value]]
    return [name, _type(value), value]


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -INT32 <= value < INT32 else "long"
    return "double" if isinstance(value, float) else "longstr"
