"""Makes a large trace of a causal system, as arrays: nodes that publish, deliver after random delays, and hold order.

Every message names the immediate predecessors of what its publisher had delivered, about `width` of them, and every
node delivers everything after what it depends on. So nothing is wrong with the trace until something is planted.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from antecede.trace import Event
from antecede.trace.directory import BUCKET_ROWS, EVENTS, STORED, AtomicDirectory, bucket_name, write_parts

TOPIC = "all"
RUN = "bench"


class Trace(NamedTuple):
    """Messages in order of publication, and when each node delivered each of them."""

    nodes: int
    source: np.ndarray
    seq: np.ndarray
    published: np.ndarray
    #: Edges: `dependency[i]` is named by `dependent[i]`; sorted by the latter.
    dependent: np.ndarray
    dependency: np.ndarray
    #: By node and message: when, in microunits.
    delivered: np.ndarray


def make_trace(nodes: int, messages: int, *, width: float = 4.0, seed: int = 1) -> Trace:
    rng = np.random.default_rng(seed)
    interval = 100_000_000 / width  # measured: gives about `width` immediate predecessors
    published = np.cumsum(rng.exponential(interval, messages)).astype(np.int64)
    source = rng.integers(0, nodes, messages)
    seq = np.zeros(messages, np.int64)
    count = np.zeros(nodes, np.int64)
    delivered = np.empty((messages, nodes), np.int64)
    past = np.zeros((messages, nodes), np.int32)  # by message: how many of each source came before it
    knows = np.zeros((nodes, nodes), np.int32)  # by publisher: the same, after its last publication
    dependent: list[int] = []
    dependency: list[int] = []
    oldest = 0
    for message in range(messages):
        now, publisher = published[message], source[message]
        while delivered[oldest].max() < now - 2_000_000_000 and oldest < message:
            oldest += 1  # what everybody had long ago is behind something newer
        seen = np.flatnonzero(delivered[oldest:message, publisher] < now)[::-1] + oldest
        mine = knows[publisher].copy()
        direct = []
        while len(seen):
            seen = seen[mine[source[seen]] < seq[seen]]
            if not len(seen):
                break
            nearest = seen[0]
            direct.append(int(nearest))
            np.maximum(mine, past[nearest], out=mine)
            mine[source[nearest]] = max(mine[source[nearest]], seq[nearest])
        count[publisher] += 1
        seq[message] = count[publisher]
        past[message] = mine
        knows[publisher] = mine
        knows[publisher, publisher] = seq[message]
        dependent += [message] * len(direct)
        dependency += direct
        arrival = now + rng.normal(100e6, 25e6, nodes).clip(1e6).astype(np.int64)
        if direct:
            arrival = np.maximum(arrival, delivered[direct].max(axis=0) + 1)
        previous = np.flatnonzero(source[oldest:message] == publisher)
        if len(previous):
            arrival = np.maximum(arrival, delivered[previous[-1] + oldest] + 1)
        arrival[publisher] = now
        delivered[message] = arrival
    return Trace(nodes, source, seq, published, np.array(dependent), np.array(dependency), delivered.T)


class Planted(NamedTuple):
    """What is wrong with a trace, by rule: how many violations an audit must count."""

    #: Deliveries (node, message) that do not happen, and that happen once more at the end.
    lost: list[tuple[int, int]]
    again: list[tuple[int, int]]
    #: Deliveries (node, seq) of messages nobody published.
    invented: list[tuple[int, int]]
    expected: dict[str, int]


def plant(trace: Trace, each: int, *, seed: int = 2) -> Planted:
    """Turn round, lose, repeat and invent `each` deliveries, at different nodes, so that their counts are known."""
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(trace.nodes)
    count = min(each, trace.nodes // 5)
    groups = [nodes[place * count : (place + 1) * count].tolist() for place in range(5)]
    edges = set(zip(trace.dependency.tolist(), trace.dependent.tolist(), strict=True))
    turned = sum(
        _turn(trace, node, lambda a, b: (a, b) in edges and trace.source[a] != trace.source[b], rng)
        for node in groups[0]
    )
    fifo = sum(_turn(trace, node, lambda a, b: trace.source[a] == trace.source[b], rng) for node in groups[1])
    lost, again = ([(node, _not_own(trace, node, rng)) for node in group] for group in groups[2:4])
    invented = [(node, 10**6 + place) for place, node in enumerate(groups[4])]
    expected = {
        "causal": turned + fifo,
        "fifo": fifo,
        "complete": len(lost),
        "agreement": len(lost),
        "exactly-once": len(again),
        "no-invention": len(invented),
    }
    return Planted(lost, again, invented, expected)


def _turn(trace: Trace, node: int, suits: object, rng: np.random.Generator) -> int:
    """Let two messages that a node delivered one after the other change places. 1 if two were found that suit."""
    times = trace.delivered[node]
    order = np.argsort(times)
    for place in rng.permutation(len(order) - 1).tolist():
        first, then = order[place : place + 2].tolist()
        if trace.source[first] == node or trace.source[then] == node or times[first] <= trace.published[then]:
            continue
        if suits(first, then):  # type: ignore[operator]
            times[first], times[then] = times[then], times[first]
            return 1
    return 0


def _not_own(trace: Trace, node: int, rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(trace.source != node)))


class _Part:
    """A file of the directory that is made when it is written: all of them together may not fit into memory."""

    def __init__(self, rows: int, make: Callable[[], pa.Table]) -> None:
        self._rows, self._make = rows, make

    def __len__(self) -> int:
        return self._rows

    def replace_schema_metadata(self, metadata: object) -> pa.Table:
        return self._make().replace_schema_metadata(metadata)


def write_trace_directory(
    trace: Trace, planted: Planted, path: Path, *, bucket_rows: int = BUCKET_ROWS, copies: int = 1
) -> int:
    """Write it as a sweep would; the number of deliver rows.

    `copies`: so many nodes do what each node of the trace does, except that the first of them alone publishes.
    """
    nodes, messages = trace.delivered.shape
    # Twice the time, so that a publication stands before everything else of its instant, and before its own delivery.
    keys = np.concatenate([2 * trace.published, 2 * trace.delivered.ravel() + 1])
    rows = np.empty(len(keys), np.int64)
    rows[np.argsort(keys, kind="stable")] = np.arange(nodes, nodes + len(keys))  # subscriptions come first
    publish_row, deliver_row = rows[:messages], rows[messages:].reshape(nodes, messages)
    lost: dict[int, list[int]] = {}
    for node, message in planted.lost:
        lost.setdefault(node, []).append(message)
    # Behind everything else: copies, and messages that were never published.
    late: dict[int, list[tuple[int, int, int]]] = {}
    more = [(node, int(trace.source[message]), int(trace.seq[message])) for node, message in planted.again]
    for at, (node, source, seq) in enumerate([*more, *((node, 0, seq) for node, seq in planted.invented)]):
        late.setdefault(node, []).append((nodes + len(keys) + at, source, seq))
    end = int(trace.delivered.max())

    def deliveries(ids: range) -> pa.Table:
        parts = []
        for one in ids:
            copy, node = divmod(one, nodes)
            order = np.argsort(deliver_row[node])
            if node in lost:
                order = order[~np.isin(order, lost[node])]
            last = np.array(late.get(node, []), np.int64).reshape(-1, 3)
            row = np.append(deliver_row[node][order], last[:, 0]) * copies + copy
            time = np.append(trace.delivered[node][order], np.full(len(last), end))
            source, seq = np.append(trace.source[order], last[:, 1]), np.append(trace.seq[order], last[:, 2])
            parts.append((row, time, np.full(len(row), one), source, seq))
        row, time, node_of, source, seq = (np.concatenate(column) for column in zip(*parts, strict=True))
        return _table(
            Event.DELIVER, row=row, time_us=time, node=node_of, source=source, seq=seq, held_us=np.zeros(len(row))
        )

    buckets = max(1, min(-(-nodes * copies * messages // bucket_rows), nodes * copies))
    files: dict[str, Any] = {EVENTS: _events(trace, publish_row * copies, nodes * copies)}
    total = 0
    for bucket in range(buckets):
        ids = range(bucket, nodes * copies, buckets)
        count = sum(messages + len(late.get(one % nodes, ())) - len(lost.get(one % nodes, ())) for one in ids)
        files[bucket_name("deliveries", bucket)] = _Part(count, partial(deliveries, ids))
        files[bucket_name("packets", bucket)] = STORED.empty_table()
        total += count
    with AtomicDirectory(path) as place:
        write_parts(files, place, run=RUN, buckets=buckets)
    return total


def _events(trace: Trace, publish_row: np.ndarray, subscribers: int) -> pa.Table:
    nodes = np.arange(subscribers)
    subscribe = _table(Event.SUBSCRIBE, row=nodes, time_us=0 * nodes, node=nodes)
    bounds = np.searchsorted(trace.dependent, np.arange(len(trace.source) + 1))
    named = pa.StructArray.from_arrays(
        [
            pa.repeat(TOPIC, len(trace.dependency)),
            pa.array(trace.source[trace.dependency], pa.int32()),
            pa.array(trace.seq[trace.dependency], pa.int64()),
        ],
        fields=list(STORED.field("deps").type.value_type),
    )
    deps = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), named)
    publish = _table(
        Event.PUBLISH,
        row=publish_row,
        time_us=trace.published,
        node=trace.source,
        source=trace.source,
        seq=trace.seq,
        deps=deps,
    )
    return pa.concat_tables([subscribe, publish])


def _table(event: Event, **given: object) -> pa.Table:
    count = len(given["row"])  # type: ignore[arg-type]
    nothing = np.zeros(count, np.int32)
    given["run"] = pa.repeat(RUN, count)
    given["event"] = pa.DictionaryArray.from_arrays(pa.array(nothing.astype(np.int8)), [event.name.lower()])
    given["topic"] = pa.DictionaryArray.from_arrays(pa.array(nothing), [TOPIC])
    arrays = []
    for field in STORED:
        value = given.get(field.name)
        if value is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(value if isinstance(value, pa.Array) else pa.array(value, field.type))
    return pa.table(arrays, schema=STORED)
