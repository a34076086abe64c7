"""What a command prints: banners, sentences and tables, in the form that was asked for.

A table goes to a terminal with lines around it, and to anything else with tabs, as scripts expect. Banners are for
people: `--quiet` leaves them out, `--silent` the header of a table too; JSON and CSV never have them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from mirrormq.cli.ctl.terms import cell, erlang, plain

Row = dict[str, Any]
GREEN, YELLOW, RED = "32", "33", "31"
COLOURS: Final = {
    "running": GREEN, "enabled": GREEN, "up": GREEN, "flow": YELLOW, "blocked": YELLOW, "blocking": YELLOW, "closing": YELLOW,
    "down": RED, "crashed": RED,
}  # fmt: skip
"""Words in a table that a person should see at once."""


class Output:
    def __init__(self, formatter: str | None, *, is_quiet: bool, is_silent: bool, has_headers: bool) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.has_colour = self.is_terminal and not os.environ.get("NO_COLOR")
        self.formatter = formatter or ("terminal" if self.is_terminal else "table")
        self.is_quiet = is_quiet or is_silent
        self._has_headers = has_headers and not is_silent
        self._held: list[str] = []

    def hide_headers(self) -> None:
        self._has_headers = False

    @property
    def is_json(self) -> bool:
        return self.formatter == "json"

    def banner(self, text: str, *, at_once: bool = False) -> None:
        """Held back until there is more to print, or the command ends: some are refused before they begin."""
        if not self.is_quiet and self.formatter not in ("json", "csv"):
            self._held.append(text)
        if at_once:
            self.flush()

    def flush(self) -> None:
        held, self._held = self._held, []
        for text in held:
            print(text, flush=True)

    def say(self, text: str) -> None:
        self.flush()
        print(text)

    def title(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.has_colour else text

    def document(self, value: object) -> None:
        self.flush()
        print(json.dumps(value, separators=(",", ":"), ensure_ascii=False))

    def table(self, columns: Sequence[str], rows: Sequence[Row], *, is_boxed: bool = False) -> None:
        """`is_boxed` for the few tables that have lines also where nobody looks at them."""
        if is_boxed and self.formatter == "table":
            self.formatter = "pretty_table"
        self.flush()
        if self.formatter == "json":
            self._json(columns, rows)
        elif self.formatter == "erlang":
            lines = ["[" + ",".join(f"{{{name},{erlang(row[name])}}}" for name in columns) + "]" for row in rows]
            print("[" + ",\n ".join(lines) + "]")
        elif rows:
            self._cells(columns, [[cell(row[name]) for name in columns] for row in rows])

    def _json(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        lines = [json.dumps({name: plain(row[name]) for name in columns}, separators=(",", ":"), ensure_ascii=False)
                 for row in rows]
        print("[" + "".join(f"\n{',' if at else ''}{line}" for at, line in enumerate(lines)) + "\n]")

    def _cells(self, columns: Sequence[str], rows: list[list[str]]) -> None:
        if self.formatter == "csv":
            for line in ([list(columns)] if self._has_headers else []) + rows:
                print(",".join('"' + text.replace('"', '""') + '"' for text in line))
        elif self.formatter in ("pretty_table", "terminal"):
            self._boxed(columns, rows)
        else:
            for line in ([list(columns)] if self._has_headers else []) + rows:
                print("\t".join(line))

    def _boxed(self, columns: Sequence[str], rows: list[list[str]]) -> None:
        widths = [max(len(name), *(len(row[at]) for row in rows)) for at, name in enumerate(columns)]
        print(_rule("┌┬┐", widths))
        if self._has_headers:
            heads = [self.title(name) + " " * (width - len(name)) for name, width in zip(columns, widths, strict=True)]
            print("│ " + " │ ".join(heads) + " │")
            print(_rule("├┼┤", widths))
        for at, row in enumerate(rows):
            if at and self.formatter == "pretty_table":
                print(_rule("├┼┤", widths))
            cells = [self._coloured(text) + " " * (width - len(text)) for text, width in zip(row, widths, strict=True)]
            print("│ " + " │ ".join(cells) + " │")
        print(_rule("└┴┘", widths))


    def _coloured(self, text: str) -> str:
        colour = COLOURS.get(text) if self.has_colour else None
        return text if colour is None else f"\x1b[{colour}m{text}\x1b[0m"


def _rule(corners: str, widths: list[int]) -> str:
    return corners[0] + corners[1].join("─" * (width + 2) for width in widths) + corners[2]
