"""Small runs and results to draw, made by hand so that a test can count what must be there."""

from antecede.experiments.summary import Line
from antecede.trace import Event, Row

TOPIC = "chat"
UNIT = 1_000_000


class Story:
    """Writes a trace line by line; times are in units of time."""

    def __init__(self, nodes: int, topic: str = TOPIC) -> None:
        self.topic = topic
        self.rows = [Row(0, Event.SUBSCRIBE, node, topic=topic) for node in range(nodes)]
        self._packets = 0

    def publish(self, time: float, node: int, seq: int = 1, deps: tuple[tuple[str, int, int], ...] = ()) -> None:
        self.add(time, Event.PUBLISH, node, topic=self.topic, source=node, seq=seq, deps=deps)
        self.deliver(time, node, node, seq)

    def send(self, time: float, node: int, peer: int, *messages: tuple[int, int], arrive: float | None) -> None:
        """One packet with these messages, received at `arrive`; None: lost on its way."""
        self._packets += 1
        for source, seq in messages:
            self._packet(time, Event.SEND, node, peer, source, seq, len(messages))
        if arrive is not None:
            for source, seq in messages:
                self._packet(arrive, Event.RECEIVE, peer, node, source, seq, len(messages))

    def control(self, time: float, node: int, peer: int, arrive: float, kind: str) -> None:
        self._packets += 1
        for when, event, here, there in ((time, Event.SEND, node, peer), (arrive, Event.RECEIVE, peer, node)):
            self.add(when, event, here, peer=there, packet=self._packets, bundle=0, bytes=20, note=kind)

    def deliver(self, time: float, node: int, source: int, seq: int, held: float = 0, note: str = "") -> None:
        ids = {"topic": self.topic, "source": source, "seq": seq}
        self.add(time, Event.DELIVER, node, **ids, hops=int(node != source), held_us=round(held * UNIT), note=note)

    def add(self, time: float, event: Event, node: int, **values: object) -> None:
        self.rows.append(Row(round(time * UNIT), event, node, **values))  # type: ignore[arg-type]

    def done(self) -> list[Row]:
        """The rows in order of time, as a recorder would have them."""
        return sorted(self.rows, key=lambda row: row.time_us)

    def _packet(self, time: float, event: Event, node: int, peer: int, source: int, seq: int, bundle: int) -> None:
        ids = {"topic": self.topic, "source": source, "seq": seq}
        self.add(time, event, node, peer=peer, **ids, packet=self._packets, bundle=bundle, bytes=76 * bundle)


def triangle(*, broken: bool = True) -> list[Row]:
    """Node 0 asks, node 1 answers, and the answer reaches node 2 first: given too early, or held as it should be."""
    story = Story(3)
    story.publish(10, 0)
    story.send(10, 0, 1, (0, 1), arrive=30)
    story.send(10, 0, 2, (0, 1), arrive=90)
    story.deliver(30, 1, 0, 1)
    story.publish(40, 1, deps=((TOPIC, 0, 1),))
    story.send(40, 1, 2, (1, 1), arrive=60)
    story.send(40, 1, 0, (1, 1), arrive=65)
    story.deliver(65, 0, 1, 1)
    if broken:
        story.deliver(60, 2, 1, 1)
        story.deliver(90, 2, 0, 1)
        return story.done()
    rows = story.done()
    rows += [
        Row(90 * UNIT, Event.DELIVER, 2, -1, TOPIC, 0, 1, hops=1, held_us=0),
        Row(90 * UNIT, Event.DELIVER, 2, -1, TOPIC, 1, 1, hops=1, held_us=30 * UNIT),
    ]
    return rows


def eventful() -> list[Row]:
    """One of everything: a bundle, a control packet, a loss, a crash, recovery, stop, a message never given, a tag."""
    story = Story(4)
    story.publish(10, 0)
    story.publish(20, 1)
    story.send(25, 1, 2, (0, 1), (1, 1), arrive=60)
    story.deliver(60, 2, 0, 1)
    story.deliver(60, 2, 1, 1, note="out_of_order")
    story.control(30, 2, 0, 55, "ACK")
    story.send(40, 0, 3, (0, 1), arrive=None)
    story.add(50, Event.CRASH, 3)
    story.add(70, Event.DROP, 3, peer=1, topic=TOPIC, source=1, seq=1, packet=99, bundle=1)
    story.add(100, Event.RECOVER, 3)
    story.send(80, 1, 0, (1, 1), arrive=95)
    story.add(110, Event.SUBSCRIBE, 3, topic="news")
    story.add(112, Event.UNSUBSCRIBE, 3, topic="news")
    story.add(120, Event.STOP, 2)
    return story.done()


def line(
    ours: float,
    published: float | None = None,
    *,
    protocol: str = "causal",
    nodes: int = 16,
    metric: str = "packets",
    unit: str = "packets",
    setting: str = "literal",
    spread: float | None = 0.0,
    experiment: str = "thesis-table-4.1",
) -> Line:
    return Line(
        experiment=experiment,
        setting=setting,
        protocol=protocol,
        nodes=nodes,
        metric=metric,
        ours=ours,
        spread=spread,
        seeds=1 if spread is None else 3,
        published=published,
        unit=unit,
    )


def results() -> list[Line]:
    """Lines and bars, two settings, two protocols, values near and far, with and without print."""
    lines = []
    for setting, share in (("literal", 0.93), ("calibrated", 0.82)):
        for nodes, printed in ((16, 232), (32, 919), (64, 3513), (128, 13759)):
            everything = nodes * (nodes - 1)
            reduction = 100 * (1 - share)
            at = {"setting": setting, "nodes": nodes}
            lines.append(line(everything, everything, protocol="none", **at))  # type: ignore[arg-type]
            lines.append(line(everything * share, printed, spread=nodes / 4, **at))  # type: ignore[arg-type]
            lines.append(line(reduction, 12.5, metric="reduction", unit="percent", spread=1.5, **at))  # type: ignore[arg-type]
        for metric, ours in (("packets_with_1_message", 84.0), ("packets_with_2_messages", 9.3)):
            at = {"setting": setting, "nodes": 256, "metric": metric, "unit": "percent"}
            lines.append(line(ours, 84.59 if ours > 50 else 9.16, experiment="thesis-table-4.2", **at))  # type: ignore[arg-type]
    return lines
