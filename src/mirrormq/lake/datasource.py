"""The data source `mirrormq`, as Spark asks for it: readers and writers by the options that were given."""

from __future__ import annotations

import uuid

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from mirrormq.lake.errors import LakeError
from mirrormq.lake.options import Options, address_from, read_options
from mirrormq.lake.schema import spark_schema
from mirrormq.lake.sink import BatchSink, StreamSink, check_columns
from mirrormq.lake.source import BatchReader, PushingReader, StreamReader


class MirrorSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "mirrormq"

    @property
    def parsed(self) -> Options:
        return read_options(self.options)

    def schema(self) -> StructType:
        return spark_schema(self.parsed.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self.parsed
        return PushingReader(options) if options.push_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return StreamReader(self.parsed)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        if overwrite:
            raise LakeError("a queue is appended to: write with mode('append'), and purge it before if that is what you want")
        job = self.options.get("jobId") or uuid.uuid4().hex
        return BatchSink(address_from(self.options), self._queue(schema), job)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, FBT001 - Spark's
        return StreamSink(address_from(self.options), self._queue(schema))

    def _queue(self, schema: StructType) -> str:
        check_columns(schema.names)
        queue = self.options.get("queue")
        if not queue:
            raise LakeError("the option 'queue' is missing: the queue that the rows are published into")
        return queue
