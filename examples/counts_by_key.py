"""A streaming aggregation written back to a queue: how many messages have come with each routing key, whenever that changes.

    python examples/counts_by_key.py http://guest:guest@localhost:15672 orders counts /var/lib/counts

The checkpoint says how far the stream is. Each batch is published under a name of its own, so a batch that is repeated because
the run before was killed publishes nothing twice.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame

from mirrormq.lake.engine import session

url, source, target, checkpoint = sys.argv[1:5]
spark = session()
log = spark.readStream.format("mirrormq").options(url=url, queue=source, includeBody="false").load()
counts = log.where("kind = 'enqueue'").groupBy("routing_key").count()
messages = counts.selectExpr("to_json(struct(routing_key, count)) AS body", "'application/json' AS content_type")


def publish(batch: DataFrame, number: int) -> None:
    batch.write.format("mirrormq").mode("append").options(url=url, queue=target, jobId=f"{checkpoint}/{number}").save()


changes = messages.writeStream.outputMode("update").option("checkpointLocation", checkpoint).foreachBatch(publish)
changes.trigger(availableNow=True).start().awaitTermination()
