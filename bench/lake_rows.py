"""Rows a second from a queue into a table: the lake mirror, beside what people do today, a pika consumer that writes Parquet.

    PYTHONPATH=src:tests python bench/lake_rows.py [MESSAGES]

All on one machine, one after the other, in the same run: a node, a queue of persistent messages of 200 bytes. The mirror's Spark
session is warm: a first sync of another queue has been made. The no-op sink tells what the source itself gives, on one core.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pika
import pyarrow as pa
import pyarrow.parquet as pq

from lake.support import Node, quiet, start_node
from mirrormq.lake.engine import session
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.sink import Composer, Publishing
from mirrormq.lake.tables import Place

BATCH = 20_000
BODY = b"x" * 200


def fill(node: Node, queue: str, count: int) -> None:
    with node.channel("/") as channel:
        channel.queue_declare(queue, durable=True)
    publishing = Publishing(node.address("/"), queue, f"{hash(queue) & 0xFFFFFFFF:x}")
    batch = pa.record_batch(
        {"body": [BODY] * 1000, "content_type": ["text/plain"] * 1000, "app_id": [str(n % 10) for n in range(1000)]}
    )
    messages = list(Composer(queue).compose(batch))
    for _ in range(count // 1000):
        for message in messages:
            publishing.put(message)
    publishing.flush()
    publishing.close()


def consume(node: Node, queue: str, count: int, folder: Path) -> float:
    """What users do today."""
    began = time.monotonic()
    rows: dict[str, list[object]] = {"exchange": [], "routing_key": [], "content_type": [], "app_id": [], "body": []}
    connection = pika.BlockingConnection(pika.URLParameters(node.url("/")))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2 * BATCH)
    for number, (method, properties, body) in enumerate(channel.consume(queue), 1):
        rows["exchange"].append(method.exchange)
        rows["routing_key"].append(method.routing_key)
        rows["content_type"].append(properties.content_type)
        rows["app_id"].append(properties.app_id)
        rows["body"].append(body)
        if number % BATCH == 0 or number == count:
            pq.write_table(pa.table(rows), folder / f"{number}.parquet", compression="zstd")
            channel.basic_ack(method.delivery_tag, multiple=True)
            rows = {name: [] for name in rows}
        if number == count:
            break
    channel.cancel()
    connection.close()
    return count / (time.monotonic() - began)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    folder = Path(tempfile.mkdtemp(prefix="lake-bench"))
    (folder / "node").mkdir()
    node = start_node(folder / "node")
    try:
        measure(node, folder, count)
    finally:
        node.kill()


def measure(node: Node, folder: Path, count: int) -> None:
    spark = session("bench", "local[2,3]")
    fill(node, "warm", 20_000)
    mirror = Mirror(spark, node.address("/"), Place.at(str(folder / "lake")), task_rows=max(count // 8, 1000))
    mirror.start()
    mirror.sync()
    fill(node, "orders", count)
    quiet(mirror.client)
    began = time.monotonic()
    rows = mirror.sync().rows
    mirrored = rows / (time.monotonic() - began)
    consumed = consume(node, "orders", count // 4, folder)
    source = spark.read.format("mirrormq").options(url=node.lake_url(), queue="orders", rowsPerPartition=str(count)).load()
    rates: list[float] = []
    for _ in range(3):
        began = time.monotonic()
        source.write.format("noop").mode("overwrite").save()
        rates.append(count / (time.monotonic() - began))
    print(
        f"lake mirror into Delta: {mirrored:,.0f} rows a second; pika, PyArrow: {consumed:,.0f}; ratio {mirrored / consumed:.1f}"
    )
    print("source to a no-op sink, one task: " + ", ".join(f"{rate:,.0f}" for rate in rates) + " rows a second")


if __name__ == "__main__":
    main()
