"""Reading queues in Spark: batches and streams by address."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mirror.live.rings import eventually
from mirrormq.lake.errors import sentence_of
from mirrormq.lake.options import read_options
from mirrormq.lake.source import StreamReader

from .support import Node, fill, patiently, quiet, settle

Reader = Callable[..., Any]


@pytest.fixture
def read(spark: Any, node: Node, vhost: str) -> Reader:
    def reader(**options: Any) -> Any:
        return spark.read.format("mirrormq").options(url=node.lake_url(), vhost=vhost, patience="30", **options).load()

    return reader


def test_a_queue_is_a_data_frame(read: Reader, node: Node, vhost: str, channel: Any) -> None:
    bodies = fill(channel, "orders", 500)
    settle(channel, "orders", 20)
    quiet(node.client(vhost))
    frame = read(queue="orders", rowsPerPartition="100")
    assert frame.rdd.getNumPartitions() == 6
    rows = frame.where("kind = 'enqueue'").orderBy("index").collect()
    assert [bytes(row.body) for row in rows] == bodies
    assert frame.where("kind = 'ack'").count() == 20
    assert channel.queue_declare("orders", passive=True).method.message_count == 480


def test_queues_are_chosen_by_pattern_and_columns_by_name(read: Reader, node: Node, vhost: str, channel: Any) -> None:
    for name in ("x.1", "x.2", "y.1"):
        fill(channel, name, 10)
    quiet(node.client(vhost))
    frame = read(queues=r"^x\.", columns="queue,index,kind")
    assert frame.columns == ["queue", "index", "kind"]
    assert {(row["queue"], row["count"]) for row in frame.groupBy("queue").count().collect()} == {("x.1", 10), ("x.2", 10)}
    assert "body" not in read(queue="y.1", includeBody="false").columns


def test_offsets_may_be_indexes_moments_or_ends(read: Reader, node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "q", 100)
    quiet(node.client(vhost))

    def indexes(**options: str) -> list[int]:
        return [row["index"] for row in read(queue="q", **options).select("index").orderBy("index").collect()]

    assert indexes(startingOffsets=json.dumps({"q": 90})) == list(range(90, 101))
    assert indexes(endingOffsets=json.dumps({"q": 5})) == [1, 2, 3, 4]
    assert indexes(startingOffsets="latest") == []
    assert indexes(startingTimestamp="2020-01-01T00:00:00Z", endingTimestamp="2020-01-02") == []
    assert len(indexes(startingTimestamp="0")) == 100


def test_filters_are_pushed_down_where_that_is_asked_for(read: Reader, node: Node, vhost: str, channel: Any) -> None:
    for name in ("a", "b"):
        fill(channel, name, 50)
    quiet(node.client(vhost))
    frame = read(queues=".*", pushFilters="true").where("queue = 'a' and index >= 40 and index < 45")
    assert [row["index"] for row in frame.orderBy("index").collect()] == [40, 41, 42, 43, 44]
    assert frame.rdd.getNumPartitions() == 1


@pytest.mark.parametrize(("options", "sentence"), [
    ({"queue": "nothing"}, "no queue of vhost .* matches"),
    ({"queue": "q", "password": "wrong", "username": "guest"}, "user 'guest' cannot log in"),
    ({"queue": "q", "startingOffsets": '{"q": 100000}', "endingOffsets": "latest"}, None),
    ({"queue": "q", "nonsense": "1"}, "no such option: nonsense"),
    ({"queue": "q", "columns": "colour"}, "no such column: colour"),
    ({"queue": "q", "startingTimestamp": "yesterday"}, "'yesterday' is no moment"),
])  # fmt: skip
def test_faults_are_sentences(read: Reader, channel: Any, options: dict[str, str], sentence: str | None) -> None:
    fill(channel, "q", 1)
    if sentence is None:
        assert read(**options).count() == 0
        return
    with pytest.raises(Exception) as problem:
        read(**options).count()
    assert "\n" not in sentence_of(problem.value)

    assert re.search(sentence, sentence_of(problem.value))


def test_a_trigger_takes_about_so_many_bytes(node: Node, vhost: str, channel: Any) -> None:
    for part in range(12):
        fill(channel, "t.1", 40, first=part * 40)
    fill(channel, "t.2", 5)
    client = node.client(vhost)
    feeds = {feed.id: feed for feed in quiet(client)}
    given = {"url": node.lake_url(), "vhost": vhost, "queues": "^t", "maxBytesPerTrigger": "9000"}
    reader = StreamReader(read_options(given))
    reader.prepareForTriggerAvailableNow()
    at = reader.initialOffset()
    steps = 0
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        sizes = [len(client.read(feed.name, feed.id, at[feed.id]["next"], end[feed.id]["next"])) for feed in feeds.values()
                 if end[feed.id]["next"] > at[feed.id]["next"]]  # fmt: skip
        assert sum(sizes) <= 12_000
        at = end
        steps += 1
    assert steps > 3
    assert {log_id: place["next"] for log_id, place in at.items()} == {feed.id: feed.end for feed in feeds.values()}


def test_a_stream_reads_everything_once_and_finds_new_queues(
    spark: Any, node: Node, vhost: str, channel: Any, tmp_path: Path
) -> None:
    fill(channel, "s.1", 120)
    quiet(node.client(vhost))

    def run(rows: str = "50") -> None:
        stream = (
            spark.readStream.format("mirrormq")
            .options(url=node.lake_url(), vhost=vhost, queues=r"^s\.", maxRowsPerTrigger=rows, mirror="stream")
            .load()
        )
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(500)

    def found() -> list[tuple[str, int]]:
        rows = spark.read.parquet(str(tmp_path / "out")).select("queue", "index").collect()
        return sorted((row["queue"], row["index"]) for row in rows)

    patiently(run)
    assert found() == [("s.1", index) for index in range(1, 121)]
    fill(channel, "s.1", 30, first=120)
    fill(channel, "s.2", 20)
    feeds = quiet(node.client(vhost))
    patiently(partial(run, "1000"))
    assert found() == [(feed.name, index) for feed in feeds for index in range(1, feed.end)]
    eventually(lambda: any(row["name"] == "stream" for row in node.api("GET", f"/api/lake-mirrors/{vhost}")))
