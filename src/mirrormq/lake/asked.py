"""What a report asks of the cluster, because the lake does not know it: how far the logs have come, redeliveries, who led.

A log tells what became of messages, not how often they were delivered; and that its ring changed, not whether its leader did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mirrormq.lake.client import Feed, FeedClient
from mirrormq.lake.errors import LakeError
from mirrormq.lake.history import TOP
from mirrormq.lake.tables import Place, Table

QUEUES: Final = 200  # that are asked for their leaders, one by one

Row = dict[str, Any]


@dataclass(frozen=True)
class Lag:
    """How far the lake is behind: when it was written, and for each queue of a cluster that was named, what it lacks."""

    commits: list[float]  # seconds since 1970, in order
    queues: list[Row] | None  # queue, in_the_log, in_the_lake, behind; None without a cluster

    @property
    def seconds(self) -> float:
        return max(0.0, datetime.now(UTC).timestamp() - self.commits[-1]) if self.commits else 0.0


@dataclass(frozen=True)
class Told:
    """`redelivered`: queue, delivered, redelivered; `leads`: the old and the new leader by queue and epoch."""

    feeds: list[Feed]
    redelivered: list[Row] | str  # or why it is not known
    leads: dict[tuple[str, int], tuple[str, str]]


def ask(client: FeedClient, changes: Sequence[Row]) -> Told:
    """`changes` are those of rings, as in the table `failovers`."""
    longest = sorted(changes, key=lambda row: -row["pause_seconds"])
    queues = list(dict.fromkeys(row["queue"] for row in longest if row["vhost"] == client.address.vhost))
    return Told(client.feeds(), redelivered(client), leads(client, queues[:QUEUES]))


def lag_of(place: Place, feeds: Sequence[Feed] | None) -> Lag:
    table = Table(place, "events")
    commits = sorted(entry["timestamp"] / 1000 for entry in table.history() if entry.get("operation") == "WRITE")
    if feeds is None:
        return Lag(commits, None)
    marks = table.next_indexes(feed.id for feed in feeds)
    rows: list[Row] = [
        {"queue": feed.name, "in_the_log": feed.end - 1, "in_the_lake": marks[feed.id] - 1, "behind": feed.end - marks[feed.id]}
        for feed in feeds
        if feed.id in marks
    ]
    return Lag(commits, sorted(rows, key=lambda row: (-row["behind"], row["queue"]))[:TOP])


def redelivered(client: FeedClient) -> list[Row] | str:
    """As the leaders have counted since they lead. Statistics are for users with a tag, unlike logs."""
    try:
        told = client.queues()
    except LakeError as problem:
        return problem.sentence
    counted = [(row["name"], row.get("message_stats", {})) for row in told]
    rows: list[Row] = [
        {"queue": name, "delivered": stats["deliver_get"], "redelivered": stats["redeliver"]}
        for name, stats in counted
        if stats.get("redeliver")
    ]
    return sorted(rows, key=lambda row: -row["redelivered"])[:TOP]


def leads(client: FeedClient, queues: Iterable[str]) -> dict[tuple[str, int], tuple[str, str]]:
    found: dict[tuple[str, int], tuple[str, str]] = {}
    for queue in queues:
        try:
            records = client.failovers(queue)
        except LakeError:  # it was deleted, or the user may not know
            continue
        found |= {(queue, record["epoch"]): (record["old_leader"], record["new_leader"]) for record in records}
    return found
