"""What can be asked of a lake: `events` as mirrored, and `messages` and `failovers`, which follow from it.

A message's life is put together from the entries about it: the one that enqueued it and the one that ended it. Transient messages
that never left memory are no entries (a `skip` counts them), so `messages` is complete for persistent ones.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from mirrormq.lake.schema import EVENTS, spark_schema
from mirrormq.lake.tables import Place, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ENDED: Final = """
    SELECT queue_id, explode(sequence(span.low, span.high)) AS index, kind, reason, time, ended_by
    FROM (SELECT queue_id, kind, reason, time, index AS ended_by, explode(ranges) AS span
          FROM {events} WHERE kind IN ('ack', 'drop'))
"""
MESSAGES: Final = """
    SELECT sent.vhost, sent.queue, sent.queue_id, sent.epoch, sent.index, sent.message_id, sent.exchange, sent.routing_key,
           sent.persistent, sent.properties, sent.headers, sent.publisher, sent.sequence, sent.body_size,
           CASE WHEN gone.kind IS NULL THEN 'live' WHEN gone.kind = 'ack' THEN 'acknowledged' ELSE gone.reason END AS state,
           sent.time AS enqueued, gone.time AS ended, gone.ended_by,
           (unix_micros(gone.time) - unix_micros(sent.time)) / 1e6 AS seconds,
           sent.raw_address, sent.raw_properties, sent.body
    FROM {events} sent LEFT JOIN ({ended}) gone ON sent.queue_id = gone.queue_id AND sent.index = gone.index
    WHERE sent.kind = 'enqueue'
"""
FAILOVERS: Final = """
    SELECT vhost, queue, queue_id, epoch, previous AS previous_epoch, first AS first_index, began, ended_before,
           (unix_micros(began) - unix_micros(ended_before)) / 1e6 AS pause_seconds,
           CASE WHEN first = next_before THEN 'nothing lost'
                ELSE concat('hole before index ', first) END AS verdict
    FROM (SELECT *, lag(epoch) OVER later AS previous, lag(last) OVER later AS ended_before, lag(next) OVER later AS next_before
          FROM (SELECT first(vhost) AS vhost, first(queue) AS queue, queue_id, epoch, min(index) AS first,
                       max(index + count) AS next, min(time) AS began, max(time) AS last
                FROM {events} GROUP BY queue_id, epoch)
          WINDOW later AS (PARTITION BY queue_id ORDER BY epoch))
    WHERE previous IS NOT NULL
"""


def events(spark: SparkSession, place: Place, version: int | None = None) -> DataFrame:
    files = Table(place, "events").files(version)
    schema = spark_schema(EVENTS)
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def upto(frame: DataFrame, moment_ms: int) -> DataFrame:
    """The events up to an instant: of each log, those before the first that is later. Clocks may jump, indexes do not."""
    from pyspark.sql import functions as f

    moment = f.lit(datetime.fromtimestamp(moment_ms / 1000, UTC))
    later = frame.where(f.col("time") > moment).groupBy("queue_id").agg(f.min("index").alias("cut"))
    joined = frame.join(f.broadcast(later), "queue_id", "left")
    return joined.where("cut IS NULL OR index < cut").drop("cut").select(*EVENTS.names)


def messages(frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView("mirrormq_events")
    ended = ENDED.format(events="mirrormq_events")
    return frame.sparkSession.sql(MESSAGES.format(events="mirrormq_events", ended=ended))


def failovers(frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView("mirrormq_events")
    return frame.sparkSession.sql(FAILOVERS.format(events="mirrormq_events"))


def register(spark: SparkSession, place: Place, moment_ms: int | None = None) -> None:
    """`events`, `messages` and `failovers` as views of the session."""
    frame = events(spark, place)
    if moment_ms is not None:
        frame = upto(frame, moment_ms)
    frame.createOrReplaceTempView("events")
    messages(frame).createOrReplaceTempView("messages")
    failovers(frame).createOrReplaceTempView("failovers")


def refresh(spark: SparkSession, place: Place) -> dict[str, int]:
    """Write `messages` and `failovers` as tables, for engines that know nothing of the views; returns their rows."""
    table = Table(place, "events")
    version = table.load().version()
    frame = events(spark, place, version)
    about = {"mirrormq.events-version": str(version)}
    made = {"messages": messages(frame), "failovers": failovers(frame)}
    return {name: _replace(rows, place, name, about) for name, rows in made.items()}


def _replace(frame: DataFrame, place: Place, name: str, about: dict[str, str]) -> int:
    """Spark writes the files into the table's folder, and one commit makes them the table."""
    table = Table(place, name, arrow_of(frame))
    table.create()
    folder = f"data/{uuid.uuid4().hex[:12]}"
    frame.write.option("compression", "zstd").parquet(f"{table.uri}/{folder}")
    files = table.found(folder)
    table.replace(files, about)
    return sum(file.rows for file in files)


def arrow_of(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")
