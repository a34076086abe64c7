"""Publishing a data frame into a queue, each row once: `df.write.format("mirrormq")` and `df.writeStream.format("mirrormq")`.

Rules
 1. The rows of one task are a publisher of their own, numbered from 1 on: named by the query and the batch (a stream) or the job
    (a batch, option `jobId`), and by the partition. A task or a batch that is repeated sends the same numbers, and the queue
    passes over what it has. That needs rows that come in the same order again, as they do unless the query itself throws dice.
 2. A task ends when everything it sent is stable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from mirrormq.broker.message import address_of
from mirrormq.lake.client import Address, FeedClient
from mirrormq.lake.errors import LakeError
from mirrormq.lake.schema import PROPERTIES
from mirrormq.wire.properties import Properties, encode_properties

HEAD: Final = Struct("<HII")
RUN_BYTES: Final = 1 << 20
RUN_ROWS: Final = 1000
FIELDS: Final = tuple(field.name for field in PROPERTIES)
BODIES: Final = ("body", "value")
KNOWN: Final = frozenset((*BODIES, *FIELDS, "properties", "headers", "exchange", "routing_key", "raw_address", "raw_properties"))


@dataclass
class Sent(WriterCommitMessage):
    published: int
    repeated: int


def check_columns(names: list[str]) -> None:
    if not any(name in names for name in BODIES):
        raise LakeError(
            "a data frame that is to be published needs a column 'body' (or 'value'), and this one has: " + ", ".join(names)
        )


class Composer:
    """Makes messages of rows, as `admin.feed_publish` takes them. Property lists that repeat are encoded once."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._addresses: dict[tuple[str, str], bytes] = {}
        self._lists: dict[str, bytes] = {}

    def compose(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in KNOWN}
        bodies = columns["body"] if "body" in columns else columns["value"]
        rest = [name for name in columns if name not in BODIES]
        for row, body in enumerate(bodies):
            values = {name: columns[name][row] for name in rest}
            content = body.encode() if isinstance(body, str) else bytes(body or b"")
            address, properties = self._address(values), self._properties(values)
            yield HEAD.pack(len(address), len(properties), len(content)) + address + properties + content

    def _address(self, values: dict[str, Any]) -> bytes:
        if values.get("raw_address"):
            return bytes(values["raw_address"])
        key = (values.get("exchange") or "", values.get("routing_key") or self._queue)
        found = self._addresses.get(key)
        if found is None:
            found = self._addresses[key] = address_of(*key)
        return found

    def _properties(self, values: dict[str, Any]) -> bytes:
        if values.get("raw_properties"):
            return bytes(values["raw_properties"])
        given = {name: values[name] for name in (*FIELDS, "headers", "properties") if values.get(name) is not None}
        key = repr(given)
        found = self._lists.get(key)
        if found is None:
            if len(self._lists) > 10_000:
                self._lists.clear()
            found = self._lists[key] = _encode(given)
        return found


def _encode(given: dict[str, Any]) -> bytes:
    merged = {**(given.pop("properties", None) or {}), **given}
    merged = {name: value for name, value in merged.items() if value is not None}
    merged.setdefault("delivery_mode", 2)
    if "timestamp" in merged and not isinstance(merged["timestamp"], int):
        merged["timestamp"] = int(merged["timestamp"].timestamp())
    if "headers" in merged:
        merged["headers"] = dict(merged["headers"])
    return encode_properties(Properties(**merged))


class Publishing:
    """One task's rows on their way."""

    def __init__(self, address: Address, queue: str, publisher: str) -> None:
        self._client = FeedClient(address)
        self._queue = queue
        self._publisher = publisher
        self._next = 1
        self._run: list[bytes] = []
        self._size = 0
        self.sent = Sent(0, 0)

    def put(self, message: bytes) -> None:
        self._run.append(message)
        self._size += len(message)
        if self._size >= RUN_BYTES or len(self._run) >= RUN_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._run:
            return
        told = self._client.publish(self._queue, self._publisher, self._next, b"".join(self._run))
        if told["refused"]:
            raise LakeError(
                f"queue '{self._queue}' is full and refuses messages: {told['refused']} of {len(self._run)} were not taken"
            )
        self.sent.published += told["published"]
        self.sent.repeated += told["repeated"]
        self._next += len(self._run)
        self._run = []
        self._size = 0

    def close(self) -> None:
        self._client.close()


def publisher_name(*parts: object) -> str:
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).hexdigest()[:16]


def publish(address: Address, queue: str, publisher: str, batches: Iterator[pa.RecordBatch]) -> Sent:
    composer = Composer(queue)
    publishing = Publishing(address, queue, publisher)
    try:
        for batch in batches:
            for message in composer.compose(batch):
                publishing.put(message)
        publishing.flush()
    finally:
        publishing.close()
    return publishing.sent


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


class BatchSink(DataSourceArrowWriter):
    def __init__(self, address: Address, queue: str, job: str) -> None:
        self.address = address
        self.queue = queue
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        return publish(self.address, self.queue, publisher_name("job", self.job, _partition()), iterator)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, address: Address, queue: str) -> None:
        self.address = address
        self.queue = queue

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if not query or batch is None:
            raise LakeError(
                "this Spark does not tell which batch of which query a task belongs to: nothing can be published once"
            )
        return publish(self.address, self.queue, publisher_name("stream", query, batch, _partition()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Everything is stable already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """What was published stays; the batch is repeated and passes over it."""
