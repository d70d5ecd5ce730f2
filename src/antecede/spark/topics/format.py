"""Implements the format `antecede` as Spark asks for it, and registers it in a session.

Every streaming query starts a Python process that loads this file before it reads anything. So rarely needed modules
are imported inside functions.
"""

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from antecede.spark.topics.columns import SCHEMA
from antecede.spark.topics.options import names_logs, sink_options, source_options
from antecede.spark.topics.source import TopicReader
from antecede.spark.topics.stores import open_store
from antecede.spark.topics.stream import TopicStream


class TopicSource(DataSource):
    """The data source behind `format("antecede")`."""

    @classmethod
    def name(cls) -> str:
        return "antecede"

    def schema(self) -> StructType:
        # Called when a query is analysed: wrong options and unreachable nodes are reported then.
        if names_logs(self.options):
            from antecede.spark.logs.source import read_schema  # noqa: PLC0415

            return read_schema(self.options)
        options = source_options(self.options)
        with open_store(options.where, options.topics, patient=False) as store:
            store.check()
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        if names_logs(self.options):
            from antecede.spark.logs.source import LogReader  # noqa: PLC0415

            return LogReader(self.options, schema)
        return TopicReader(source_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if names_logs(self.options):
            from antecede.spark.logs.source import LogStream  # noqa: PLC0415

            return LogStream(self.options, schema)
        return TopicStream(source_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from antecede.spark.topics.sink import TopicWriter  # noqa: PLC0415

        return TopicWriter(sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from antecede.spark.topics.sink import TopicStreamWriter  # noqa: PLC0415

        return TopicStreamWriter(sink_options(self.options), schema, overwrite)


def register(spark: SparkSession) -> None:
    """Let `spark` read and write topics: `spark.read.format("antecede")`. A second call does nothing.

    On a cluster the package is sent to the workers.
    """
    from antecede.spark.session import is_local  # noqa: PLC0415
    from antecede.spark.ship import ship_package  # noqa: PLC0415

    spark.dataSource.register(TopicSource)
    if not is_local(spark.sparkContext.master or ""):
        ship_package(spark.sparkContext)
