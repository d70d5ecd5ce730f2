"""Reads traces as a DataFrame: the columns of the trace schema, and the columns `row` and `experiment`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
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
from antecede.trace import SCHEMA
from antecede.trace.directory import open_directory
from antecede.trace.files import check_trace

_TYPES: Final[dict[str, DataType]] = {"int32": IntegerType(), "int64": LongType(), "string": StringType()}


def _type(name: str, text: str) -> DataType:
    if name == "deps":
        parts = (("topic", StringType()), ("source", IntegerType()), ("seq", LongType()))
        return ArrayType(StructType([StructField(part, its) for part, its in parts]))
    return _TYPES.get(text, StringType())  # Spark reads dictionaries of text as text


#: The trace schema as a Spark type.
TRACE_TYPE: Final = StructType([StructField(field.name, _type(field.name, str(field.type))) for field in SCHEMA])
_STORED_TYPE: Final = StructType([*TRACE_TYPE.fields, StructField("row", LongType())])


def read_traces(session: SparkSession, *paths: str | Path) -> DataFrame:
    """Read all traces under `paths`: directories of sweeps, trace directories, single files.

    Every file is checked first; a file that is no trace is refused by name. `row` is the number of the row in its run,
    `experiment` the experiment of the sweep ("" for a single file).
    """
    directories, files = _find([Path(path) for path in paths])
    # By default Spark's reader does not verify checksums.
    session.sparkContext._jsc.hadoopConfiguration().set("parquet.page.verify-checksum.enabled", "true")
    frames = []
    if directories:
        parts = [str(file) for directory in directories for file in open_directory(directory).files()]
        frames.append(session.read.schema(_STORED_TYPE).parquet(*parts))
    if files:
        for file in files:
            check_trace(file)
        read = session.read.schema(TRACE_TYPE).parquet(*[str(file) for file in files])
        frames.append(read.withColumn("row", F.col("_metadata.row_index")))
    found = [
        frame.withColumn("experiment", F.regexp_extract(F.col("_metadata.file_path"), "/experiment=([^/]+)/", 1))
        for frame in frames
    ]
    return found[0] if len(found) == 1 else found[0].unionByName(found[1])


def _find(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    found: dict[Path, None] = {}
    for path in paths:
        here = find_traces(path)
        if not here:
            sweep = path.is_dir() and is_sweep(path)
            remedy = "run the sweep again with --trace --resume" if sweep else "name what antecede wrote"
            raise UsageError("path", str(path), "holds no traces", remedy)
        found.update(dict.fromkeys(here))
    return [path for path in found if path.is_dir()], [path for path in found if path.is_file()]
