"""Rows of a query on a terminal, or for another program."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


PIPED_WIDTH: Final = 250


def show(frame: DataFrame, limit: int, form: str) -> None:
    rows = frame.limit(limit + 1).collect()
    shown = [[_plain(value) for value in row] for row in rows[:limit]]
    if form == "json":
        for values in shown:
            print(json.dumps(dict(zip(frame.columns, values, strict=True)), default=str))
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerows([frame.columns, *shown])
    else:
        _table(frame.columns, shown, has_more=len(rows) > limit)


def _table(columns: list[str], rows: list[list[Any]], *, has_more: bool) -> None:
    table = Table(*columns)
    for values in rows:
        table.add_row(*("" if value is None else str(value) for value in values))
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(table)
    if has_more:
        console.print("There are more rows: see --limit.")


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray | bytes):
        return bytes(value).decode("utf-8", "backslashreplace")
    if hasattr(value, "asDict"):
        return {name: part for name, part in value.asDict(recursive=True).items() if part is not None}
    return value
