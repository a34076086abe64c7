"""What a report needs to know of the past, asked of the lake in SQL: small answers, however large the lake is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mirrormq.lake.views import failovers, messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKETS: Final = 60
TOP: Final = 12


@dataclass(frozen=True)
class History:
    """Lists of rows as dictionaries. Times are seconds since 1970."""

    first: float
    last: float
    entries: int
    step: float
    flows: list[dict[str, Any]]  # time, published, acknowledged, dropped, depth: for each bucket
    waits: list[dict[str, Any]]  # queue, ended, p50, p95, p99, longest
    ends: list[dict[str, Any]]  # queue, reason, count
    hot: list[dict[str, Any]]  # vhost, queue, entries, published, bytes
    failovers: list[dict[str, Any]]


def look(frame: DataFrame) -> History | None:
    """None where there is nothing at all."""
    spark = frame.sparkSession
    frame.createOrReplaceTempView("mirrormq_events")
    span = spark.sql(
        "SELECT count(*) AS entries, min(unix_millis(time)) / 1000 AS first, max(unix_millis(time)) / 1000 AS last "
        "FROM mirrormq_events"
    ).collect()[0]
    if not span["entries"]:
        return None
    first, last = float(span["first"]), float(span["last"])
    step = max((last - first) / BUCKETS, 0.001)
    lives = messages(frame)
    lives.createOrReplaceTempView("mirrormq_messages")
    return History(
        first,
        last,
        span["entries"],
        step,
        _flows(frame, first, step),
        _rows(frame, WAITS),
        _rows(frame, ENDS),
        _rows(frame, HOT),
        [row.asDict() for row in failovers(frame).orderBy("began").collect()],
    )


def _rows(frame: DataFrame, query: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.sparkSession.sql(query).collect()]


def _flows(frame: DataFrame, first: float, step: float) -> list[dict[str, Any]]:
    query = f"""
        SELECT bucket, sum(published) AS published, sum(acknowledged) AS acknowledged, sum(dropped) AS dropped
        FROM (SELECT least(floor((unix_millis(time) / 1000 - {first}) / {step}), {BUCKETS - 1}) AS bucket,
                     CASE WHEN kind = 'enqueue' THEN 1 ELSE 0 END AS published,
                     CASE WHEN kind = 'ack' THEN {SPAN} ELSE 0 END AS acknowledged,
                     CASE WHEN kind = 'drop' THEN {SPAN} ELSE 0 END AS dropped
              FROM mirrormq_events) GROUP BY bucket"""
    found = {int(row["bucket"]): row for row in _rows(frame, query)}
    flows: list[dict[str, Any]] = []
    depth = 0
    for bucket in range(max(found) + 1):
        row = found.get(bucket, {"published": 0, "acknowledged": 0, "dropped": 0})
        depth += row["published"] - row["acknowledged"] - row["dropped"]
        flows.append(
            {
                "time": first + bucket * step,
                "depth": depth,
                **{name: float(row[name]) / step for name in ("published", "acknowledged", "dropped")},
            }
        )
    return flows


SPAN: Final = "aggregate(ranges, 0L, (total, part) -> total + part.high - part.low + 1)"
WAITS: Final = f"""
    SELECT queue, count(*) AS ended, percentile_approx(seconds, 0.5) AS p50, percentile_approx(seconds, 0.95) AS p95,
           percentile_approx(seconds, 0.99) AS p99, max(seconds) AS longest
    FROM mirrormq_messages WHERE state = 'acknowledged' GROUP BY queue ORDER BY p95 DESC LIMIT {TOP}"""
ENDS: Final = f"""
    SELECT queue, reason, sum({SPAN}) AS count FROM mirrormq_events WHERE kind = 'drop'
    GROUP BY queue, reason ORDER BY count DESC LIMIT 40"""
HOT: Final = f"""
    SELECT vhost, queue, count(*) AS entries, sum(CASE WHEN kind = 'enqueue' THEN 1 ELSE 0 END) AS published,
           sum(CASE WHEN kind = 'enqueue' THEN body_size ELSE 0 END) AS bytes
    FROM mirrormq_events GROUP BY vhost, queue ORDER BY entries DESC LIMIT {TOP}"""
