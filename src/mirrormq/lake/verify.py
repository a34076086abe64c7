"""Comparing a lake with the logs that it mirrors, entry by entry, and with itself.

Found are: addresses that are in the table twice, holes between addresses, bodies that are not what their checksum says, and, as
far as the logs still go back, entries that differ from the log or are missing here or there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrormq.lake.client import Address, FeedClient
from mirrormq.lake.schema import EVENTS
from mirrormq.lake.tables import Place, Table
from mirrormq.lake.views import events

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LIMIT: Final = 1000  # findings of one kind that are named; more are counted


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
    table = events(spark, place).where(_matches("queue", pattern)).cache()
    try:
        found = doubled(table) + holes(table) + changed(table)
        if address is not None:
            found += against_log(spark, place, table, address, pattern)
        return table.count(), sorted(set(found), key=lambda each: (each.queue, each.index, each.kind))
    finally:
        table.unpersist()


def _matches(column: str, pattern: str) -> Column:
    from pyspark.sql import functions as f

    return f.col(column).rlike(pattern)


def _findings(frame: DataFrame, kind: str) -> list[Finding]:
    """From rows with queue, queue_id, index and perhaps upto."""
    rows = frame.limit(LIMIT).collect()
    has_upto = "upto" in frame.columns
    return [Finding(kind, row["queue"], row["queue_id"], row["index"], row["upto"] if has_upto else 0) for row in rows]


def doubled(table: DataFrame) -> list[Finding]:
    return _findings(table.groupBy("queue", "queue_id", "index").count().where("count > 1"), "doubled")


def holes(table: DataFrame) -> list[Finding]:
    """Between two entries of a log there is nothing that is not in the table."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    once = table.select("queue", "queue_id", "index", "count").dropDuplicates(["queue_id", "index"])
    later = Window.partitionBy("queue_id").orderBy("index")
    gaps = once.withColumn("before", f.lag(f.col("index") + f.col("count")).over(later)).where("before < index")
    return _findings(gaps.select("queue", "queue_id", f.col("before").alias("index"), f.col("index").alias("upto")), "hole")


def changed(table: DataFrame) -> list[Finding]:
    wrong = table.where("kind = 'enqueue' AND body IS NOT NULL AND (crc32(body) <> body_crc OR length(body) <> body_size)")
    return _findings(wrong.select("queue", "queue_id", "index"), "changed body")


def against_log(spark: SparkSession, place: Place, table: DataFrame, address: Address, pattern: str) -> list[Finding]:
    """Each entry that the logs still have and the table should have, side by side."""
    from pyspark.sql import functions as f

    feeds = [feed for feed in FeedClient(address).feeds(pattern) if feed.state == "running"]
    ends = Table(place, "events").next_indexes(feed.id for feed in feeds)
    spans = [(feed, feed.earliest, min(feed.end, ends[feed.id])) for feed in feeds if feed.id in ends]
    found: list[Finding] = []
    for feed, first, upto in spans:
        if first >= upto:
            continue
        log = (
            spark.read.format("mirrormq")
            .options(
                url=",".join(address.urls),
                username=address.user,
                password=address.password,
                vhost=address.vhost,
                queue=feed.name,
                startingOffsets=f'{{"{feed.id}": {first}}}',
                endingOffsets=f'{{"{feed.id}": {upto}}}',
            )
            .load()
        )
        lake = table.where((f.col("queue_id") == feed.id) & (f.col("index") >= first) & (f.col("index") < upto))
        found += _compare(log, lake)
    return found


def _compare(log: DataFrame, lake: DataFrame) -> list[Finding]:
    from pyspark.sql import functions as f

    plain = [name for name in EVENTS.names if name not in ("headers", "body")]

    def digest(frame: DataFrame, name: str) -> DataFrame:
        parts = [f.to_json(f.struct(*plain)), f.to_json(f.struct("headers")), f.coalesce(f.hex("body"), f.lit(""))]
        return frame.select("queue", "queue_id", "index", f.xxhash64(*parts).alias(name))

    left, right = digest(log, "log"), digest(lake, "lake")
    both = left.join(right.drop("queue"), ["queue_id", "index"], "full").withColumn("queue", f.coalesce("queue", f.lit("?")))
    return (
        _findings(both.where("lake IS NULL"), "missing in the lake")
        + _findings(both.where("log IS NULL"), "not in the log")
        + _findings(both.where("log <> lake"), "differs from the log")
    )
