"""Exports journals as one trace, so that a live run is audited like a simulated one.

A journal holds its node's publications, deliveries and memberships in their exact order. Clocks of several machines
disagree, so rows of several nodes are not simply sorted by time: a delivery comes behind the publication it delivers,
as far as the publisher's journal is there. Within that, earlier times come first. A node's clock may have been set
back; times in a trace never decrease at a node, so such rows get the time of the row before.

A journal can be exported while its node runs: the reader sees the last commit.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import TypeAlias

from antecede.core import Message, ProtocolError
from antecede.core.epochs import epoch_of, within_epoch
from antecede.core.errors import JournalError
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.journal.blocks import DamagedError, Delivered, decode_deliveries
from antecede.journal.schema import open_for_reading
from antecede.journal.segments import SegmentGoneError
from antecede.journal.view import View
from antecede.loading import need_extra
from antecede.trace import Event, Recorder, Row, payload_digest
from antecede.wire.envelope import label

_Key: TypeAlias = tuple[str, int, int]

_EVENTS = {
    "subscribe": Event.SUBSCRIBE,
    "unsubscribe": Event.UNSUBSCRIBE,
    "crash": Event.CRASH,
    "stop": Event.STOP,
    "recover": Event.RECOVER,
}


def export_trace(journals: Sequence[Path], trace: Path, *, run: str) -> int:
    """Write the journals as one trace file; the number of rows. Raises `JournalError` or `UsageError`.

    A trace file is Parquet, which needs the extra `lab`; `export_rows` does without.
    """
    need_extra("lab", "exporting a journal as a trace file")
    from antecede.trace.files import write_trace  # noqa: PLC0415 - a node runs without Arrow

    recorder = Recorder()
    for row in export_rows(journals):
        recorder.add(
            row.event,
            row.time_us,
            row.node,
            topic=row.topic,
            source=row.source,
            seq=row.seq,
            deps=row.deps,
            held_us=row.held_us,
            note=row.note,
            digest=row.digest,
        )
    write_trace(recorder.table(run), trace)
    return len(recorder)


def export_rows(journals: Sequence[Path]) -> Iterator[Row]:
    """The rows of several journals. `note` of a publication or delivery is the label its application gave it."""
    return _merged([_node_rows(path) for path in journals])


def _merged(streams: list[Iterator[Row]]) -> Iterator[Row]:
    ready: list[tuple[int, int, Row]] = []
    published: set[_Key] = set()
    parked: dict[_Key, list[tuple[int, Row]]] = {}
    sources: dict[int, int] = {}  # node -> its stream, while that has rows left

    def step(index: int) -> None:
        row = next(streams[index], None)
        if row is None:
            for node in [node for node, stream in sources.items() if stream == index]:
                del sources[node]
                for key in [key for key in parked if key[1] == node]:  # will not come: its journal says nothing of it
                    for waiting, held in parked.pop(key):
                        heappush(ready, (held.time_us, waiting, held))
            return
        sources[row.node] = index
        key = (row.topic, row.source, row.seq)
        if row.event is Event.DELIVER and key not in published and sources.get(row.source, index) != index:
            parked.setdefault(key, []).append((index, row))
        else:
            heappush(ready, (row.time_us, index, row))

    for index in range(len(streams)):
        step(index)
    while ready or parked:
        if not ready:  # contradictory journals: give what there is, and let the audit say so
            key = min(parked, key=lambda key: parked[key][0][1].time_us)
            for index, row in parked.pop(key):
                heappush(ready, (row.time_us, index, row))
        _, index, row = heappop(ready)
        yield row
        if row.event is Event.PUBLISH:
            key = (row.topic, row.source, row.seq)
            published.add(key)
            for waiting, held in parked.pop(key, ()):
                heappush(ready, (held.time_us, waiting, held))
        step(index)


def _node_rows(path: Path) -> Iterator[Row]:
    """One journal, in its node's order."""
    view = open_for_reading(path, "quick")
    try:
        with view.reading():  # one state of the file throughout
            node = view.execute("SELECT value FROM facts WHERE name = 'node'").fetchone()
            if node is None:
                raise JournalError(str(path), "belongs to a node that has no slot yet", "export it once it has joined")
            latest_us = 0
            for row in _in_order(view, _owner(node[0], _epoch(view))):
                latest_us = max(latest_us, row.time_us)
                yield row if row.time_us == latest_us else row._replace(time_us=latest_us)
    except (sqlite3.Error, OSError, DamagedError) as error:
        raise JournalError(str(path), f"cannot be read ({error})", "export the journals of other nodes") from None
    except SegmentGoneError:
        raise JournalError(str(path), "retention removed a part of it meanwhile", "export it again") from None
    finally:
        view.close()


def _in_order(view: View, node: int) -> Iterator[Row]:
    deliveries = _Lookahead(_deliveries(view))
    for position, time_us, change in view.changes():
        while deliveries.first is not None and deliveries.first.position <= position:
            yield _delivered(node, deliveries.take())
        message = change.message
        if change.what == "publish":
            if message is None:
                own = deliveries.first
                if own is None or own.position != position + 1:
                    continue  # retention removed it
                message = own.message
            yield _published(node, time_us, message)
        else:
            yield Row(time_us, _EVENTS[change.what], node, topic=change.topic)
    while deliveries.first is not None:
        yield _delivered(node, deliveries.take())


def _deliveries(view: View) -> Iterator[Delivered]:
    for batch in view.batches(view.removed, view.position):
        yield from decode_deliveries(batch.block).read(batch.first, batch.time_us)


class _Lookahead:
    """Deliveries, with the next one in sight."""

    def __init__(self, items: Iterator[Delivered]) -> None:
        self._items = items
        self.first = next(items, None)

    def take(self) -> Delivered:
        taken, self.first = self.first, next(self._items, None)
        assert taken is not None
        return taken


def _published(node: int, time_us: int, message: Message) -> Row:
    topic, source, seq = _name(message.topic, message.source, message.seq)
    deps = (*[_name(topic, *one) for one in message.deps], *[_name(*one) for one in message.across])
    return Row(
        time_us,
        Event.PUBLISH,
        node,
        -1,
        topic,
        source,
        seq,
        deps=deps,
        note=_label(message),
        digest=payload_digest(message.payload),
    )


def _delivered(node: int, item: Delivered) -> Row:
    message = item.message
    topic, source, seq = _name(message.topic, message.source, message.seq)
    return Row(
        item.time_us,
        Event.DELIVER,
        node,
        -1,
        topic,
        source,
        seq,
        held_us=item.held_us,
        note="out_of_order" if item.out_of_order else _label(message),
        digest=payload_digest(message.payload),
    )


def _epoch(view: View) -> int:
    """The epoch of the slot, of the node that the journal belongs to (`node.directory`)."""
    row = view.execute("SELECT value FROM facts WHERE name = 'settings'").fetchone()
    return 0 if row is None else int(json.loads(row[0]).get("epoch", 0))


def _owner(slot: int, epoch: int) -> int:
    """A node's number in a trace. Each owner of a slot is a node of its own there."""
    return slot + (epoch << CUBE_DIMENSION_MAX)


def _name(topic: str, source: int, seq: int) -> tuple[str, int, int]:
    """A message's name in a trace: by its publisher there, whose numbers count from 1."""
    return topic, _owner(source, epoch_of(seq)), within_epoch(seq)


def _label(message: Message) -> str:
    try:
        return label(message.payload)
    except ProtocolError:
        return ""  # not an envelope: a domain used without labels
