"""One HTML page about the past of queues, from the lake alone; with a cluster's address, a plan to balance its nodes too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mirrormq.lake import charts
from mirrormq.lake.client import Address, FeedClient
from mirrormq.lake.errors import LakeError
from mirrormq.lake.history import History, look
from mirrormq.lake.tables import Place, Table
from mirrormq.lake.views import events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin:2em 0 .4em;border-bottom:1px solid #ddd}
svg{width:100%;height:auto}svg text{font-size:12px;fill:#555}.grid{stroke:#e5e5e5}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid #eee}
td.n,th.n{text-align:right}
.legend span{margin-right:1.2em}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em}
.none,.note{color:#777}.tiles{display:flex;gap:2em;flex-wrap:wrap}.tiles b{display:block;font-size:1.4em}
"""


def write_report(
    spark: SparkSession,
    place: Place,
    output: Path,
    since_ms: int | None = None,
    plan: Path | None = None,
    address: Address | None = None,
) -> None:
    from pyspark.sql import functions as f

    frame = events(spark, place)
    if since_ms is not None:
        frame = frame.where(f.col("time") >= f.lit(datetime.fromtimestamp(since_ms / 1000, UTC)))
    frame = frame.drop("body", "raw_properties", "raw_address", "headers", "properties").cache()
    for name in ("body", "raw_properties", "raw_address", "headers", "properties"):
        frame = frame.withColumn(name, f.lit(None))
    history = look(frame)
    if history is None:
        raise LakeError(f"the lake at {place.uri} holds no entry of that time: there is nothing to report")
    moves = [] if address is None else balance(history, nodes_of(address), address.vhost)
    output.write_text(page(history, place, lag_of(place), moves), encoding="utf-8")
    if plan is not None:
        plan.write_text(json.dumps({"moves": moves}, indent=2) + "\n", encoding="utf-8")


def lag_of(place: Place) -> float:
    """Seconds since the last commit of the mirror."""
    times = [entry["timestamp"] for entry in Table(place, "events").history() if "timestamp" in entry]
    return max(0.0, datetime.now(UTC).timestamp() - max(times) / 1000) if times else 0.0


def nodes_of(address: Address) -> dict[str, tuple[str, ...]]:
    """For each queue who leads it, then who could."""
    return {feed.name: tuple(node for node, _ in feed.members) or (feed.node,) for feed in FeedClient(address).feeds()}


def balance(history: History, nodes: dict[str, tuple[str, ...]], vhost: str = "/") -> list[dict[str, Any]]:
    """Moves of hot queues from the busiest node to the idlest that mirrors them, as long as each makes the two more alike."""
    loads = dict.fromkeys((node for members in nodes.values() for node in members), 0)
    here = {row["queue"]: row["entries"] for row in history.hot if row["queue"] in nodes}
    for queue, load in here.items():
        loads[nodes[queue][0]] += load
    moves: list[dict[str, Any]] = []
    for queue, load in sorted(here.items(), key=lambda pair: -pair[1]):
        source, target = nodes[queue][0], min(nodes[queue], key=lambda node: loads[node])
        if source != target and loads[source] - load >= loads[target] + load:
            moves.append({"vhost": vhost, "queue": queue, "from": source, "to": target, "entries": load})
            loads[source] -= load
            loads[target] += load
    return moves


def page(history: History, place: Place, lag: float, moves: Sequence[dict[str, Any]]) -> str:
    times = [row["time"] for row in history.flows]
    flows = [(name, [row[name] for row in history.flows]) for name in ("published", "acknowledged", "dropped")]
    sections = [
        ("Rates, messages a second", charts.lines(times, flows)),
        ("Messages in the queues", charts.lines(times, [("ready and unacknowledged", [row["depth"] for row in history.flows])])),
        (
            "Time in queue, acknowledged messages, seconds",
            _table(history.waits, ("queue", "ended", "p50", "p95", "p99", "longest")),
        ),
        ("Hot queues, entries of the log", charts.bars([(row["queue"], [row["entries"]]) for row in history.hot], [])),
        ("Dropped and dead-lettered, by cause", _causes(history)),
        (
            "Redelivered and requeued",
            _table(history.again, ("queue", "redelivered", "requeued"))
            if history.again
            else '<p class="none">None that the log knows of.</p>',
        ),
        ("Failovers", _failovers(history)),
        ("Rebalance plan", _plan(moves)),
    ]
    body = "".join(f"<h2>{escape(title)}</h2>{content}" for title, content in sections)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>MirrorMQ lake report</title><style>{STYLE}</style>'
        f"<h1>MirrorMQ lake report</h1><p class=note>{escape(place.uri)}, {_moment(history.first)} to {_moment(history.last)} UTC"
        f"</p>{_tiles(history, lag)}{body}</html>\n"
    )


def _tiles(history: History, lag: float) -> str:
    published = sum(row["published"] for row in history.flows) * history.step
    ended = sum(row["acknowledged"] + row["dropped"] for row in history.flows) * history.step
    tiles = [
        ("entries", history.entries),
        ("messages published", published),
        ("messages ended", ended),
        ("failovers", len(history.failovers)),
        ("seconds since the last sync", round(lag)),
    ]
    return (
        '<div class="tiles">'
        + "".join(f"<div><b>{charts.number_text(round(value))}</b>{name}</div>" for name, value in tiles)
        + "</div>"
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _causes(history: History) -> str:
    reasons = sorted({row["reason"] for row in history.ends})
    queues = list(dict.fromkeys(row["queue"] for row in history.ends))
    counts = {(row["queue"], row["reason"]): row["count"] for row in history.ends}
    return charts.bars([(queue, [counts.get((queue, reason), 0) for reason in reasons]) for queue in queues], reasons)


def _failovers(history: History) -> str:
    if not history.failovers:
        return '<p class="none">None: no log changed its epoch.</p>'
    return _table(history.failovers, ("queue", "epoch", "began", "first_index", "pause_seconds", "verdict"))


def _plan(moves: Sequence[dict[str, Any]]) -> str:
    if not moves:
        return '<p class="none">Nothing to move, or no cluster was named with --url.</p>'
    return _table(list(moves), ("queue", "from", "to", "entries"))


def _table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    head = "".join(f"<th{_class(rows, name)}>{escape(name.replace('_', ' '))}</th>" for name in columns)
    lines = ["".join(f"<td{_class(rows, name)}>{_cell(row[name])}</td>" for name in columns) for row in rows]
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _class(rows: Sequence[dict[str, Any]], name: str) -> str:
    return ' class="n"' if rows and isinstance(rows[0][name], int | float) else ""


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return charts.number_text(value)
    return escape(value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else str(value))
