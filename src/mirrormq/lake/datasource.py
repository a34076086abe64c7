"""The data source `mirrormq`, as Spark asks for it: readers and writers by the options that were given."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from mirrormq.lake.options import Options, read_options
from mirrormq.lake.schema import spark_schema
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
