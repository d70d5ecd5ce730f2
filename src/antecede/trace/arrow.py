"""Defines the Arrow schema of a trace and turns a recorder into a table. Needs the extra `lab`.

A value that does not apply to an event (−1, '' or () in a `Row`) is null here.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from antecede.trace.recorder import INTEGERS, Recorder
from antecede.trace.schema import SCHEMA_VERSION, Event

DEPENDENCY = pa.struct([("topic", pa.string()), ("source", pa.int32()), ("seq", pa.int64())])

SCHEMA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("event", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field("peer", pa.int32()),
        pa.field("topic", pa.dictionary(pa.int32(), pa.string())),
        pa.field("source", pa.int32()),
        pa.field("seq", pa.int64()),
        pa.field("packet", pa.int64()),
        pa.field("bundle", pa.int32()),
        pa.field("bytes", pa.int32()),
        pa.field("hops", pa.int32()),
        pa.field("deps", pa.list_(DEPENDENCY)),
        pa.field("held_us", pa.int64()),
        pa.field("note", pa.dictionary(pa.int32(), pa.string())),
        pa.field("digest", pa.int64()),
    ],
    metadata={"antecede.trace": str(SCHEMA_VERSION)},
)

#: Columns in which −1 means "does not apply" and becomes null.
NULLABLE = frozenset(INTEGERS) - {"time_us", "node"}


def make_table(recorder: Recorder, run: str) -> pa.Table:
    """Return what `recorder` holds as a table in `SCHEMA`, under the name `run`."""
    count = len(recorder)
    arrays: dict[str, pa.Array] = {
        "run": pa.array([run], pa.string()).take(pa.array(np.zeros(count, np.int32))),
        "event": pa.DictionaryArray.from_arrays(
            pa.array(np.array(recorder.events, np.int8)),
            pa.array([event.name.lower() for event in Event]),
        ),
        "topic": _dictionary(recorder.topics, recorder.names),
        "note": _dictionary(recorder.notes, recorder.names),
        "deps": _dependencies(recorder),
    }
    for name in INTEGERS:
        values = np.array(recorder.integers[name], np.int64)  # a copy: the recorder goes on growing
        mask = values == -1 if name in NULLABLE else None
        arrays[name] = pa.array(values, mask=mask).cast(SCHEMA.field(name).type)
    return pa.table([arrays[field.name] for field in SCHEMA], schema=SCHEMA)


def _dictionary(codes: Sequence[int], names: Iterable[str]) -> pa.Array:
    indices = np.array(codes, np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices == 0), pa.array(list(names)))


def _dependencies(recorder: Recorder) -> pa.Array:
    return pa.array(
        [
            [{"topic": topic, "source": source, "seq": seq} for topic, source, seq in recorder.deps[index]]
            if index in recorder.deps
            else None
            for index in range(len(recorder))
        ],
        pa.list_(DEPENDENCY),
    )
