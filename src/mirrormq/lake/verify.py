"""Comparing a lake with the logs that it mirrors, entry by entry, and with itself.

Found are: addresses that are in the table twice, holes between addresses, bodies that are not what their checksum says, and, as
far as the logs still go back, entries that differ from the log or are missing here or there. How the members of a ring are
compared with each other is in `members`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrormq.lake.client import Address, FeedClient
from mirrormq.lake.schema import EVENTS
from mirrormq.lake.tables import Place, Table
from mirrormq.lake.views import events

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LIMIT: Final = 1000  # findings of one kind that are named


@dataclass(frozen=True)
class Finding:
    kind: str  # doubled, hole, changed body, differs, missing in the lake, not in the log
    queue: str
    queue_id: str
    index: int
    upto: int = 0  # of a hole: the index behind it

    def sentence(self) -> str:
        where = f"queue '{self.queue}' (log {self.queue_id})"
        if self.kind == "hole":
            return f"{where}: entries {self.index} to {self.upto - 1} are in no row of the lake"
        return f"{where}, entry {self.index}: {self.kind}"


def verify(spark: SparkSession, place: Place, address: Address | None = None, pattern: str = ".*") -> tuple[int, list[Finding]]:
    """How many rows were looked at, and what is wrong with them. Without an address only the lake itself is looked at."""
    from pyspark.sql import functions as f

    table = events(spark, place).where(f.col("queue").rlike(pattern)).cache()
    try:
        frames = [doubled(table), holes(table), changed(table)]
        if address is not None:
            frames.append(against_log(spark, place, table, address, pattern))
        found = findings(frames)
        return table.count(), sorted(found, key=lambda each: (each.queue, each.index, each.kind))
    finally:
        table.unpersist()


def findings(frames: list[DataFrame]) -> set[Finding]:
    """From frames with kind, queue, queue_id, index and upto, all in one job."""
    together = frames[0].limit(LIMIT)
    for frame in frames[1:]:
        together = together.unionByName(frame.limit(LIMIT))
    return {Finding(row["kind"], row["queue"], row["queue_id"], row["index"], row["upto"]) for row in together.collect()}


def as_findings(frame: DataFrame, kind: Column | str, upto: Column | None = None) -> DataFrame:
    from pyspark.sql import functions as f

    name = f.lit(kind) if isinstance(kind, str) else kind
    bound = f.lit(0) if upto is None else upto
    return frame.select(name.alias("kind"), "queue", "queue_id", "index", bound.cast("long").alias("upto"))


def doubled(table: DataFrame) -> DataFrame:
    return as_findings(table.groupBy("queue", "queue_id", "index").count().where("count > 1"), "doubled")


def holes(table: DataFrame) -> DataFrame:
    """Between two entries of a log there is nothing that is not in the table."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    once = table.select("queue", "queue_id", "index", "count").dropDuplicates(["queue_id", "index"])
    later = Window.partitionBy("queue_id").orderBy("index")
    gaps = once.withColumn("before", f.lag(f.col("index") + f.col("count")).over(later)).where("before < index")
    named = gaps.select("queue", "queue_id", f.col("before").alias("index"), f.col("index").alias("upto"))
    return as_findings(named, "hole", f.col("upto"))


def changed(table: DataFrame) -> DataFrame:
    wrong = table.where("kind = 'enqueue' AND body IS NOT NULL AND (crc32(body) <> body_crc OR length(body) <> body_size)")
    return as_findings(wrong, "changed body")


def against_log(spark: SparkSession, place: Place, table: DataFrame, address: Address, pattern: str) -> DataFrame:
    """Each entry that the logs still have and the table should have, side by side."""
    from pyspark.sql import functions as f

    feeds = [feed for feed in FeedClient(address).feeds(pattern) if feed.state == "running"]
    ends = Table(place, "events").next_indexes(feed.id for feed in feeds)
    upto = {feed.id: min(feed.end, ends.get(feed.id, 0)) for feed in feeds}
    first = {feed.id: min(feed.earliest, upto[feed.id]) for feed in feeds}
    spans = [(log_id, first[log_id], upto[log_id]) for log_id in first]
    options = {"url": ",".join(address.urls), "username": address.user, "password": address.password, "vhost": address.vhost,
               "queues": pattern, "startingOffsets": json.dumps(first), "endingOffsets": json.dumps(upto)}  # fmt: skip
    log = spark.read.format("mirrormq").options(**options).load() if spans else table.limit(0)
    bounds = spark.createDataFrame(spans, "queue_id string, first long, upto long")
    lake = table.join(f.broadcast(bounds), "queue_id").where("index >= first AND index < upto")
    return _compare(log, lake)


def digest(frame: DataFrame, name: str) -> DataFrame:
    """One number for each entry, in a column of that name."""
    from pyspark.sql import functions as f

    plain = [each for each in EVENTS.names if each not in ("headers", "body")]
    parts = [f.to_json(f.struct(*plain)), f.to_json(f.struct("headers")), f.coalesce(f.hex("body"), f.lit(""))]
    return frame.select("queue_id", "index", f.col("queue").alias(f"queue_{name}"), f.xxhash64(*parts).alias(name))


def _compare(log: DataFrame, lake: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    both = digest(log, "log").join(digest(lake, "lake"), ["queue_id", "index"], "full")
    named = both.withColumn("queue", f.coalesce("queue_log", "queue_lake"))
    kind = (f.when(f.col("lake").isNull(), "missing in the lake").when(f.col("log").isNull(), "not in the log")
            .otherwise("differs from the log"))  # fmt: skip
    return as_findings(named.where("log IS NULL OR lake IS NULL OR log <> lake"), kind)
