"""Publishing data frames: each row once, whatever is repeated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import udf

from compat.support import quote, taken
from mirrormq.lake.errors import sentence_of

from .support import Node, fill, patiently, quiet

ROWS = int(os.environ.get("MIRRORMQ_LAKE_ROWS", "9000"))


def declare(channel: Any, queue: str = "out") -> None:
    channel.queue_declare(queue, durable=True)


def bodies(spark: Any, count: int = ROWS, partitions: int = 3) -> Any:
    return spark.range(0, count, 1, partitions).selectExpr(
        "concat('row ', id) AS body", "id % 7 AS priority", "cast(id AS string) AS message_id"
    )


def write(frame: Any, node: Node, vhost: str, queue: str = "out", **options: str) -> None:
    frame.write.format("mirrormq").mode("append").options(url=node.lake_url(), vhost=vhost, queue=queue, **options).save()


def test_a_data_frame_is_published_with_its_properties(spark: Any, node: Node, vhost: str, channel: Any) -> None:
    declare(channel)
    frame = spark.createDataFrame(
        [(b"one", "m1", {"a": "x"}, "ex", "key")],
        "body binary, message_id string, headers map<string,string>, exchange string, routing_key string",
    )
    write(frame, node, vhost)
    method, properties, body = channel.basic_get("out", auto_ack=True)
    assert (method.exchange, method.routing_key, body) == ("ex", "key", b"one")
    assert (properties.message_id, properties.headers, properties.delivery_mode) == ("m1", {"a": "x"}, 2)


@pytest.mark.long
def test_a_task_that_fails_and_a_batch_that_is_replayed_publish_nothing_twice(
    spark: Any, node: Node, vhost: str, channel: Any, tmp_path: Path
) -> None:
    declare(channel)
    marker = str(tmp_path / "failed")

    @udf("string", useArrow=False)
    def fail_once(body: str) -> str:
        if body == last and not os.path.exists(marker):  # noqa: PTH110 - runs in a worker
            open(marker, "w").close()  # noqa: PTH123
            raise RuntimeError("the task dies after most of its rows were sent")
        return body

    last = f"row {ROWS - 1}"
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        for _ in range(2):  # the second time as a batch that is replayed
            write(bodies(spark).withColumn("body", fail_once("body")), node, vhost, jobId="job")
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20000")
    assert Path(marker).exists()
    found = taken(channel, "out")
    assert sorted(found) == sorted(f"row {number}".encode() for number in range(ROWS))


def test_a_job_that_is_run_again_publishes_nothing_new(spark: Any, node: Node, vhost: str, channel: Any) -> None:
    declare(channel)
    for _ in range(2):
        write(bodies(spark, 500), node, vhost, jobId="nightly")
    write(bodies(spark, 10), node, vhost)
    assert channel.queue_declare("out", passive=True).method.message_count == 510


def test_a_batch_of_a_stream_that_is_replayed_publishes_nothing_twice(
    spark: Any, node: Node, vhost: str, channel: Any, tmp_path: Path
) -> None:
    declare(channel)
    fill(channel, "in", 400)
    quiet(node.client(vhost))
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        stream = (
            spark.readStream.format("mirrormq")
            .options(url=node.lake_url(), vhost=vhost, queue="in", rowsPerPartition="150")
            .load()
        )
        query = (
            stream.where("kind = 'enqueue'")
            .selectExpr("body", "index AS priority")
            .drop("priority")
            .writeStream.format("mirrormq")
            .options(url=node.lake_url(), vhost=vhost, queue="out", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(500)

    patiently(run)
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()  # as if Spark had died after the sink's commit and before its own
    patiently(run)
    assert sorted(taken(channel, "out")) == sorted(f"message {number}".encode() for number in range(400))


def test_what_was_published_is_known_after_a_crash_of_the_node(spark: Any, tmp_path: Path) -> None:
    from .support import start_node

    node = start_node(tmp_path)
    try:
        with node.channel("/") as channel:
            declare(channel)
        write(bodies(spark, 200), node, "/", jobId="j")
        node.kill()
        node.start()
        write(bodies(spark, 200), node, "/", jobId="j")
        with node.channel("/") as channel:
            assert len(taken(channel, "out")) == 200
    finally:
        node.stop()


def test_faults_are_sentences(spark: Any, node: Node, vhost: str, channel: Any) -> None:
    declare(channel)

    def refusal(frame: Any, **options: str) -> str:
        with pytest.raises(Exception) as problem:
            write(frame, node, vhost, **options)
        return sentence_of(problem.value)

    assert "needs a column 'body'" in refusal(spark.range(1))
    assert refusal(bodies(spark, 1, 1), queue="nowhere", patience="1") == f"no queue 'nowhere' in vhost '{vhost}'"
    node.api(
        "PUT",
        f"/api/queues/{quote(vhost)}/small",
        {"durable": True, "arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}},
    )
    assert refusal(bodies(spark, 5, 1), queue="small").startswith("queue 'small' is full and refuses messages: 3 of 5")
