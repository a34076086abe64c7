"""Prometheus' text format: families with a type and a sentence, and their samples with labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER: Final = "counter"
GAUGE: Final = "gauge"
INFO: Final = "untyped"
Labels = Mapping[str, str]
Number = int | float


class Family(NamedTuple):
    name: str
    kind: str
    help: str


class Page:
    """What one scrape gets. Samples of one family stand together, whatever the order in which they come."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._families: dict[str, Family] = {}
        self._lines: dict[str, list[str]] = {}

    def add(self, family: Family, value: Number, labels: Labels | None = None) -> None:
        name = self.prefix + family.name
        self._families[name] = family
        self._lines.setdefault(name, []).append(f"{name}{_labels(labels)} {_number(value)}")

    def text(self) -> bytes:
        lines: list[str] = []
        for name, family in self._families.items():
            lines += [f"# TYPE {name} {family.kind}", f"# HELP {name} {family.help}", *self._lines[name]]
        return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _labels(labels: Labels | None) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: Number) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
