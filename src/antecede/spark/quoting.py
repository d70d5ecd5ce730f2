"""Passes the names of a user's columns to Spark whatever they contain: dots, spaces, backticks.

Spark reads a dot in an unquoted name as the field of a struct. In SQL and `F.col` a name can be quoted. `mapInArrow`
and the stateful operators of PySpark quote nothing, and RocksDB's state has Avro schemas, whose names are identifiers.
For them columns are renamed (`plain_name`), and named as before inside the Python function.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

#: An underscore that would look like the beginning of an escape is one of them.
_TO_ESCAPE: Final = re.compile(r"[^A-Za-z0-9_]|^[0-9]|_(?=0x)")
_ESCAPED: Final = re.compile(r"_0x([0-9A-F]+)_")


def quote_name(name: str) -> str:
    """The name of a column as Spark's parser takes it."""
    return "`" + name.replace("`", "``") + "`"


def column_of(name: str) -> Column:
    return F.col(quote_name(name))


def plain_name(name: str) -> str:
    """The name as an identifier: other characters become `_0x…_`, with their number. Most names stay as they are."""
    return _TO_ESCAPE.sub(lambda found: f"_0x{ord(found[0]):X}_", name)


def original_name(plain: str) -> str:
    """The name that `plain_name` was given."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), plain)


def with_plain_names(rows: DataFrame) -> DataFrame:
    plain = list(map(plain_name, rows.columns))
    return rows if plain == rows.columns else rows.toDF(*plain)


def map_in_arrow(
    rows: DataFrame,
    do: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """`rows.mapInArrow(do, schema)`, with any names of columns."""
    names = rows.columns

    def renamed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return do(batch.rename_columns(names) for batch in batches)

    return with_plain_names(rows).mapInArrow(renamed, schema)
