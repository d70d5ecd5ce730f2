"""Keeps the options of a table of Spark's catalog: `CREATE TABLE t USING antecede OPTIONS (…)`.

Spark 4 asks for the columns of a new table with its options, but reads the table later without them: all that comes
back is the columns. So the options are stored as metadata of the first column. Metadata follows a column into other
tables and files; therefore a token is refused here, and given with the query.

Options of the query (`SELECT … FROM t WITH (…)`, `spark.read.option(…).table("t")`) stand before those of the table.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from antecede.core import UsageError

#: The key in the metadata of a column.
_KEY: Final = "antecede.options"
#: What Spark puts before the name of each option of a table, beside properties of the table itself.
_OPTION: Final = "option."


def table_options(found: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that is being created; None if these are the options of a query."""
    if found.get("provider") != "antecede":
        return None
    options = {key.removeprefix(_OPTION): value for key, value in found.items() if key.startswith(_OPTION)}
    if "token" in options:
        problem = "would be readable in every copy of the table's columns"
        raise UsageError("token", "…", problem, "give it with the query: SELECT … FROM t WITH (token = '…')")
    return options


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The columns of a new table, with its options in them."""
    first, *others = schema.fields
    kept = {_KEY: json.dumps(dict(options), sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def take_options(found: Mapping[str, str], schema: StructType) -> tuple[dict[str, str], StructType]:
    """The options of a query with those that its table keeps, and the columns without metadata."""
    options: dict[str, str] = {}
    for field in schema.fields:
        options.update(json.loads((field.metadata or {}).get(_KEY, "{}")))
    plain = StructType([StructField(field.name, field.dataType, field.nullable) for field in schema.fields])
    return {**options, **{key.lower(): value for key, value in found.items()}}, plain
