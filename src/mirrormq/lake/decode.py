"""From chunks of the log to Arrow, in Spark's executors. What many messages share is taken apart once for each batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from mirrormq.lake.schema import HEADERS, KINDS, PROPERTIES, RANGES, REASONS, TIME
from mirrormq.log.columns import Columns
from mirrormq.log.entries import ENQUEUE, REDELIVERED, TRANSIENT
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.properties import Properties, decode_properties

BATCH_ROWS: Final = 20_000
EVERYTHING: Final = 1 << 62
PLAIN: Final = tuple(field.name for field in PROPERTIES)


class Decoder:
    """Makes record batches of one queue's chunks, with the columns of `schema`."""

    def __init__(self, vhost: str, queue: str, queue_id: str, schema: pa.Schema) -> None:
        self._names = {"vhost": vhost, "queue": queue, "queue_id": queue_id}
        self._schema = schema
        self._wanted = set(schema.names)
        self._columns = self._fresh()
        self._parsed: list[Properties] = []

    def _fresh(self) -> Columns:
        return Columns(not self._wanted.isdisjoint(("body", "body_crc")))

    def feed(self, data: bytes) -> Iterator[pa.RecordBatch]:
        """Batches that are full; what is left comes with the next or at the end."""
        at = 0
        while at < len(data):
            at = self._columns.take(data, at, EVERYTHING)
            if len(self._columns.index) >= BATCH_ROWS:
                yield self.batch()

    @property
    def next_index(self) -> int:
        return self._columns.next_index

    @property
    def rows(self) -> int:
        return len(self._columns.index)

    def batch(self) -> pa.RecordBatch:
        columns = self._columns
        self._columns = self._fresh()
        self._columns.next_index = columns.next_index
        lists = columns.property_lists.values if not self._wanted.isdisjoint(PARSED) else []
        self._parsed = [properties_of(value) for value in lists]
        return pa.RecordBatch.from_arrays([self._array(columns, name) for name in self._schema.names], schema=self._schema)

    def _array(self, columns: Columns, name: str) -> pa.Array:
        if name in self._names:
            return _repeated(self._names[name], len(columns.index))
        if name in PARSED:
            return _shared([PARSED[name][0](properties) for properties in self._parsed], columns.properties, PARSED[name][1])
        return MAKERS[name](columns)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _kinds(columns: Columns) -> pa.Array:
    return pa.array(KINDS, pa.string()).take(pa.array(columns.kind, pa.int32()))


def _reasons(columns: Columns) -> pa.Array:
    return pa.array(REASONS, pa.string()).take(pa.array(columns.reason, pa.int32()))


def _ranges(columns: Columns) -> pa.Array:
    if not columns.has_ranges:
        return pa.nulls(len(columns.index), RANGES)
    offsets: list[int] = [0]
    lows: list[int] = []
    highs: list[int] = []
    for ranges in columns.ranges:
        if ranges is not None:
            lows += ranges[::2]
            highs += ranges[1::2]
        offsets.append(len(lows))
    values = pa.StructArray.from_arrays([pa.array(lows, pa.int64()), pa.array(highs, pa.int64())], ["low", "high"])
    missing = pa.array([ranges is None for ranges in columns.ranges], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=RANGES, mask=missing)


def _flag(columns: Columns, flag: int, *, is_set: bool) -> pa.Array:
    found = pc.not_equal(pc.bit_wise_and(pa.array(columns.flags, pa.int32()), flag), 0)
    is_message = pc.equal(pa.array(columns.kind, pa.int32()), ENQUEUE)
    return pc.if_else(is_message, found if is_set else pc.invert(found), pa.scalar(None, pa.bool_()))


def _times(columns: Columns) -> pa.Array:
    return pc.multiply(pa.array(columns.time_ms, pa.int64()), 1000).cast(TIME)


def _shared(values: Sequence[Any], numbers: list[int | None], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind).take(pa.array(numbers, pa.int32()))


def _part(address: bytes, number: int) -> str:
    at = 0
    for _ in range(number):
        at += 1 + address[at]
    return address[at + 1 : at + 1 + address[at]].decode("utf-8", "replace")


def _addressed(number: int) -> Any:
    def make(columns: Columns) -> pa.Array:
        return _shared([_part(value, number) for value in columns.addresses.values], columns.address, pa.string())

    return make


def properties_of(raw: bytes) -> Properties:
    """What a publisher sent may not be sound: then nothing is known of it, and `raw_properties` has it."""
    try:
        return decode_properties(raw, 0)
    except (AMQPError, IndexError, UnicodeDecodeError):
        return Properties()


def plain(properties: Properties) -> dict[str, Any]:
    found = {name: _clean(getattr(properties, name)) for name in PLAIN}
    seconds = found["timestamp"]
    # Arrow's microseconds end long before AMQP's seconds do.
    found["timestamp"] = seconds * 1_000_000 if seconds is not None and abs(seconds) < 1 << 43 else None
    return found


def _clean(value: Any) -> Any:
    """Names may hold bytes that are no text: columns of text cannot."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and not value.isascii() else value


def headers_of(properties: Properties) -> list[tuple[str, str]] | None:
    if properties.headers is None:
        return None
    return [(_clean(name), _as_text(value)) for name, value in properties.headers.items()]


def _as_text(value: Any) -> str:
    if isinstance(value, str | bytes):
        return str(_clean(value))
    return json.dumps(value, default=_jsonable)


def _jsonable(value: Any) -> Any:
    return _clean(value) if isinstance(value, bytes) else str(value)


def _publishers(columns: Columns) -> pa.Array:
    if not columns.has_origins:
        return pa.nulls(len(columns.index), pa.string())
    return pa.array([None if value is None else f"{value:016x}" for value in columns.publisher], pa.string())


def _sequences(columns: Columns) -> pa.Array:
    return pa.array(columns.sequence, pa.int64()) if columns.has_origins else pa.nulls(len(columns.index), pa.int64())


def _checksums(columns: Columns) -> pa.Array:
    return pa.array([None if body is None else crc32(body) for body in columns.body], pa.int64())


PARSED: Final[dict[str, tuple[Any, pa.DataType]]] = {
    "message_id": (lambda properties: _clean(properties.message_id), pa.string()),
    "properties": (plain, PROPERTIES),
    "headers": (headers_of, HEADERS),
}
MAKERS: Final[dict[str, Any]] = {
    "epoch": lambda columns: pa.array(columns.epoch, pa.int64()),
    "index": lambda columns: pa.array(columns.index, pa.int64()),
    "count": lambda columns: pa.array(columns.count, pa.int64()),
    "time": _times,
    "kind": _kinds,
    "reason": _reasons,
    "ranges": _ranges,
    "exchange": _addressed(0),
    "routing_key": _addressed(1),
    "persistent": lambda columns: _flag(columns, TRANSIENT, is_set=False),
    "redelivered": lambda columns: _flag(columns, REDELIVERED, is_set=True),
    "raw_address": lambda columns: _shared(columns.addresses.values, columns.address, pa.binary()),
    "raw_properties": lambda columns: _shared(columns.property_lists.values, columns.properties, pa.binary()),
    "publisher": _publishers,
    "sequence": _sequences,
    "body_size": lambda columns: pa.array(columns.body_size, pa.int64()),
    "body_crc": _checksums,
    "body": lambda columns: pa.array(columns.body, pa.binary()),
}
