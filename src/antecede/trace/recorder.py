"""Records a trace in columns of machine integers: a million rows take about 100 MB, since no row is an object."""

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from antecede.loading import need_extra
from antecede.trace.schema import Event, Row

if TYPE_CHECKING:
    import pyarrow as pa

#: The columns of a `Row` that hold integers.
INTEGERS: Final = ("time_us", "node", "peer", "source", "seq", "packet", "bundle", "bytes", "hops", "held_us", "digest")


class Recorder:
    """Holds a trace in memory: `add` appends a row; `rows` and `table` read all of them back.

    The attributes are the columns, for `trace.arrow`. A topic or note is stored as its number in `names`; the
    dependencies of a row are in `deps` under the row's number.
    """

    def __init__(self) -> None:
        self.integers = {name: array("q") for name in INTEGERS}
        self.events = array("b")
        self.topics = array("l")
        self.notes = array("l")
        self.names: dict[str, int] = {"": 0}
        self.deps: dict[int, tuple[tuple[str, int, int], ...]] = {}

    def __len__(self) -> int:
        return len(self.events)

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
        digest: int = -1,
    ) -> None:
        if deps:
            self.deps[len(self.events)] = deps
        self.events.append(event)
        self.topics.append(self._name(topic))
        self.notes.append(self._name(note))
        columns = self.integers
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
        columns["digest"].append(digest)

    def rows(self) -> Iterator[Row]:
        names = list(self.names)
        columns = self.integers
        for index, event in enumerate(self.events):
            yield Row(
                time_us=columns["time_us"][index],
                event=Event(event),
                node=columns["node"][index],
                peer=columns["peer"][index],
                topic=names[self.topics[index]],
                source=columns["source"][index],
                seq=columns["seq"][index],
                packet=columns["packet"][index],
                bundle=columns["bundle"][index],
                bytes=columns["bytes"][index],
                hops=columns["hops"][index],
                deps=self.deps.get(index, ()),
                held_us=columns["held_us"][index],
                note=names[self.notes[index]],
                digest=columns["digest"][index],
            )

    def table(self, run: str) -> "pa.Table":
        """Return the trace as an Arrow table in `trace.arrow.SCHEMA`, under the name `run`. Needs the extra `lab`."""
        need_extra("lab", "an Arrow table of a trace")
        from antecede.trace.arrow import make_table  # noqa: PLC0415 - recording needs no Arrow

        return make_table(self, run)

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))
