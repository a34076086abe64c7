"""A streaming aggregation written back to a queue: how many messages came with each routing key, once a run.

    python examples/counts_by_key.py http://guest:guest@localhost:15672 orders counts /var/lib/counts

The checkpoint says how far the stream is. A run that is killed is repeated by the next, and publishes nothing twice.
"""

from __future__ import annotations

import sys

from mirrormq.lake.engine import session

url, source, target, checkpoint = sys.argv[1:5]
spark = session()
log = spark.readStream.format("mirrormq").options(url=url, queue=source, includeBody="false").load()
counts = log.where("kind = 'enqueue'").groupBy("routing_key").count()
messages = counts.selectExpr("to_json(struct(routing_key, count)) AS body", "'application/json' AS content_type")
query = (
    messages.writeStream.outputMode("update")
    .format("mirrormq")
    .options(url=url, queue=target, checkpointLocation=checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
