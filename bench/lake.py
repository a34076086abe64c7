"""`make bench ARGS=--lake`: what Spark gets out of queues, and what that costs who publishes.

Two nodes that mirror queues of persistent messages of 200 bytes, all on one machine, one measurement after the other:

- rows a second from a queue into a Delta table by the code of `mirrormq lake mirror`, beside what people do today, a pika
  consumer that writes Parquet with PyArrow from the same broker: three times in turn, and the median of the ratios;
- rows a second from the source into Spark's no-op sink, in one task, warm, and whose processor time that takes;
- what a publisher with confirms gets through on the leader while Spark reads: see `disturbance`.
"""

from __future__ import annotations

import json
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pika
import pyarrow as pa
import pyarrow.parquet as pq

from disturbance import Disturbance
from mirrormq.lake.client import Address
from mirrormq.lake.engine import session
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.sink import Composer, Publishing
from mirrormq.lake.tables import Place
from processes import Failed, await_amqp, end, family, free_port, seconds_of, start

BATCH = 20_000
BODY = b"x" * 200
PATIENCE = 120.0
ROUNDS = 3
WARM_UPS = 2
READ_ROWS = 200_000     # that Spark reads at a time while somebody publishes


class Member:
    """A node of the pair."""

    def __init__(self, command: str, folder: Path, number: int) -> None:
        self.name = f"lake{number}@localhost"
        self.port, self.http_port = free_port(), free_port()
        words = ["server", "--data-dir", str(folder / self.name), "--node-name", self.name, "--port", str(self.port)]
        words += ["--http-port", str(self.http_port), "--link-port", str(free_port())]
        words += ["--coordination", f"sqlite:{folder / 'cluster.sqlite'}"]
        log = folder / f"{number}.log"
        self._process = start([command, *words], {}, log)
        try:
            await_amqp(self.port, self._process, log)
        except Failed:
            end(self._process)
            raise

    @property
    def url(self) -> str:
        return f"http://guest:guest@127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        end(self._process)

    def api(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}{path}", json.dumps(body).encode() if body is not None else None, method=method
        )
        request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def until(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise Failed(f"{what} has not come about in {PATIENCE:.0f} s")
        time.sleep(0.2)


def fill(leader: Member, queue: str, count: int) -> None:
    """Made on the leader, mirrored before the first message."""
    leader.api("PUT", f"/api/queues/%2F/{queue}", {"durable": True, "node": leader.name})
    place = f"/api/queues/%2F/{queue}"
    until(lambda: len(leader.api("GET", place).get("synchronised_slave_nodes", [])) == 1, f"a mirror of '{queue}'")
    publishing = Publishing(Address.parse(leader.url), queue, f"{hash(queue) & 0xFFFFFFFF:x}")
    values = {"body": [BODY] * 1000, "content_type": ["text/plain"] * 1000, "app_id": [str(each % 10) for each in range(1000)]}
    messages = list(Composer(queue).compose(pa.record_batch(values)))
    for _ in range(count // 1000):
        for message in messages:
            publishing.put(message)
    publishing.flush()
    publishing.close()


def consume(node: Member, queue: str, count: int, folder: Path) -> float:
    """What users do today."""
    began = time.monotonic()
    rows: dict[str, list[object]] = {"exchange": [], "routing_key": [], "content_type": [], "app_id": [], "body": []}
    connection = pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{node.port}/%2F"))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2 * BATCH)
    for number, (method, properties, body) in enumerate(channel.consume(queue), 1):
        for name, value in zip(
            rows, (method.exchange, method.routing_key, properties.content_type, properties.app_id, body), strict=True
        ):
            rows[name].append(value)
        if number % BATCH == 0 or number == count:
            pq.write_table(pa.table(rows), folder / f"{number}.parquet", compression="zstd")
            channel.basic_ack(method.delivery_tag, multiple=True)
            rows = {name: [] for name in rows}
        if number == count:
            break
    rate = count / (time.monotonic() - began)
    connection.close()
    return rate


def measure(command: str, folder: Path, count: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Figures, in parts, as they are found."""
    with ExitStack() as stack:
        members = []
        for number in (1, 2):
            members.append(Member(command, folder, number))
            stack.callback(members[-1].stop)
        leader = members[0]
        policy = {"pattern": "^", "apply-to": "queues", "definition": {"ha-mode": "all"}}
        until(lambda: len(leader.api("GET", "/api/nodes")) == 2, "a cluster of two nodes")
        leader.api("PUT", "/api/policies/%2F/all", policy)
        spark = session("bench", "local[2,3]", {"spark.driver.memory": "2g"})
        stack.callback(spark.stop)
        yield flows(spark, leader, folder, count)
        fill(leader, "orders", count)
        yield profile(spark, leader, members[1], count)
        few = min(count, READ_ROWS)
        readers = {name: partial(timed, read(spark, leader, name, few), few) for name in ("mirrors", "leader")}
        yield Disturbance(*members, java_of(spark), command, seconds).measure(partial(calculate, spark, few), readers, few, count)


def flows(spark: Any, leader: Member, folder: Path, count: int) -> dict[str, Any]:
    fill(leader, "warm", 20_000)
    sync(spark, leader, folder, "warm", 20_000)
    mirrored, consumed, few = [], [], min(count // 4, 100_000)
    for number in range(ROUNDS):
        queue = f"orders{number}"
        fill(leader, queue, count // ROUNDS)
        mirrored.append(sync(spark, leader, folder, queue, count // ROUNDS))
        consumed.append(consume(leader, queue, few, folder))
    ratios = [fast / slow for fast, slow in zip(mirrored, consumed, strict=True)]
    return {"into Delta, rows/s": mirrored, "pika and PyArrow, rows/s": consumed, "ratios": ratios, "ratio": median(ratios)}


def sync(spark: Any, leader: Member, folder: Path, queue: str, count: int) -> float:
    place = Place.at(str(folder / "lake"))
    mirror = Mirror(spark, Address.parse(leader.url), place, f"bench-{queue}", f"^{queue}$", task_rows=max(count // 8, 1000))
    mirror.start()
    began = time.monotonic()
    rows = mirror.sync().rows
    rate = rows / (time.monotonic() - began)
    mirror.client.delete_mirror(mirror.name)
    return rate


def profile(spark: Any, leader: Member, mirror: Member, count: int) -> dict[str, Any]:
    """Into the no-op sink in one task: the first runs warm Spark up; then rows a second, and processor time by process."""
    source = read(spark, leader, "mirrors", count)
    for _ in range(WARM_UPS):
        timed(source, count)
    java = java_of(spark)
    before = seconds_of([mirror.pid]), seconds_of([java]), seconds_of(family(java))
    rates = [timed(source, count) for _ in range(ROUNDS)]
    feed, machine, everyone = seconds_of([mirror.pid]), seconds_of([java]), seconds_of(family(java))
    shares = {"the mirror that feeds": feed - before[0], "Spark's Python": everyone - before[2] - machine + before[1],
              "Java": machine - before[1]}  # fmt: skip
    return {"no-op sink, one task, warm, rows/s": rates} | {
        f"of it processor seconds for a million rows, {name}": share * 1e6 / count / ROUNDS for name, share in shares.items()
    }


def read(spark: Any, leader: Member, nodes: str, count: int) -> Any:
    options = {"url": leader.url, "queue": "orders", "rowsPerPartition": str(count), "nodes": nodes,
               "endingOffsets": json.dumps({"orders": count + 1})}  # fmt: skip
    return spark.read.format("mirrormq").options(**options).load()


def calculate(spark: Any, count: int) -> None:
    """Keep Spark busy, without anything from outside."""
    rows = spark.range(0, 2 * count, 1, 1).selectExpr("sha2(cast(id AS string), 256) AS text")
    rows.write.format("noop").mode("overwrite").save()


def java_of(spark: Any) -> int:
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001 - there is no other way to it


def timed(source: Any, count: int) -> float:
    began = time.monotonic()
    source.write.format("noop").mode("overwrite").save()
    return count / (time.monotonic() - began)
