"""Reads traces as a DataFrame: the columns of the trace schema, and the columns `row` and `experiment`.

`as_traces` makes one of any DataFrame with the documented columns. Workers bring each batch into the exact types
(`trace.tables`), so the rules are those of files.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as W
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from antecede.core import UsageError
from antecede.spark.sweep_directory import find_traces, is_sweep
from antecede.trace import SCHEMA, Event
from antecede.trace.directory import is_trace_directory, open_directory
from antecede.trace.files import check_trace, is_ours
from antecede.trace.tables import as_trace, check_columns

_TYPES: Final[dict[str, DataType]] = {"int32": IntegerType(), "int64": LongType(), "string": StringType()}


def _type(name: str, text: str) -> DataType:
    if name == "deps":
        parts = (("topic", StringType()), ("source", IntegerType()), ("seq", LongType()))
        return ArrayType(StructType([StructField(part, its) for part, its in parts]))
    return _TYPES.get(text, StringType())  # Spark reads dictionaries of text as text


#: The trace schema as a Spark type.
TRACE_TYPE: Final = StructType([StructField(field.name, _type(field.name, str(field.type))) for field in SCHEMA])
_STORED_TYPE: Final = StructType([*TRACE_TYPE.fields, StructField("row", LongType())])
_NAMED_TYPE: Final = StructType([*_STORED_TYPE.fields, StructField("experiment", StringType())])


def read_traces(session: SparkSession, *paths: str | Path) -> DataFrame:
    """Read all traces under `paths`: directories of sweeps, trace directories, single files.

    Every file is checked first; a file that is no trace is refused by name. `row` is the number of the row in its run,
    `experiment` the experiment of the sweep ("" for a single file).
    """
    found = _find([Path(path) for path in paths])
    directories = [path for path in found if is_trace_directory(path)]
    others = [path for path in found if not is_trace_directory(path)]
    for path in others:
        check_trace(path)
    files = [path for path in others if path.is_file() and is_ours(path)]
    # By default Spark's reader does not verify checksums. A remote session has no access to that setting.
    if isinstance(session, SparkSession):
        session.sparkContext._jsc.hadoopConfiguration().set("parquet.page.verify-checksum.enabled", "true")
    frames = []
    if directories:
        parts = [str(file) for directory in directories for file in open_directory(directory).files()]
        frames.append(_named(_known(session.read.schema(_STORED_TYPE).parquet(*parts))))
    if files:
        read = session.read.schema(TRACE_TYPE).parquet(*[str(file) for file in files])
        frames.append(_named(_known(read.withColumn("row", F.col("_metadata.row_index")))))
    for path in others:
        if path not in files:
            frames.append(as_traces(session.read.parquet(str(path)), run=path.stem))
    return reduce(DataFrame.unionByName, frames)


def as_traces(frame: DataFrame, *, run: str = "run") -> DataFrame:
    """Return a DataFrame with the columns of a trace, `row` and `experiment`, from one with some of these.

    `run`: the name of the run where the frame has no column `run`. Without a column `row`, rows of a run are numbered
    by `time_us`, and rows of one time by their order in the frame. Raises `UsageError` for a column that a trace does
    not have.
    """
    check_columns(frame.columns, "the DataFrame")
    for name, value in (("experiment", ""), ("run", run)):
        if name not in frame.columns:
            frame = frame.withColumn(name, F.lit(value))
    if "row" not in frame.columns:
        frame = frame.withColumn("row", F.monotonically_increasing_id())
        order = W.partitionBy("experiment", "run").orderBy("time_us", "row")
        frame = frame.withColumn("row", (F.row_number().over(order) - 1).cast("long"))
    return _known(frame.mapInArrow(_exactly, _NAMED_TYPE))


def _exactly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bring batches into the types of a trace, on a worker."""
    wanted = to_arrow_schema(_NAMED_TYPE)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        trace = as_trace(table.drop_columns(["row", "experiment"]), "the DataFrame")
        for name in ("row", "experiment"):
            trace = trace.append_column(name, table[name])
        columns = [
            pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], pa.string())
            if pa.types.is_dictionary(column.type)
            else column
            for column in trace.columns
        ]
        yield from pa.table(
            [column.cast(field.type) for column, field in zip(columns, wanted, strict=True)], schema=wanted
        ).to_batches()


def _known(frame: DataFrame) -> DataFrame:
    """Let a query over the frame fail at an event that is not known."""
    known = [event.name.lower() for event in Event]
    remedy = f"write one of {', '.join(known)}"
    said = F.concat(F.lit("event '"), F.col("event"), F.lit(f"': is not an event of a trace; {remedy}"))
    checked = F.when(F.col("event").isin(known), F.col("event")).otherwise(F.raise_error(said).cast("string"))
    return frame.withColumn("event", checked)


def _named(frame: DataFrame) -> DataFrame:
    experiment = F.regexp_extract(F.col("_metadata.file_path"), "/experiment=([^/]+)/", 1)
    return frame.withColumn("experiment", experiment)


def _find(paths: Sequence[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for path in paths:
        here = find_traces(path)
        if not here:
            sweep = path.is_dir() and is_sweep(path)
            remedy = "run the sweep again with --trace --resume" if sweep else "name what antecede wrote"
            raise UsageError("path", str(path), "holds no traces", remedy)
        found.update(dict.fromkeys(here))
    return list(found)
