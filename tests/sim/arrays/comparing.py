"""The same run by the event engine and by arrays, written down in full, to hold the two beside each other."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from antecede.core import Message, Packet
from antecede.protocols.vcube_ps.packets import Ack
from antecede.sim import RunSpec, simulate
from antecede.sim.arrays.flow import Sent
from antecede.sim.arrays.run import compute
from antecede.sim.units import TICKS

Named = tuple[int, int]


class Hop(NamedTuple):
    """A packet. A message is named by its source and number."""

    time: int
    sender: int
    to: int
    kind: str
    message: Named
    arrival: int


@dataclass
class Story:
    """What happened in a run."""

    #: In the order they were sent.
    packets: list[Hop] = field(default_factory=list)
    #: By message: when it was published, and on what it depends.
    published: dict[Named, tuple[int, set[Named]]] = field(default_factory=dict)
    #: When, where, what. In no order: how deliveries of one event follow each other is left open.
    deliveries: set[tuple[int, int, Named]] = field(default_factory=set)


class _Watcher:
    """An observer of the engine that writes its story."""

    def __init__(self) -> None:
        self.story = Story()
        self._under_way: dict[int, tuple[int, Hop]] = {}
        self._count = 0

    def published(self, now: int, node: int, message: Message) -> None:
        self.story.published[message.source, message.seq] = (now, set(message.deps))

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        if isinstance(packet, Ack):
            hop = Hop(now, node, to, "ack", (packet.source, packet.seq), -1)
        else:
            (message,) = packet.messages
            hop = Hop(now, node, to, "pub", (message.source, message.seq), -1)
        self._under_way[number] = (len(self.story.packets), hop)
        self.story.packets.append(hop)

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        place, hop = self._under_way.pop(number)
        self.story.packets[place] = hop._replace(arrival=now)

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        assert not out_of_order
        self.story.deliveries.add((now, node, (message.source, message.seq)))

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        raise AssertionError("nothing is lost")

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        assert (now, what) == (0, "subscribe")


def story_of_engine(spec: RunSpec) -> Story:
    watcher = _Watcher()
    simulate(spec, measure=False, watch=[watcher])
    return watcher.story


def story_of_arrays(spec: RunSpec) -> Story:
    batches: list[Sent] = []
    members, _, flow, order = compute(spec, batches.append)
    names = [(message.source, message.seq) for message in flow.messages]
    story = Story()
    for sent in batches:
        rows = zip(*(values.tolist() for values in sent[1:]), strict=True)
        for sender, to, is_ack, message, _, arrival in rows:
            kind = "ack" if is_ack else "pub"
            story.packets.append(Hop(sent.now, sender, to, kind, names[message], arrival * TICKS))
    times = np.array(flow.times)[np.searchsorted(flow.firsts, order.delivered, side="right") - 1]
    for number, message in enumerate(flow.messages):
        barrier = {names[earlier] for earlier in order.dependencies[number].tolist()}
        story.published[names[number]] = (message.time, barrier)
        story.deliveries |= {(int(times[number, node]), node, names[number]) for node in members}
    return story


_SHARES = st.sampled_from([0.1, 0.25, 0.5, 0.8, 1.0])


@st.composite
def specs(draw: st.DrawFn, nodes_max: int = 48) -> RunSpec:
    """Runs for arrays: sizes that are powers of two and others, part of the nodes members, part of them publishers.

    Publishers may have several messages, of which the later ones wait for their turn. Short ways make long queues: many
    packets of a node meet in a step, and up to a fifth of all deliveries wait for others.
    """
    publishers, messages = draw(_SHARES), draw(st.integers(1, 4))
    timed = f"messages={messages},publishers={publishers},subscribers={draw(_SHARES)}"
    workload = draw(
        st.sampled_from(
            [
                f"uniform:window={draw(st.sampled_from([1, 30, 440]))},{timed}",
                f"exponential:mean=200,{timed}",
                f"poisson:mean=4,{timed}",  # whole numbers: publications on a step
                f"rate:messages={messages * 8},interval={draw(st.sampled_from([1, 40]))}",
                f"one:messages={messages},subscribers={draw(_SHARES)}",
            ]
        )
    )
    network = draw(st.sampled_from(["peersim", "peersim:delay=2", "peersim:delay=7", "peersim:delay=2,express=40"]))
    return RunSpec(
        protocol="vcube-ps",
        nodes=draw(st.one_of(st.integers(1, nodes_max), st.sampled_from([2, 4, 8, 16, 32]))),
        seed=draw(st.integers(1, 1000)),
        network=network,
        workload=workload,
        options={"mode": "faithful", "prune": draw(st.booleans())},
    )
