"""The columns of a queue's log as a table, for Arrow and for Spark. One row for each entry of the log.

Names and types are a promise: tables that exist must go on taking what is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TIME: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.struct([
    ("content_type", pa.string()), ("content_encoding", pa.string()), ("delivery_mode", pa.int32()), ("priority", pa.int32()),
    ("correlation_id", pa.string()), ("reply_to", pa.string()), ("expiration", pa.string()), ("message_id", pa.string()),
    ("timestamp", TIME), ("type", pa.string()), ("user_id", pa.string()), ("app_id", pa.string()),
    ("cluster_id", pa.string()),
])  # fmt: skip
HEADERS: Final = pa.map_(pa.string(), pa.string())
RANGES: Final = pa.list_(pa.struct([("low", pa.int64()), ("high", pa.int64())]))

EVENTS: Final = pa.schema([
    ("vhost", pa.string()),
    ("queue", pa.string()),
    ("queue_id", pa.string()),          # of the log: a queue that is declared anew has another
    ("epoch", pa.int64()),
    ("index", pa.int64()),              # (queue_id, index) is the address of an entry
    ("count", pa.int64()),              # indexes that it takes: one, but for a skip
    ("time", TIME),
    ("kind", pa.string()),              # enqueue, reserve, ack, requeue, drop, skip, config, forget
    ("reason", pa.string()),            # of a drop: expired, maxlen, purged, rejected, restart
    ("ranges", RANGES),                 # the indexes that an ack, a requeue or a drop is about
    ("exchange", pa.string()),
    ("routing_key", pa.string()),
    ("message_id", pa.string()),
    ("persistent", pa.bool_()),
    ("redelivered", pa.bool_()),
    ("properties", PROPERTIES),
    ("headers", HEADERS),               # text as it is, everything else as JSON
    ("raw_address", pa.binary()),       # as they are in the log, so that a restored message is the same to the byte
    ("raw_properties", pa.binary()),
    ("publisher", pa.string()),         # of messages that are numbered: whose, and which
    ("sequence", pa.int64()),
    ("body_size", pa.int64()),
    ("body_crc", pa.int64()),           # crc32 of the body
    ("body", pa.binary()),
])  # fmt: skip

KINDS: Final = ("skip", "enqueue", "reserve", "ack", "requeue", "drop", "config", "origin", "forget")
REASONS: Final = (None, "expired", "maxlen", "purged", "rejected", "no_ack", "lost", "moved", "restart")
WITHOUT_BODY: Final = pa.schema([field for field in EVENTS if field.name not in ("body", "body_crc")])


def arrow_schema(*, with_body: bool = True, columns: tuple[str, ...] = ()) -> pa.Schema:
    whole = EVENTS if with_body else WITHOUT_BODY
    return pa.schema([field for field in whole if not columns or field.name in columns])


def spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> Any:
    from pyspark.sql import types

    if pa.types.is_struct(kind):
        return types.StructType([types.StructField(field.name, _spark_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return types.MapType(types.StringType(), types.StringType())
    if pa.types.is_list(kind):
        return types.ArrayType(_spark_type(kind.value_type))
    plain = {
        pa.string(): types.StringType,
        pa.int64(): types.LongType,
        pa.int32(): types.IntegerType,
        pa.bool_(): types.BooleanType,
        pa.binary(): types.BinaryType,
        TIME: types.TimestampType,
    }
    return plain[kind]()
