"""From a queue to a data frame: what is in it, what happened to it. Nothing is consumed.

python examples/queue_to_dataframe.py http://guest:guest@localhost:15672 orders
"""

from __future__ import annotations

import sys

from mirrormq.lake.engine import session

url, queue = sys.argv[1:3]
spark = session()
log = spark.read.format("mirrormq").options(url=url, queue=queue).load()
log.groupBy("kind").count().show()
sent = log.where("kind = 'enqueue'").selectExpr("index", "time", "routing_key", "cast(body AS string) AS text")
sent.orderBy("index").show(5, truncate=60)
