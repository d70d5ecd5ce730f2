"""Random traces to judge, good and broken in every way, and the table they would be stored as."""

from collections.abc import Sequence
from random import Random

import pyarrow as pa

from antecede.audit import INCOMPLETE, OUT_OF_ORDER
from antecede.sim import RunSpec, simulate
from antecede.trace import Event, Recorder, Row

from .random_runs import Key, causal_run, noise, retimed, with_crashes, with_digests


def table(rows: Sequence[Row], run: str = "run") -> pa.Table:
    recorder = Recorder()
    for row in rows:
        recorder.add(
            row.event,
            row.time_us,
            row.node,
            peer=row.peer,
            topic=row.topic,
            source=row.source,
            seq=row.seq,
            deps=row.deps,
            held_us=row.held_us,
            note=row.note,
            digest=row.digest,
        )
    return recorder.table(run)


def random_trace(random: Random) -> list[Row]:
    """Any of them."""
    nodes, topics = random.randint(1, 6), random.randint(1, 3)
    match random.randrange(10):
        case 0:
            rows = noise(random, nodes, topics, random.randint(0, 40))
        case 1:
            rows = with_crashes(random, noise(random, nodes, topics, 40), nodes)
        case 2:
            rows = simulated(random)
        case _:
            run = causal_run(random, nodes + 1, topics, random.randint(1, 14))
            rows = with_dependencies(random, run.rows, {key: frozenset(past) for key, past in run.past.items()})
            if random.random() < 0.3:
                rows = with_crashes(random, rows, nodes)
    if random.random() < 0.5:
        rows = with_sends(random, rows)
    if random.random() < 0.5:
        rows = with_digests(random, rows, random.choice((0.0, 0.0, 0.05, 0.5)))
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        rows = broken(random, rows)
    rows = retimed(rows)
    if random.random() < 0.05:
        rows = senseless(random, rows)
    return rows


def simulated(random: Random) -> list[Row]:
    spec = RunSpec(
        protocol="causal-aggregation",
        nodes=random.choice((2, 3, 5, 8)),
        seed=random.randrange(10**6),
        workload=random.choice(("uniform:messages=3", "zipf:count=3,messages=4", "discussion:wait=2,messages=2")),
        options={"aggregate": random.random() < 0.5},
    )
    trace = simulate(spec, trace=True, measure=False).trace
    assert trace is not None
    return list(trace.rows())


def with_dependencies(random: Random, rows: list[Row], past: dict[Key, frozenset[Key]]) -> list[Row]:
    """As protocols record them: nothing, the immediate predecessors, or some of the past."""
    how = random.choice(("none", "immediate", "some"))
    made = []
    for row in rows:
        deps: list[Key] = []
        if row.event is Event.PUBLISH and how != "none":
            before = past[row.topic, row.source, row.seq]
            if how == "immediate":
                deps = sorted(key for key in before if not any(key in past[other] for other in before))
            else:
                deps = sorted(key for key in before if random.random() < 0.3)
        made.append(row._replace(deps=tuple(deps)))
    return made


def with_sends(random: Random, rows: list[Row]) -> list[Row]:
    made = []
    for row in rows:
        made.append(row)
        if row.event is Event.DELIVER and random.random() < 0.5:
            name = (row.topic, row.source, row.seq)
            kind = Event.SEND if random.random() < 0.7 else Event.RECEIVE
            made.append(Row(0, kind, row.node, random.randrange(4), *name))
    return made


def broken(random: Random, rows: list[Row]) -> list[Row]:
    """Rows with one of them moved, lost, doubled, tagged, renamed or given a dependency too many."""
    if not rows:
        return rows
    rows = list(rows)
    place = random.randrange(len(rows))
    row = rows[place]
    match random.randrange(7):
        case 0:
            del rows[place]
            rows.insert(random.randrange(len(rows) + 1), row)
        case 1:
            del rows[place]
        case 2:
            rows.insert(random.randrange(len(rows) + 1), row)
        case 3 if row.event is Event.DELIVER:
            rows[place] = row._replace(note=random.choice((OUT_OF_ORDER, INCOMPLETE)))
        case 4 if row.event in (Event.PUBLISH, Event.DELIVER):
            rows[place] = row._replace(seq=random.choice((row.seq + 1, row.seq + 7, 10**12)))
        case 5 if row.event is Event.PUBLISH:
            other = random.choice(rows)
            if other.seq > 0:
                rows[place] = row._replace(deps=(*row.deps, (other.topic, other.source, other.seq)))
        case 6:
            rows[place] = row._replace(node=random.randrange(8))
    return rows


def senseless(random: Random, rows: list[Row]) -> list[Row]:
    """Rows one of which cannot mean anything."""
    if not rows:
        return rows
    rows = list(rows)
    kind = random.randrange(6)
    # Dependencies mean something on publish rows only, and are not looked at elsewhere.
    places = [place for place, row in enumerate(rows) if kind != 4 or row.event is Event.PUBLISH]
    if not places:
        return rows
    place = random.choice(places)
    row = rows[place]
    match kind:
        case 0:
            rows[place] = row._replace(node=-3)
        case 1:
            rows[place] = row._replace(time_us=0)
        case 2:
            rows[place] = row._replace(topic="")
        case 3:
            rows[place] = row._replace(seq=0)
        case 4:
            rows[place] = row._replace(deps=(("t", -1, 1),))
        case 5:
            rows.insert(place, Row(row.time_us, random.choice((Event.CRASH, Event.STOP)), row.node))
    return rows
