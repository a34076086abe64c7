"""`make bench ARGS=--lake`: what Spark gets out of queues, and what that costs who publishes.

Two nodes that mirror one queue of persistent messages of 200 bytes, all on one machine, one measurement after the other:

- rows a second from the queue into a Delta table by the code of `mirrormq lake mirror`, beside what people do today, a pika
  consumer that writes Parquet with PyArrow from the same broker;
- rows a second from the source into Spark's no-op sink, in one task, warm;
- messages a second that a publisher with confirms gets through on the leader, alone and while Spark reads from the mirror, in
  turn. The leader and the publisher have half of the cores, the mirror and Spark the other half, and Spark gives way to the
  mirror: as if there were two machines. On few cores they disturb each other all the same; so the leader's processor time for
  each message is told, too, at a fixed rate.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.request
from base64 import b64encode
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any, Self

import pika
import pyarrow as pa
import pyarrow.parquet as pq

from mirrormq.lake.client import Address, FeedClient
from mirrormq.lake.engine import session
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.sink import Composer, Publishing
from mirrormq.lake.tables import Place
from processes import Failed, await_amqp, end, free_port, start

BATCH = 20_000
BODY = b"x" * 200
PATIENCE = 120.0
STEADY = 2000           # messages a second at which the leader's work for each is compared
TICK = os.sysconf("SC_CLK_TCK")


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

    def seconds(self) -> float:
        """Processor time that it has had."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK


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


def measure(command: str, folder: Path, count: int, seconds: float) -> dict[str, Any]:
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
        figures = flows(spark, leader, folder, count)
        return figures | disturb(spark, leader, members[1], count, seconds, command)


def flows(spark: Any, leader: Member, folder: Path, count: int) -> dict[str, Any]:
    mirror = Mirror(spark, Address.parse(leader.url), Place.at(str(folder / "lake")), task_rows=max(count // 8, 1000))
    fill(leader, "warm", 20_000)
    mirror.start()
    mirror.sync()
    fill(leader, "orders", count)
    [feed] = FeedClient(Address.parse(leader.url)).feeds("^orders$")
    began = time.monotonic()
    rows = mirror.sync().rows
    mirrored = rows / (time.monotonic() - began)
    mirror.client.delete_mirror(mirror.name)
    source = read(spark, leader, "mirrors", count)
    rates = [timed(source, count) for _ in range(4)]
    consumed = consume(leader, "orders", min(count // 4, 100_000), folder)
    return {"rows": rows, "members": len(feed.members), "no-op sink, one task, rows/s": rates, "into Delta, rows/s": mirrored,
            "pika and PyArrow, rows/s": consumed, "ratio": mirrored / consumed}  # fmt: skip


def read(spark: Any, leader: Member, nodes: str, count: int) -> Any:
    options = {"url": leader.url, "queue": "orders", "rowsPerPartition": str(count), "nodes": nodes}
    return spark.read.format("mirrormq").options(**options).load()


def timed(source: Any, count: int) -> float:
    began = time.monotonic()
    source.write.format("noop").mode("overwrite").save()
    return count / (time.monotonic() - began)


class Reading:
    """Spark reads the queue over and over, in a thread."""

    def __init__(self, source: Any, count: int) -> None:
        self.rows = 0
        self._is_wanted = True
        self._thread = threading.Thread(target=self._run, args=(source, count))

    def _run(self, source: Any, count: int) -> None:
        while self._is_wanted:
            timed(source, count)
            self.rows += count

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_wanted = False
        self._thread.join()


def threads(root: int) -> list[int]:
    """Of a process and all that descend from it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return [int(task.name) for pid in family for task in Path(f"/proc/{pid}/task").glob("*")]


def confine(root: int, cores: set[int], nice: int = 0) -> None:
    for thread in threads(root):
        with suppress(OSError):
            os.sched_setaffinity(thread, cores)
            if nice:
                os.setpriority(os.PRIO_PROCESS, thread, nice)


def halves() -> tuple[set[int], set[int]]:
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[: max(1, len(cores) // 2)]), set(cores[len(cores) // 2 :])


def disturb(spark: Any, leader: Member, mirror: Member, count: int, seconds: float, command: str) -> dict[str, Any]:
    """Publishing alone, with Spark at the mirror, and with Spark at the leader, three times in turn."""
    ways = ("alone", "mirrors", "leader")
    rates: dict[str, list[float]] = {name: [] for name in ways}
    costs: dict[str, list[float]] = {name: [] for name in ways}
    here, there = halves()
    confine(leader.pid, here)
    confine(mirror.pid, there)
    java = spark.sparkContext._jvm.java.lang  # noqa: SLF001 - there is no other way to it
    confine(int(java.ProcessHandle.current().pid()), there, 19)
    read_rows = 0
    for _ in range(3):
        for name in ways:
            with ExitStack() as stack:
                reading = stack.enter_context(Reading(read(spark, leader, name, count), count)) if name != "alone" else None
                rates[name].append(publish(leader, seconds, command, 0, here)[0])
                costs[name].append(publish(leader, seconds, command, STEADY, here)[1])
            read_rows += reading.rows if reading is not None and name == "mirrors" else 0
    found: dict[str, Any] = {"rows read from the mirror meanwhile": read_rows}
    for name in ways:
        found[f"published/s, {name}"] = rates[name]
        found[f"leader's µs a message at {STEADY}/s, {name}"] = costs[name]
    found["published with a reader at the mirror"] = median(rates["mirrors"]) / median(rates["alone"])
    found["cost with a reader at the mirror"] = median(costs["mirrors"]) / median(costs["alone"])
    found["cost with a reader at the leader"] = median(costs["leader"]) / median(costs["alone"])
    return found


def publish(leader: Member, seconds: float, command: str, rate: int, cores: set[int]) -> tuple[float, float]:
    """Messages a second with confirms, and microseconds of the leader's processor for each."""
    words = ["perf", "--json", "-h", f"amqp://127.0.0.1:{leader.port}", "-u", "published", "-x", "1", "-y", "1", "-s", "200"]
    words += ["-c", "256", "-q", "512", "-A", "64", "-f", "persistent", "-ad", "false", "-z", str(seconds), "--warmup", "1"]
    words += ["-r", str(rate)] if rate else []
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    process = subprocess.Popen([command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.sched_setaffinity(0, mine)
    before = leader.seconds()
    out, complaint = process.communicate(timeout=seconds + 120)
    if process.returncode:
        raise Failed(f"mirrormq perf: {complaint.strip()}")
    used = leader.seconds() - before
    confirmed = json.loads(out)["total"]["confirmed_per_s"]
    return confirmed, used * 1e6 / max(1.0, confirmed * (seconds + 1))


def show(figures: dict[str, Any]) -> str:
    lines = []
    for name, value in figures.items():
        values = value if isinstance(value, list) else [value]
        lines.append(f"{name:44}" + ", ".join(f"{each:,.0f}" if each >= 100 else f"{each:.2f}" for each in values))
    return "\n".join(lines)
