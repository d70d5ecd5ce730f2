"""`causal_order`: puts a stream into causal order per key, with state that Spark keeps.

    ordered = causal_order(stream, id="sha", parents="parents", key="repo", late="tag", patience_s=30)
    query = ordered.writeStream.option("checkpointLocation", …).start()
    query.lastProgress["observedMetrics"]["causal_order"]

    causal_order(stream, key="room", source="author", seq="n", deps="after")    # rows that their sources count
    causal_order(stream, log="log", offset="offset", past="past")    # across logs of another system

Rows pass three steps: they are packed by key (`packing`), ordered by key on top of the state of earlier batches
(`stateful`), and unpacked. The rows of a key stand in order in one partition, after those of earlier batches. Counts
are observed under a name and appear in the query's progress and its listeners.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from antecede.core import UsageError
from antecede.spark.causal.across import LogRule
from antecede.spark.causal.clock import TICK, ticks
from antecede.spark.causal.dead import check_required, why_dead
from antecede.spark.causal.ids import Horizon
from antecede.spark.causal.keyed import Rule
from antecede.spark.causal.naming import check_free, choose_naming, make_naming
from antecede.spark.causal.packing import TIME, packed_schema, packer, unpack
from antecede.spark.causal.sorting import sort_table
from antecede.spark.causal.stateful import order_packets
from antecede.spark.causal.steps import Counts, Late
from antecede.spark.quoting import map_in_arrow

_DEAD: Final = "antecede_dead"
_LATE: Final = ("wait", "tag", "drop")
_Limits: TypeAlias = tuple[Late, int | None, int, str | None]
#: The default number of rows of a key that may wait from one batch to the next: seconds of a busy topic.
HELD_MAX: Final = 10_000


def causal_order(
    stream: DataFrame,
    *,
    key: str | Sequence[str] | None = None,
    id: str | None = None,
    parents: str | None = None,
    source: str | Sequence[str] = "source",
    seq: str = "seq",
    deps: str | None = "deps",
    late: Late = "wait",
    patience_s: float | None = None,
    time: str | None = None,
    horizon: int | None = None,
    horizon_s: float | None = None,
    max_held: int = HELD_MAX,
    required: str | Sequence[str] = (),
    first: int = 1,
    holes: bool = False,
    log: str | None = None,
    offset: str = "offset",
    past: str = "past",
    order_column: str = "order",
    held_column: str = "held_ms",
    position_column: str = "order_position",
    metrics: str = "causal_order",
) -> DataFrame:
    """Order `stream`: within each `key`, every row follows what it depends on, and each row comes once.

    A table is taken too: its rows come sorted as by `causal_sort`, without copies, with the same columns added.

    `key`: the columns that define the scope of the order; an empty list orders everything together, in one task.
    `id`, `parents`: the name of a row within its key, and the array of the names it follows. Rows that name each other
    in a cycle cannot be ordered: they come side by side, marked "circle", behind everything else that they name.
    `horizon`, `horizon_s`: so many of a key's newest ids are remembered, or for so long by the clock of `patience_s`.
    An id that is forgotten counts as one that did not come: neither its copies nor rows that name it may follow. None:
    all ids are remembered, with 16 bytes each.

    In place of `id` and `parents`:
    `source`, `seq`: the publisher of a row and its number, without holes from `first` on for each source of a key.
    `deps`: the dependencies beside the source's previous row, see `naming`. None: only each source's own order.
    `holes`: the stream was filtered, so numbers have holes and dependencies may never come. A row then waits for
    nothing beyond its batch. Every row must come no later than the rows that depend on it, in the same batch at the
    latest, as from `format("antecede")` and unions of such streams; a row that comes later is marked "late".
    `late`: what to do about rows that never come. "wait": others wait for them for ever. "tag" and "drop": they are
    given up once a row has waited `patience_s`. If one of them comes after all, it is marked ("tag") or left out
    ("drop").
    `patience_s` counts the time that the query runs, not the time it is stopped. With `time`, a column of timestamps,
    it is event time: a row has waited long enough when a row of any key is newer by `patience_s` (Spark's watermark).
    `max_held`: the number of rows of a key that may wait from one batch to the next. If more would, "wait" fails the
    query, which can continue from its checkpoint with a higher bound; "tag" and "drop" give up what the oldest rows
    wait for.

    `required`: columns, such as a payload, that must not be null. Rows with a null there, in their name or in a name of
    their dependencies are left out and counted; `dead_letters` gives them. `waiting_rows` tells which rows wait.

    `log`, `offset`, `past`: for rows of logs that another system runs, as `format("antecede")` reads them, in place of
    `key`, `source`, `seq` and `deps`. A row then follows everything that its writer had read or written, in any log.
    The columns `writer`, `number`, `retry` and `tombstone` are used if they are there: by them copies are left out.
    All rows are ordered together, in one task, and must not be filtered before.

    Adds three columns. `order_column`: the row is in order ("causal"), a dependency of it was given up ("incomplete"),
    or it came after it had been given up ("late"). `held_column`: how long the row waited, in ms. `position_column`:
    the row's position in its key, from 1 on without holes; a batch that is run again after a crash gives the same.

    With a patience Spark also runs batches without new rows, some ten times within `patience_s`. With the trigger
    `availableNow` the query ends when its rows are through, and rows that wait stay in the checkpoint.

    Raises `UsageError` for every mistake that can be found before the query runs.
    """
    if not isinstance(stream, DataFrame):
        raise UsageError("stream", type(stream).__name__, "is not a DataFrame", "give a stream or a table")
    schema = stream.schema
    check_free(schema, "order_column", order_column)
    check_free(schema, "held_column", held_column)
    check_free(schema, "position_column", position_column)
    limits = (_policy(late), _patience_ms(late, patience_s), _bound(max_held), _time(schema, late, time))
    rule: Rule | LogRule
    if log is not None:
        if key is not None:
            raise UsageError("key", key, "does not go with log", "leave it out: a past reaches over all rows")
        if not stream.isStreaming:
            raise UsageError("stream", "a table", "does not go with log", "use causal_sort with holes=True")
        rule = _log_rule(schema, log, offset, past, limits)
    elif key is None:
        raise UsageError("key", key, "is not given", "name the scope of the order; [] orders everything together")
    else:
        naming = choose_naming(schema, key=key, id=id, parents=parents, source=source, seq=seq, deps=deps, first=first)
        if holes and (naming.by_id or late != "wait"):
            problem = f"does not go with {'id' if naming.by_id else f'late={late!r}'}"
            raise UsageError("holes", holes, problem, "leave it out: it is for source and seq, and nothing waits")
        asked = _horizon(naming.by_id or holes, horizon, horizon_s, clocked=patience_s is not None)
        late, patience_ms, held_max, time = limits
        rule = Rule(
            naming=naming,
            late=late,
            patience_ms=patience_ms,
            held_max=held_max,
            time=time,
            horizon=asked,
            holes=holes,
        )
    added = (order_column, held_column, position_column)
    if isinstance(rule, Rule):
        check_free(schema, _DEAD, _DEAD)
        stream = stream.withColumn(_DEAD, why_dead(rule.naming, check_required(schema, required)))
        if stream.isStreaming:
            stream = stream.observe(f"{metrics}_dead_letters", F.count(F.col(_DEAD)).alias("rows"))
        stream = stream.where(F.col(_DEAD).isNull()).drop(_DEAD)
        if not stream.isStreaming:
            return sort_table(stream, rule.naming, holes, added)
    ordered = order_packets(_timed(stream, rule), rule, added)
    kinds = (StringType(), LongType(), LongType())
    more = [StructField(name, kind) for name, kind in zip(added, kinds, strict=True)]
    return ordered.observe(metrics, *_observed()).mapInArrow(unpack, StructType([*schema.fields, *more]))


def _timed(stream: DataFrame, rule: Rule | LogRule) -> DataFrame:
    """The rows as packets, with the clock that patience is measured by as their watermark."""
    key = rule.naming.key
    schema = packed_schema(stream.schema, key)
    packed = map_in_arrow(stream, packer(key, rule.time), schema)
    if rule.patience_ms is None:
        return packed
    if rule.time is None:
        clock = ticks(stream.sparkSession, rule.patience_ms)
        empty = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema if field.name != TIME]
        packed = packed.unionByName(clock.select(*empty, F.col(TICK).alias(TIME)))
    return packed.withWatermark(TIME, "0 seconds")


def _observed() -> Any:
    """The counts of a batch, over all keys that had rows or gave something up."""
    count = {name: F.col("counts")[index] for index, name in enumerate(Counts._fields)}
    observed = {name: F.sum(column) for name, column in count.items()}
    observed["held_by_key_max"] = F.max(count["held"])
    observed |= {name: F.max(count[name]) for name in ("hold_ms_max", "waited_ms_max")}
    return [F.coalesce(column, F.lit(0)).alias(name) for name, column in observed.items()]


def _log_rule(schema: StructType, log: str, offset: str, past: str, limits: _Limits) -> LogRule:
    naming = make_naming(schema, key=(), source=log, seq=offset, deps=past, first=0)
    if not isinstance(schema[log].dataType, StringType):
        raise UsageError("log", log, f"is {schema[log].dataType.simpleString()}", "name logs by text")
    names = {name: name if name in schema.names else None for name in ("writer", "number", "retry", "tombstone")}
    late, patience_ms, held_max, time = limits
    return LogRule(naming=naming, late=late, patience_ms=patience_ms, held_max=held_max, time=time, **names)


# -- arguments --------------------------------------------------------------------------------------------------------


def _policy(late: str) -> Late:
    if late not in _LATE:
        raise UsageError("late", late, "is not a policy", f"choose one of {', '.join(_LATE)}")
    return cast(Late, late)


def _patience_ms(late: str, patience_s: float | None) -> int | None:
    if late == "wait":
        if patience_s is not None:
            remedy = "choose late='tag' or late='drop', or leave patience_s out"
            raise UsageError("patience_s", patience_s, "does not go with late='wait', which waits for ever", remedy)
        return None
    if isinstance(patience_s, bool) or not isinstance(patience_s, int | float) or not 0.001 <= patience_s < 1e9:
        problem = f"late={late!r} has to know how long to wait"
        raise UsageError("patience_s", patience_s, problem, "give the seconds, for example 60")
    return int(patience_s * 1000)


def _time(schema: StructType, late: str, time: str | None) -> str | None:
    if time is None:
        return None
    if late == "wait":
        raise UsageError("time", time, "does not go with late='wait', which waits for ever", "leave it out")
    if time not in schema.names:
        raise UsageError("time", time, "there is no such column", f"there are {', '.join(schema.names)}")
    if not isinstance(schema[time].dataType, TimestampType):
        raise UsageError("time", time, f"is of type {schema[time].dataType.simpleString()}", "name a timestamp column")
    return time


def _horizon(remembers: bool, rows: int | None, s: float | None, *, clocked: bool) -> Horizon:
    if (rows is not None or s is not None) and not remembers:
        remedy = "leave it out: with source and seq, a counter for each source is remembered"
        raise UsageError("horizon", rows if s is None else s, "is for rows with ids", remedy)
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise UsageError("horizon", rows, "is not a number of ids", "use at least 1")
    if s is not None and (isinstance(s, bool) or not isinstance(s, int | float) or not 0.001 <= s < 1e9):
        raise UsageError("horizon_s", s, "is not a time", "give the seconds, for example 86400")
    if s is not None and not clocked:
        raise UsageError(
            "horizon_s", s, "has no clock with late='wait'", "give horizon, or choose late='tag' or 'drop'"
        )
    return Horizon(rows, None if s is None else int(s * 1000))


def _bound(max_held: int) -> int:
    if isinstance(max_held, bool) or not isinstance(max_held, int) or max_held < 1:
        raise UsageError("max_held", max_held, "is not a number of rows", "use at least 1")
    return max_held
