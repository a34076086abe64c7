"""A queue's content as of an instant, computed from the lake and published into a queue, here or in another cluster.

What is restored is what was ready or unacknowledged then: enqueued and not yet gone. In order, with properties and bodies to the
byte. It is published as a numbered run, so that a restore that broke off can be resumed under its number and doubles nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from mirrormq.lake.client import Address, FeedClient
from mirrormq.lake.errors import LakeError
from mirrormq.lake.tables import Place
from mirrormq.lake.views import events, messages, upto

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PREVIEW: Final = 10


@dataclass(frozen=True)
class Preview:
    """What a restore would publish."""

    queue: str
    count: int
    bytes: int
    oldest: datetime | None
    newest: datetime | None
    first: list[str]

    def sentence(self) -> str:
        if not self.count:
            return f"queue '{self.queue}' held no message then"
        return (
            f"queue '{self.queue}' held {self.count:,} messages of {self.bytes:,} bytes then, enqueued from "
            f"{self.oldest:%Y-%m-%d %H:%M:%S} to {self.newest:%Y-%m-%d %H:%M:%S} UTC"
        )


def content(spark: SparkSession, place: Place, queue: str, vhost: str, moment_ms: int | None, queue_id: str = "") -> DataFrame:
    """The messages of a queue at an instant, or now; of its newest life, unless the log is named."""
    frame = events(spark, place).where((_is("queue", queue)) & (_is("vhost", vhost)))
    if moment_ms is not None:
        frame = upto(frame, moment_ms)
    lives = frame.groupBy("queue_id").agg({"time": "max"}).orderBy("max(time)", ascending=False).collect()
    if not lives:
        raise LakeError(f"the lake knows no queue '{queue}' in vhost '{vhost}' at that time")
    wanted = queue_id or lives[0]["queue_id"]
    return messages(frame.where(_is("queue_id", wanted))).where("state = 'live'")


def _is(column: str, value: str) -> Column:
    from pyspark.sql import functions as f

    return f.col(column) == f.lit(value)


def preview(frame: DataFrame, queue: str) -> Preview:
    row = frame.selectExpr(
        "count(*) AS count", "coalesce(sum(body_size), 0) AS bytes", "min(enqueued) AS oldest", "max(enqueued) AS newest"
    ).collect()[0]
    first = frame.orderBy("index").limit(PREVIEW).select("index", "enqueued", "routing_key", "body_size", "body").collect()
    lines = [
        f"{each['index']:>10}  {each['enqueued']:%H:%M:%S}  {each['routing_key']}  {each['body_size']} bytes  "
        f"{bytes(each['body'] or b'')[:60]!r}"
        for each in first
    ]
    return Preview(queue, row["count"], row["bytes"], row["oldest"], row["newest"], lines)


def restore(frame: DataFrame, address: Address, queue: str, run: str = "") -> str:
    """Publish; returns the number of the run."""
    run = run or uuid.uuid4().hex[:12]
    ensure_queue(FeedClient(address), queue)
    # One partition: the order of a queue is the order of one publisher.
    ordered = frame.select("index", "raw_address", "raw_properties", "body").repartition(1).sortWithinPartitions("index")
    (
        ordered.drop("index")
        .write.format("mirrormq")
        .mode("append")
        .options(
            url=",".join(address.urls),
            username=address.user,
            password=address.password,
            vhost=address.vhost,
            queue=queue,
            jobId=f"restore/{run}",
        )
        .save()
    )
    return run


def ensure_queue(client: FeedClient, queue: str) -> None:
    pattern = "^" + "".join(letter if letter.isalnum() else "\\" + letter for letter in queue) + "$"
    if not client.feeds(pattern):
        path = f"/api/queues/{quote(client.address.vhost, safe='')}/{quote(queue, safe='')}"
        client.ask("PUT", path, {}, b'{"durable": true}')
