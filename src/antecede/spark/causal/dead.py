"""Finds rows that cannot be ordered because their name, or a name in their dependencies, is null.

One such row must not end a query. `causal_order` leaves them out and counts them; `dead_letters` gives them, each with
the reason, as a stream of its own to be kept and repaired.
"""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from antecede.core import UsageError
from antecede.spark.causal.naming import Naming, check_free, choose_naming
from antecede.spark.quoting import column_of

REASON: Final = "reason"


def dead_letters(
    rows: DataFrame,
    *,
    key: str | Sequence[str] = (),
    id: str | None = None,
    parents: str | None = None,
    source: str | Sequence[str] = "source",
    seq: str = "seq",
    deps: str | None = "deps",
    first: int = 1,
    required: str | Sequence[str] = (),
) -> DataFrame:
    """The rows that `causal_order` with the same arguments leaves out, with the `reason`.

    `rows` is a stream or a table. `required`: columns, such as a payload, that must not be null either.
    """
    schema = rows.schema
    check_free(schema, REASON, REASON)
    naming = choose_naming(schema, key=key, id=id, parents=parents, source=source, seq=seq, deps=deps, first=first)
    reason = why_dead(naming, check_required(schema, required))
    return rows.withColumn(REASON, reason).where(F.col(REASON).isNotNull())


def check_required(schema: StructType, required: str | Sequence[str]) -> tuple[str, ...]:
    names = (required,) if isinstance(required, str) else tuple(required)
    for name in names:
        if name not in schema.names:
            raise UsageError("required", name, "there is no such column", f"there are {', '.join(schema.names)}")
    return names


def why_dead(naming: Naming, required: Sequence[str]) -> Column:
    """Why a row cannot be ordered; null if it can."""
    problems = [(column_of(name).isNull(), f"{name} is null") for name in (*naming.name, *required)]
    if not naming.by_id:
        problems.append((column_of(naming.seq) < naming.first, f"{naming.seq} is below {naming.first}"))
    if naming.deps is not None:
        entries = column_of(naming.deps)
        problems.append((F.exists(entries, lambda entry: entry.isNull()), f"{naming.deps} has an entry that is null"))
        for name in () if naming.by_id else naming.name:
            inside = F.exists(entries, _null_field(name))
            problems.append((inside, f"{naming.deps} has an entry whose {name} is null"))
    return F.coalesce(*(F.when(wrong, F.lit(text)) for wrong, text in problems))


def _null_field(name: str) -> Any:
    return lambda entry: entry[name].isNull()
