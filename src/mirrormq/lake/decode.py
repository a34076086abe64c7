"""From chunks of the log to Arrow, in Spark's executors. What many messages share is taken apart once for each batch."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from mirrormq.lake.errors import Forked, forked
from mirrormq.lake.schema import HEADERS, KINDS, PROPERTIES, RANGES, REASONS, TIME
from mirrormq.log.columns import Columns
from mirrormq.log.entries import ENQUEUE, REDELIVERED, TRANSIENT
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.properties import Properties, decode_properties

BATCH_ROWS: Final = 20_000
EVERYTHING: Final = 1 << 62
PLAIN: Final = tuple(field.name for field in PROPERTIES)


class Decoder:
    """Makes record batches of one queue's chunks, with the columns of `schema`.

    Whoever takes over without all that was stable writes its own entries under addresses that are taken, in a later epoch: so an
    entry of a later epoch than `newest`, where that is known, does not belong to what was planned.
    """

    def __init__(self, vhost: str, queue: str, queue_id: str, schema: pa.Schema, newest: int = 0) -> None:
        self._names = {"vhost": vhost, "queue": queue, "queue_id": queue_id}
        self._schema = schema
        self._wanted = set(schema.names)
        self._columns = self._fresh()
        self._newest = newest or EVERYTHING

    def _fresh(self) -> Columns:
        return Columns(not self._wanted.isdisjoint(("body", "body_crc")))

    def feed(self, data: bytes) -> Iterator[pa.RecordBatch]:
        """Batches that are full; what is left comes with the next or at the end."""
        at = 0
        while at < len(data):
            at = self._columns.take(data, at, EVERYTHING)
            if self._columns.epochs[-1] > self._newest:
                raise Forked(forked(self._names["queue"], self._columns.firsts[-1], self._columns.epochs[-1], self._newest))
            if self._columns.rows >= BATCH_ROWS:
                yield self.batch()

    @property
    def next_index(self) -> int:
        return self._columns.next_index

    @property
    def rows(self) -> int:
        return self._columns.rows

    def batch(self) -> pa.RecordBatch:
        columns = self._columns
        self._columns = self._fresh()
        self._columns.next_index = columns.next_index
        table = Table(columns, self._names, self._wanted)
        return pa.RecordBatch.from_arrays([table.array(name) for name in self._schema.names], schema=self._schema)


class Table:
    """What the columns of one batch are made of. Where all rows are alike, nothing is done for each of them."""

    def __init__(self, columns: Columns, names: dict[str, str], wanted: set[str]) -> None:
        self.columns = columns
        self.names = names
        self.rows = columns.rows
        self.addresses = pa.array(columns.address, pa.int32())
        self.property_lists = pa.array(columns.properties, pa.int32())
        lists = columns.property_lists.values if not wanted.isdisjoint(PARSED) else []
        self.parsed = [properties_of(value) for value in lists]

    def array(self, name: str) -> pa.Array:
        if name in self.names:
            return self.alike(self.names[name], pa.string())
        if name in PARSED:
            value_of, kind = PARSED[name]
            return spread(pa.array([value_of(properties) for properties in self.parsed], kind), self.property_lists)
        return MAKERS[name](self)

    def alike(self, value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), self.rows) if value is not None else pa.nulls(self.rows, kind)

    def by_run(self, values: list[int]) -> pa.Array:
        """One value for each run, for all of its rows."""
        ends = pa.array([*self.columns.starts[1:], self.rows], pa.int32())
        keep = pc.greater(ends, pa.array(self.columns.starts, pa.int32()))
        runs = pa.RunEndEncodedArray.from_arrays(ends.filter(keep), pa.array(values, pa.int64()).filter(keep))
        return pc.run_end_decode(runs)

    def but_others(self, value: int, others: list[int]) -> pa.Array:
        """One value for all messages, and for other entries their own."""
        dense = array("q", [value]) * self.rows
        for row, other in zip(self.columns.other_rows, others, strict=True):
            dense[row] = other
        return pa.Array.from_buffers(pa.int64(), self.rows, [None, pa.py_buffer(dense)])


def spread(values: pa.Array, numbers: pa.Array) -> pa.Array:
    """`values.take(numbers)`, which is slow for a struct of which most fields are never given."""
    if not pa.types.is_struct(values.type) or values.null_count:
        return values.take(numbers)
    columns = [pa.nulls(len(numbers), part.type) if part.null_count == len(part) else part.take(numbers)
               for part in (values.field(place) for place in range(values.type.num_fields))]  # fmt: skip
    missing = numbers.is_null() if numbers.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(values.type), mask=missing)


def _indexes(table: Table) -> pa.Array:
    columns = table.columns
    shifts = [first - start for first, start in zip(columns.firsts, columns.starts, strict=True)]
    size = 1 << max(15, table.rows.bit_length())
    return pc.add(_numbers(size).slice(0, table.rows), table.by_run(shifts))


@cache
def _numbers(size: int) -> pa.Array:
    return pa.array(range(size), pa.int64())


def _kinds(table: Table) -> pa.Array:
    if not table.columns.other_rows:
        return table.alike(KINDS[ENQUEUE], pa.string())
    return pa.array(KINDS, pa.string()).take(table.but_others(ENQUEUE, table.columns.other_kinds))


def _reasons(table: Table) -> pa.Array:
    if not any(table.columns.other_reasons):
        return table.alike(None, pa.string())
    return pa.array(REASONS, pa.string()).take(table.but_others(0, table.columns.other_reasons))


def _counts(table: Table) -> pa.Array:
    columns = table.columns
    return table.but_others(1, columns.other_counts) if columns.has_skips else table.alike(1, pa.int64())


def _ranges(table: Table) -> pa.Array:
    columns = table.columns
    if not any(columns.other_ranges):
        return table.alike(None, RANGES)
    dense: list[list[int] | None] = [None] * table.rows
    for row, ranges in zip(columns.other_rows, columns.other_ranges, strict=True):
        dense[row] = ranges
    offsets: list[int] = [0]
    lows: list[int] = []
    highs: list[int] = []
    for ranges in dense:
        if ranges is not None:
            lows += ranges[::2]
            highs += ranges[1::2]
        offsets.append(len(lows))
    values = pa.StructArray.from_arrays([pa.array(lows, pa.int64()), pa.array(highs, pa.int64())], ["low", "high"])
    missing = pa.array([ranges is None for ranges in dense], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=RANGES, mask=missing)


def _flag(table: Table, flag: int, *, is_set: bool) -> pa.Array:
    columns = table.columns
    seen = set(columns.flags)
    if not columns.other_rows and len({value & flag for value in seen}) == 1:
        return table.alike(bool(next(iter(seen)) & flag) is is_set, pa.bool_())
    found = pc.not_equal(pc.bit_wise_and(pa.array(columns.flags, pa.int32()), flag), 0)
    return pc.if_else(table.addresses.is_valid(), found if is_set else pc.invert(found), pa.scalar(None, pa.bool_()))


def _times(table: Table) -> pa.Array:
    return pc.multiply(table.by_run(table.columns.times), 1000).cast(TIME)


def _part(address: bytes, number: int) -> str:
    at = 0
    for _ in range(number):
        at += 1 + address[at]
    return address[at + 1 : at + 1 + address[at]].decode("utf-8", "replace")


def _addressed(number: int) -> Callable[[Table], pa.Array]:
    def make(table: Table) -> pa.Array:
        return pa.array([_part(value, number) for value in table.columns.addresses.values], pa.string()).take(table.addresses)

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


def _publishers(table: Table) -> pa.Array:
    known = table.columns.publisher
    if not known:
        return table.alike(None, pa.string())
    found = pa.array(known, pa.uint64()).dictionary_encode()
    return pa.array([f"{value:016x}" for value in found.dictionary.to_pylist()], pa.string()).take(found.indices)


def _sequences(table: Table) -> pa.Array:
    known = table.columns.sequence
    return pa.array(known, pa.int64()) if known else table.alike(None, pa.int64())


def _checksums(table: Table) -> pa.Array:
    columns = table.columns
    if not columns.other_rows:
        return pa.array(list(map(crc32, columns.body)), pa.int64())  # type: ignore[arg-type]
    return pa.array([None if body is None else crc32(body) for body in columns.body], pa.int64())


def _sizes(table: Table) -> pa.Array:
    """Often all messages have the same."""
    sizes = table.columns.body_size
    if sizes and sizes.count(sizes[0]) == len(sizes):
        return table.alike(sizes[0], pa.int64())
    return pa.array(sizes, pa.int64())


PARSED: Final[dict[str, tuple[Any, pa.DataType]]] = {
    "message_id": (lambda properties: _clean(properties.message_id), pa.string()),
    "properties": (plain, PROPERTIES),
    "headers": (headers_of, HEADERS),
}
MAKERS: Final[dict[str, Callable[[Table], pa.Array]]] = {
    "epoch": lambda table: table.by_run(table.columns.epochs),
    "index": _indexes,
    "count": _counts,
    "time": _times,
    "kind": _kinds,
    "reason": _reasons,
    "ranges": _ranges,
    "exchange": _addressed(0),
    "routing_key": _addressed(1),
    "persistent": lambda table: _flag(table, TRANSIENT, is_set=False),
    "redelivered": lambda table: _flag(table, REDELIVERED, is_set=True),
    "raw_address": lambda table: pa.array(table.columns.addresses.values, pa.binary()).take(table.addresses),
    "raw_properties": lambda table: pa.array(table.columns.property_lists.values, pa.binary()).take(table.property_lists),
    "publisher": _publishers,
    "sequence": _sequences,
    "body_size": _sizes,
    "body_crc": _checksums,
    "body": lambda table: pa.array(table.columns.body, pa.binary()),
}
