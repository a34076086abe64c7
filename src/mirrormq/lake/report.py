"""One HTML page about the past of queues, from the lake alone; with a cluster's address, a plan to balance its nodes too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mirrormq.lake import charts
from mirrormq.lake.asked import Lag, Told, ask, lag_of
from mirrormq.lake.client import Address, Feed, FeedClient
from mirrormq.lake.errors import LakeError
from mirrormq.lake.history import History, look
from mirrormq.lake.tables import Place
from mirrormq.lake.views import events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILOVERS: Final = 40  # with the longest pauses; a node that leads thousands of queues makes thousands when it dies
STYLE: Final = """
:root{color-scheme:light dark;--ink:#222;--paper:#fff;--pale:#6b6b6b;--rule:#ddd;--grid:#e5e5e5}
@media (prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#181a1d;--pale:#9a9a9a;--rule:#3a3d42;--grid:#2c2f33}}
body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:var(--ink);background:var(--paper)}
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin:2em 0 .4em;border-bottom:1px solid var(--rule)}
svg{width:100%;height:auto}svg text{font-size:12px;fill:var(--pale)}.grid{stroke:var(--grid)}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid var(--grid)}
td.n,th.n{text-align:right}td{overflow-wrap:break-word}td.n,td.t{white-space:nowrap}
.legend span{margin-right:1.2em}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em}
.none,.note{color:var(--pale)}.tiles{display:flex;gap:2em;flex-wrap:wrap}.tiles b{display:block;font-size:1.4em}
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
    told = None if address is None else ask(FeedClient(address), history.failovers)
    moves = None if told is None or address is None else balance(history, nodes_of(told.feeds), address.vhost)
    output.write_text(page(history, place, lag_of(place, None if told is None else told.feeds), told, moves), encoding="utf-8")
    if plan is not None:
        plan.write_text(json.dumps({"moves": moves or []}, indent=2) + "\n", encoding="utf-8")


def nodes_of(feeds: Sequence[Feed]) -> dict[str, tuple[str, ...]]:
    """For each queue who leads it, then who could."""
    return {feed.name: tuple(node for node, _ in feed.members) or (feed.node,) for feed in feeds}


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


def page(
    history: History, place: Place, lag: Lag, told: Told | None = None, moves: Sequence[dict[str, Any]] | None = None
) -> str:
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
        ("Redelivered", _redelivered(told)),
        ("Lag of the lake, seconds since it was written last", _lag(history, lag)),
        ("Failovers", _failovers(history, told)),
        ("Rebalance plan", _plan(moves)),
    ]
    body = "".join(f"<h2>{escape(title)}</h2>{content}" for title, content in sections)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>MirrorMQ lake report</title><style>{STYLE}</style>'
        f"<h1>MirrorMQ lake report</h1><p class=note>{escape(place.uri)}, {_moment(history.first)} to {_moment(history.last)} UTC"
        f"</p>{_tiles(history, lag.seconds, told)}{body}</html>\n"
    )


def _tiles(history: History, lag: float, told: Told | None) -> str:
    published = sum(row["published"] for row in history.flows) * history.step
    ended = sum(row["acknowledged"] + row["dropped"] for row in history.flows) * history.step
    tiles = [
        ("entries", history.entries),
        ("messages published", published),
        ("messages ended", ended),
        ("changes of rings", len(history.failovers)) if told is None else ("failovers", len(_moved(history, told))),
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


def _redelivered(told: Told | None) -> str:
    if told is None:
        return '<p class="none">The log does not tell of redeliveries, the cluster counts them: name it with --url.</p>'
    if isinstance(told.redelivered, str):
        return f'<p class="none">The cluster does not tell: {escape(told.redelivered)}</p>'
    if not told.redelivered:
        return '<p class="none">None since the queues have their leaders.</p>'
    note = '<p class="note">Since the queues have their leaders.</p>'
    return _table(told.redelivered, ("queue", "delivered", "redelivered")) + note


def _failovers(history: History, told: Told | None) -> str:
    """A ring has a new epoch also when a mirror leaves or comes; then the leader stays."""
    if not history.failovers:
        return '<p class="none">None: no log changed its epoch.</p>'
    columns = ("began", "pause_seconds", "verdict")
    if told is None:
        note = "Some may be of mirrors that left or came: who led, the cluster knows; name it with --url."
        return _longest(history.failovers, ("queue", "epoch", *columns)) + f'<p class="note">{note}</p>'
    moved = _moved(history, told)
    none = '<p class="none">No queue changed its leader.</p>'
    stayed = [row for row in history.failovers if (row["queue"], row["epoch"]) not in told.leads]
    return (_longest(moved, ("queue", "from", "to", *columns)) if moved else none) + _stayed(stayed)


def _moved(history: History, told: Told) -> list[dict[str, Any]]:
    leads = [(row, told.leads.get((row["queue"], row["epoch"]))) for row in history.failovers]
    return [row | {"from": pair[0], "to": pair[1]} for row, pair in leads if pair is not None]


def _longest(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Those with the longest pauses, by time."""
    longest = sorted(rows, key=lambda row: -row["pause_seconds"])[:FAILOVERS]
    rest = len(rows) - len(longest)
    note = f'<p class="note">And {charts.number_text(rest)} more, with shorter pauses.</p>' if rest else ""
    return _table(sorted(longest, key=lambda row: (row["began"], row["queue"])), columns) + note


def _stayed(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lost = sum(row["verdict"] != "nothing lost" for row in rows)
    verdict = f"{charts.number_text(lost)} of them with a hole" if lost else "nothing lost"
    return (
        f'<p class="note">And {charts.number_text(len(rows))} changes of rings whose leaders stayed, as mirrors left or came: '
        f"{verdict}.</p>"
    )


def _lag(history: History, lag: Lag) -> str:
    """The age of what the lake holds rises until the next commit."""
    commits = [moment for moment in lag.commits if moment >= history.first]
    points = [(history.first, 0.0)]
    for moment in commits:
        points += [(moment, moment - points[-1][0]), (moment, 0.0)]
    times, ages = [moment for moment, _ in points], [age for _, age in points]
    drawn = charts.lines(times, [("", ages)])
    if lag.queues is None:
        return drawn + '<p class="none">How many entries that is, the cluster knows: name it with --url.</p>'
    return drawn + (_table(lag.queues, ("queue", "in_the_log", "in_the_lake", "behind")) if lag.queues else "")


def _plan(moves: Sequence[dict[str, Any]] | None) -> str:
    if moves is None:
        return '<p class="none">No cluster was named with --url.</p>'
    if not moves:
        return '<p class="none">Nothing to move: no move would make the nodes more alike.</p>'
    return _table(list(moves), ("queue", "from", "to", "entries"))


def _table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    head = "".join(f"<th{_class(rows, name)}>{escape(name.replace('_', ' '))}</th>" for name in columns)
    lines = ["".join(f"<td{_class(rows, name)}>{_cell(row[name])}</td>" for name in columns) for row in rows]
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _class(rows: Sequence[dict[str, Any]], name: str) -> str:
    """Of numbers and of times."""
    first = rows[0][name] if rows else ""
    return ' class="n"' if isinstance(first, int | float) else ' class="t"' if isinstance(first, datetime) else ""


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return charts.number_text(value)
    return escape(value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else str(value))
