"""Sums over nodes of counters with their rates and samples, as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrormq.admin.rates import detail

Fields = dict[str, Any]
DETAILS = "_details"


def add_fields(parts: Sequence[Fields]) -> Fields:
    """Each node works out its own rates, so one that comes or goes makes no leap in them. One node's are its own."""
    if len(parts) == 1:
        return dict(parts[0])
    names = list(dict.fromkeys(name for part in parts for name in part))
    return {name: _add([part[name] for part in parts if name in part], name) for name in names}


def _add(values: Sequence[Any], name: str) -> Any:
    if not name.endswith(DETAILS):
        return sum(values)
    rate = round(sum(value["rate"] for value in values), 3)
    sampled = [value["samples"] for value in values if "samples" in value]
    return detail(rate, _add_samples(sampled) if sampled else None)


def _add_samples(parts: Sequence[Sequence[dict[str, int]]]) -> list[dict[str, int]]:
    """By moment, newest first. A moment that not every node has reached yet would look like a fall."""
    parts = [part for part in parts if part]
    newest = min((part[0]["timestamp"] for part in parts), default=0)
    sums: dict[int, int] = {}
    for part in parts:
        for item in part:
            if item["timestamp"] <= newest:
                sums[item["timestamp"]] = sums.get(item["timestamp"], 0) + item["sample"]
    return [{"sample": sums[moment], "timestamp": moment} for moment in sorted(sums, reverse=True)]
