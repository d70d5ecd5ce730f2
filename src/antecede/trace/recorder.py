"""Collects rows in columns: one machine integer a value, no object a row, so that a million events fit in 100 MB."""

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from antecede.trace.schema import DEPENDENCY, SCHEMA, Event, Row

_INTEGERS = ("time_us", "node", "peer", "source", "seq", "packet", "bundle", "bytes", "hops", "held_us")
#: Columns whose −1 means "does not apply" and becomes null in a file.
_NULLABLE = frozenset(_INTEGERS) - {"time_us", "node"}


class Recorder:
    """A trace in memory. `add` a row at a time; read it back as rows (`rows`) or as an Arrow table (`table`)."""

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in _INTEGERS}
        self._event = array("b")
        self._topic = array("l")
        self._note = array("l")
        self._names: dict[str, int] = {"": 0}
        self._deps: dict[int, tuple[tuple[str, int, int], ...]] = {}

    def __len__(self) -> int:
        return len(self._event)

    def add(
        self,
        event: Event,
        time_us: int,
        node: int,
        *,
        peer: int = -1,
        topic: str = "",
        source: int = -1,
        seq: int = -1,
        packet: int = -1,
        bundle: int = -1,
        size: int = -1,
        hops: int = -1,
        deps: tuple[tuple[str, int, int], ...] = (),
        held_us: int = -1,
        note: str = "",
    ) -> None:
        if deps:
            self._deps[len(self._event)] = deps
        self._event.append(event)
        self._topic.append(self._name(topic))
        self._note.append(self._name(note))
        columns = self._columns
        columns["time_us"].append(time_us)
        columns["node"].append(node)
        columns["peer"].append(peer)
        columns["source"].append(source)
        columns["seq"].append(seq)
        columns["packet"].append(packet)
        columns["bundle"].append(bundle)
        columns["bytes"].append(size)
        columns["hops"].append(hops)
        columns["held_us"].append(held_us)

    def rows(self) -> Iterator[Row]:
        names = list(self._names)
        columns = self._columns
        for index, event in enumerate(self._event):
            yield Row(
                time_us=columns["time_us"][index],
                event=Event(event),
                node=columns["node"][index],
                peer=columns["peer"][index],
                topic=names[self._topic[index]],
                source=columns["source"][index],
                seq=columns["seq"][index],
                packet=columns["packet"][index],
                bundle=columns["bundle"][index],
                bytes=columns["bytes"][index],
                hops=columns["hops"][index],
                deps=self._deps.get(index, ()),
                held_us=columns["held_us"][index],
                note=names[self._note[index]],
            )

    def table(self, run: str) -> pa.Table:
        """The trace as an Arrow table in `SCHEMA`, under the name `run`."""
        count = len(self)
        arrays: dict[str, pa.Array] = {
            "run": pa.array([run], pa.string()).take(pa.array(np.zeros(count, np.int32))),
            "event": pa.DictionaryArray.from_arrays(
                pa.array(np.array(self._event, np.int8)),
                pa.array([event.name.lower() for event in Event]),
            ),
            "topic": self._dictionary(self._topic),
            "note": self._dictionary(self._note),
            "deps": self._dependencies(count),
        }
        for name in _INTEGERS:
            values = np.array(self._columns[name], np.int64)  # a copy: the recorder goes on growing
            mask = values == -1 if name in _NULLABLE else None
            arrays[name] = pa.array(values, mask=mask).cast(SCHEMA.field(name).type)
        return pa.table([arrays[field.name] for field in SCHEMA], schema=SCHEMA)

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _dictionary(self, codes: Sequence[int]) -> pa.Array:
        indices = np.array(codes, np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices == 0), pa.array(list(self._names)))

    def _dependencies(self, count: int) -> pa.Array:
        return pa.array(
            [
                [{"topic": topic, "source": source, "seq": seq} for topic, source, seq in self._deps[index]]
                if index in self._deps
                else None
                for index in range(count)
            ],
            pa.list_(DEPENDENCY),
        )
