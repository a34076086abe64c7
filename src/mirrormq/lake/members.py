"""Comparing the members of rings with each other, entry by entry: every member must have the same under the same address.

Each member's log is read from that member alone, as far as all of them have it: from the latest beginning to the earliest end.
Entries are compared with the leader's.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from mirrormq.lake.client import ONLY, Address, Feed, FeedClient
from mirrormq.lake.ranges import served
from mirrormq.lake.verify import Finding, as_findings, digest, findings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def verify_members(spark: SparkSession, address: Address, pattern: str = ".*") -> tuple[int, list[Finding]]:
    """How many entries were compared, and each that is missing, doubled or different on a member."""
    client = FeedClient(address)
    served(client, pattern)
    feeds = [feed for feed in client.feeds(pattern, with_copies=True) if len(feed.members) > 1]
    found = {
        Finding(f"not compared, for {node} does not answer", feed.name, feed.id, 0) for feed in feeds for node in _silent(feed)
    }
    pairs = _pairs(spark, address, feeds)
    found |= findings([compare(leader, mirror, node) for leader, mirror, node in pairs]) if pairs else set()
    rows = sum(upto - first for feed in feeds if len(feed.copies) > 1 for first, upto in [common(feed)])
    return rows, sorted(found, key=lambda each: (each.queue, each.index, each.kind))


def _silent(feed: Feed) -> list[str]:
    told = {node for node, _, _ in feed.copies}
    return [node for node, _ in feed.members if node not in told]


def common(feed: Feed) -> tuple[int, int]:
    """What all members that answer have."""
    first = max(earliest for _, earliest, _ in feed.copies)
    return first, max(first, min(end for _, _, end in feed.copies))


def _pairs(spark: SparkSession, address: Address, feeds: list[Feed]) -> list[tuple[DataFrame, DataFrame, str]]:
    """For each pair of a leader and a mirror, the queues that they share, as both have them, and the mirror's name."""
    pairs: dict[tuple[str, str], list[Feed]] = {}
    for feed in feeds:
        nodes = [node for node, _, _ in feed.copies]
        leader = feed.node if feed.node in nodes else (nodes or [""])[0]
        for node in nodes:
            if node != leader:
                pairs.setdefault((leader, node), []).append(feed)
    return [(log_of(spark, address, leader, shared), log_of(spark, address, node, shared), node)
            for (leader, node), shared in sorted(pairs.items())]  # fmt: skip


def log_of(spark: SparkSession, address: Address, node: str, feeds: list[Feed]) -> DataFrame:
    """The common part of these queues' logs, as this node has it."""
    spans = {feed.id: common(feed) for feed in feeds}
    names = "|".join(re.escape(feed.name) for feed in feeds)
    options = {
        "url": ",".join(address.urls),
        "username": address.user,
        "password": address.password,
        "vhost": address.vhost,
        "queues": f"^({names})$",
        "nodes": ONLY + node,
        "startingOffsets": json.dumps({log_id: first for log_id, (first, _) in spans.items()}),
        "endingOffsets": json.dumps({log_id: upto for log_id, (_, upto) in spans.items()}),
    }
    return spark.read.format("mirrormq").options(**options).load()


def compare(leader: DataFrame, mirror: DataFrame, node: str) -> DataFrame:
    """Findings about a mirror, as `verify.findings` wants them, in one pass over both logs."""
    from pyspark.sql import functions as f

    logs = digest(leader, "hash").withColumn("here", f.lit(0)).unionByName(digest(mirror, "hash").withColumn("here", f.lit(1)))
    entries = logs.groupBy("queue_id", "index").agg(
        f.max("queue_hash").alias("queue"),
        f.sum(1 - f.col("here")).alias("led"),
        f.sum("here").alias("mirrored"),
        (f.min("hash") != f.max("hash")).alias("is_unlike"),
    )
    kind = (f.when(f.col("mirrored") == 0, f"missing on {node}").when(f.col("led") == 0, f"only on {node}")
            .when(f.col("mirrored") > 1, f"doubled on {node}").when(f.col("led") > 1, "doubled on its leader")
            .otherwise(f"differs on {node} from its leader"))  # fmt: skip
    return as_findings(entries.where("led <> 1 OR mirrored <> 1 OR is_unlike"), kind)
