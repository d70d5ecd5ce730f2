"""Random traces: good ones from a causal system in thirty lines, and noise in which anything goes.

The good ones share nothing with antecede's protocols: a message carries its whole past as a set, a node delivers
anything whose past, as far as the node takes it, it has. So each node ends up with a random linear extension of one
random history.
"""

from dataclasses import dataclass, field
from random import Random

from antecede.trace import Event, Row, payload_digest

Key = tuple[str, int, int]


@dataclass
class Run:
    rows: list[Row] = field(default_factory=list)
    past: dict[Key, frozenset[Key]] = field(default_factory=dict)


def causal_run(random: Random, nodes: int, topics: int, messages: int) -> Run:
    """Every node takes some topics from the start; everybody has everything it is owed at the end."""
    run = Run()
    names = [f"t/{number}" for number in range(topics)]
    takes = {node: {name for name in names if random.random() < 0.7} for node in range(nodes)}
    has: dict[int, set[Key]] = {node: set() for node in range(nodes)}
    knows: dict[int, frozenset[Key]] = {node: frozenset() for node in range(nodes)}
    for node, mine in takes.items():
        run.rows.extend(Row(0, Event.SUBSCRIBE, node, topic=name) for name in sorted(mine))

    def deliver(node: int, message: Key) -> None:
        has[node].add(message)
        knows[node] |= run.past[message] | {message}
        run.rows.append(Row(0, Event.DELIVER, node, -1, *message, held_us=0))

    def deliverable(node: int) -> list[Key]:
        wanted = [message for message in run.past if message[0] in takes[node] and message not in has[node]]
        return [message for message in wanted if not run.past[message] & set(wanted)]

    def publish(node: int, topic: str) -> None:
        seq = 1 + sum((name, source) == (topic, node) for name, source, _ in run.past)
        message = (topic, node, seq)
        run.past[message] = knows[node]
        run.rows.append(Row(0, Event.PUBLISH, node, -1, *message))
        deliver(node, message)

    while len(run.past) < messages or any(deliverable(node) for node in range(nodes)):
        node = random.randrange(nodes)
        choices = deliverable(node)
        if len(run.past) < messages and (not choices or random.random() < 0.3):
            publish(node, random.choice(names))
        elif choices:
            deliver(node, random.choice(choices))
    run.rows = retimed(run.rows)
    return run


def noise(random: Random, nodes: int, topics: int, rows: int) -> list[Row]:
    """Rows well formed one by one and otherwise anything: the judge must agree with the definition here too."""
    seqs = [(f"t/{topic}", node, seq) for topic in range(topics) for node in range(nodes) for seq in (1, 2, 3)]
    made = []
    for _ in range(rows):
        node = random.randrange(nodes)
        topic, source, seq = random.choice(seqs)
        dice = random.random()
        if dice < 0.35:
            deps = tuple(random.sample(seqs, random.choice((0, 0, 0, 1, 2))))
            made.append(Row(0, Event.PUBLISH, random.choice((node, source)), -1, topic, source, seq, deps=deps))
        elif dice < 0.9:
            note = "out_of_order" if random.random() < 0.1 else ""
            made.append(Row(0, Event.DELIVER, node, -1, topic, source, seq, note=note))
        else:
            made.append(Row(0, random.choice((Event.SUBSCRIBE, Event.UNSUBSCRIBE)), node, topic=topic))
    return retimed(made)


def with_crashes(random: Random, rows: list[Row], nodes: int) -> list[Row]:
    """Strew crashes, and some recoveries, between `rows`; what a node would have done while down did not happen."""
    down: set[int] = set()
    made = []
    for row in rows:
        node = random.randrange(nodes)
        if random.random() < 0.1:
            made.append(Row(0, Event.RECOVER if node in down else random.choice((Event.CRASH, Event.STOP)), node))
            down ^= {node}
        if row.node not in down:
            made.append(row)
    return retimed(made)


def with_digests(random: Random, rows: list[Row], wrong: float = 0.0) -> list[Row]:
    """Digests on some publish and deliver rows, equal for one message but for a share of `wrong` ones."""
    made = []
    known = random.random()
    for row in rows:
        if row.event in (Event.PUBLISH, Event.DELIVER) and random.random() < known:
            content = (row.topic, row.source, row.seq, random.random() if random.random() < wrong else 0)
            made.append(row._replace(digest=payload_digest(repr(content).encode())))
        else:
            made.append(row)
    return made


def retimed(rows: list[Row]) -> list[Row]:
    """The same rows ten time units apart: moved rows must not make time run backwards."""
    return [row._replace(time_us=10 * number) for number, row in enumerate(rows)]
