"""export_definitions and import_definitions: to and from a file, `-` for the standard streams."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import DATA, Failure, Misuse, refused


def _check_format(context: Context) -> None:
    given = (context.text("format") or "json").lower()
    if given != "json":
        raise Misuse(f"Bad argument: format {given} is not supported; definitions are JSON", DATA)


def export_definitions(context: Context) -> None:
    _check_format(context)
    target = context.arg(0)
    path = Path(target)
    if target != "-" and not path.parent.is_dir():
        raise Misuse(f"Bad argument: Directory {path.parent} does not exist", DATA)
    if target != "-":
        context.out.banner(f'Exporting definitions in JSON to a file at "{target}" ...')
    text = json.dumps(context.client.get("/api/definitions"), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    if target == "-":
        context.out.say(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise Failure(DATA, f"{target} cannot be written: {fault.strerror}") from None


def import_definitions(context: Context) -> None:
    _check_format(context)
    source = context.args[0] if context.args else "-"
    if source != "-" and not Path(source).is_file():
        raise Misuse(f"Bad argument: File {source} does not exist", DATA)
    where = "standard input" if source == "-" else f'a file at "{source}"'
    context.out.banner(f"Importing definitions in JSON from {where} ...")
    answer = context.client.request("POST", "/api/definitions", _parsed(_read(source)))
    if not answer.is_good:
        raise refused(answer.reason)
    context.out.banner("Successfully imported definitions.")
    context.done()


def _read(source: str) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except OSError as fault:
        raise Failure(DATA, f"{source} cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError as fault:
        raise Failure(DATA, f"Failed to deserialise input (format: JSON) (error: {fault})") from None


def _parsed(text: str) -> Any:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise Failure(DATA, f"Failed to deserialise input (format: JSON) (error: {fault})") from None
    if not isinstance(document, dict):
        raise Failure(DATA, "Failed to deserialise input (format: JSON) (error: not an object)")
    return document
