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
from antecede.spark.topics.source import TopicReader, open_planning
from antecede.spark.topics.stream import TopicStream
from antecede.spark.topics.tables import table_options, take_options, with_options


class TopicSource(DataSource):
    """The data source behind `format("antecede")`."""

    @classmethod
    def name(cls) -> str:
        return "antecede"

    def schema(self) -> StructType:
        # Called when a query is analysed: wrong options and unreachable nodes are reported then. Also called when a
        # table is created, which needs no node yet.
        of_table = table_options(self.options)
        if of_table is not None:
            return with_options(_columns(of_table, check=False), of_table)
        return _columns(dict(self.options), check=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        options, schema = take_options(self.options, schema)
        if names_logs(options):
            from antecede.spark.logs.source import LogReader  # noqa: PLC0415

            return LogReader(options, schema)
        return TopicReader(source_options(options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options, schema = take_options(self.options, schema)
        if names_logs(options):
            from antecede.spark.logs.source import LogStream  # noqa: PLC0415

            return LogStream(options, schema)
        return TopicStream(source_options(options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from antecede.spark.topics.sink import TopicWriter  # noqa: PLC0415

        return TopicWriter(sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from antecede.spark.topics.sink import TopicStreamWriter  # noqa: PLC0415

        return TopicStreamWriter(sink_options(self.options), schema, overwrite)


def _columns(options: dict[str, str], *, check: bool) -> StructType:
    """The columns of what these options name. `check`: raise an error if it cannot be read now."""
    if names_logs(options):
        from antecede.spark.logs.source import read_schema  # noqa: PLC0415

        return read_schema(options, check=check)
    known = source_options(options)
    if check:
        with open_planning(known, patient=False) as planning:
            planning.check()
    return SCHEMA


def register(spark: SparkSession) -> None:
    """Let `spark` read and write topics: `spark.read.format("antecede")`. A second call does nothing.

    On a cluster the package is sent to the workers; over Spark Connect it is sent to the server.
    """
    from antecede.spark.session import is_local  # noqa: PLC0415
    from antecede.spark.ship import ship_package, ship_to_server  # noqa: PLC0415

    if not isinstance(spark, SparkSession):  # a session of Spark Connect, which is a class of its own
        ship_to_server(spark)
        spark.dataSource.register(TopicSource)
        return
    spark.dataSource.register(TopicSource)
    if not is_local(spark.sparkContext.master or ""):
        ship_package(spark.sparkContext)
