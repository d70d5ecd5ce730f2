"""One run by arrays: which specs it accepts, and its metrics, with the names and meanings of `sim.simulate`."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.core import Message, UsageError
from antecede.core.choices import parse
from antecede.protocols.registry import options
from antecede.protocols.vcube_ps import Sizes
from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.protocols.vcube_ps.packets import Ack, Pub
from antecede.sim.arrays.flow import NEVER, Asked, Flow, Sent
from antecede.sim.arrays.order import Order
from antecede.sim.arrays.queues import ArrayQueues
from antecede.sim.arrays.words import TwisterWords
from antecede.sim.engine import Simulation
from antecede.sim.figures import GroupFigures, QueueFigures
from antecede.sim.networks import NETWORKS, PeerSim
from antecede.sim.run import RunResult, RunSpec, check
from antecede.sim.units import TICKS
from antecede.sim.workload import TOPIC, WorkloadChoice
from antecede.sim.workloads import WORKLOADS, Exponential, One, Poisson, Rate, Uniform

#: Messages times nodes. Each takes 12 bytes while packets flow and some 60 while figures are made: 8 GB.
CELLS_MAX: Final = 1 << 27

#: Publishers times nodes: each publisher has a message under way at most. Below, a step has too few packets, and an
#: operation on an array costs more than visiting them.
_PAYS_FROM: Final = 1 << 17

#: Workloads that fix all publications beforehand, all on one topic.
_PLANNED = (Uniform, Exponential, Poisson, One, Rate)
_USE = "use simulate"
_ACK_BYTES = Sizes().packet(Ack(TOPIC, 0, 1, 0))


def simulate_arrays(spec: RunSpec) -> RunResult:
    """The result of `simulate(spec)`, for specs it accepts; raises `UsageError` for others."""
    tally = _Tally(spec.nodes)
    run = compute(spec, tally)
    metrics = _figures(run, tally).metrics() | tally.figures().metrics()
    metrics["finished"] = run.flow.times[-1] / TICKS
    metrics["events"] = run.flow.events
    held = (run.flow.came != NEVER) & (run.order.delivered == NEVER)
    metrics["still_held"] = int(held[:, list(run.members)].sum())
    return RunResult(spec=spec, metrics=metrics, trace=None)


def pays(spec: RunSpec) -> bool:
    """Can this run go by arrays, and is it faster so?"""
    try:
        plan = _planned(spec)
    except UsageError:
        return False
    return len({node for _, node in plan.asked}) * spec.nodes >= _PAYS_FROM


class ArrayRun(NamedTuple):
    """A finished run."""

    members: Sequence[int]
    payload: int
    flow: Flow
    order: Order


def compute(spec: RunSpec, hear: Callable[[Sent], None]) -> ArrayRun:
    """Run to the end; `hear` is told of every packet."""
    protocol, network, payload, members, asked = _planned(spec)
    words = TwisterWords(random.Random(f"{spec.seed}/network"))
    queues = ArrayQueues(words, spec.nodes, propagation=network.delay)
    bypass = network.express >= _ACK_BYTES
    flow = Flow(spec.nodes, members, asked, queues, acks_bypass=bypass, hear=hear)
    flow.run()
    return ArrayRun(members, payload, flow, Order(flow.messages, flow.came, prune=protocol.prune))


class _Plan(NamedTuple):
    """The parts of a run."""

    protocol: VCubePsOptions
    network: PeerSim
    payload: int
    members: Sequence[int]
    asked: Sequence[Asked]


def _planned(spec: RunSpec) -> _Plan:
    protocol, network, workload = _checked(spec)
    members = workload.members(spec.nodes, random.Random(f"{spec.seed}/members"))
    notes = _Notes()
    workload.start(notes, members, random.Random(f"{spec.seed}/workload"))
    if len(notes.asked) * spec.nodes > CELLS_MAX:
        raise UsageError(
            "workload", spec.workload, f"{len(notes.asked)} messages to {spec.nodes} nodes are too many at once", _USE
        )
    return _Plan(protocol, network, workload.payload, members[TOPIC], notes.asked)


def _checked(spec: RunSpec) -> tuple[VCubePsOptions, PeerSim, WorkloadChoice]:
    """Check that a run can go by arrays; return its parts."""
    protocol = options(spec.protocol, spec.options)
    if not isinstance(protocol, VCubePsOptions):
        raise UsageError("protocol", spec.protocol, "only VCube-PS runs by arrays", _USE)
    if protocol.mode != "faithful" or protocol.across_topics or protocol.diagnosis or protocol.aggregate:
        raise UsageError(
            "options", spec.options, "only the thesis's mode runs by arrays", f"set mode=faithful, or {_USE}"
        )
    if spec.faults:
        raise UsageError("fault", spec.faults, "a run by arrays has no faults", _USE)
    check(spec)
    network = parse("network", spec.network, NETWORKS)
    if not isinstance(network, PeerSim):
        raise UsageError("network", spec.network, "a run by arrays goes in steps", f"choose peersim, or {_USE}")
    workload = parse("workload", spec.workload, WORKLOADS)
    if not isinstance(workload, _PLANNED):
        raise UsageError("workload", spec.workload, "its publications are not known beforehand", _USE)
    smallest = Sizes().packet(Pub((Message(TOPIC, 0, 1, (), bytes(workload.payload)),)))
    if network.express >= smallest:
        raise UsageError("express", network.express, "messages would bypass the queues", f"stay below {smallest}")
    return protocol, network, workload


class _Notes(Simulation):
    """Instead of an engine: records the publications that a workload schedules."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._time = 0

    def at(self, time: int, action: Callable[[], None]) -> None:
        self._time = time
        action()

    def publish(self, node: int, topic: str, payload: bytes) -> None:
        self.asked.append(Asked(self._time, node))


class _Tally:
    """Adds up the packets sent. By kind of packet: PUB first, then ACK."""

    def __init__(self, nodes: int) -> None:
        self.packets = [0, 0]
        self._places = [0, 0]
        self._delays = [0, 0]
        self._queued = 0
        self._packets_by_node = np.zeros(nodes, np.int64)
        self._places_by_node = np.zeros(nodes, np.int64)
        self._highest = np.zeros(nodes, np.int64)

    def __call__(self, sent: Sent) -> None:
        delays = sent.arrival * TICKS - sent.now
        acks, places, waited = int(sent.is_ack.sum()), int(sent.place.sum()), int(delays.sum())
        of_acks = int(sent.place[sent.is_ack].sum()), int(delays[sent.is_ack].sum())
        for kind, (count, place, delay) in enumerate(
            [(len(sent.to) - acks, places - of_acks[0], waited - of_acks[1]), (acks, *of_acks)]
        ):
            self.packets[kind] += count
            self._places[kind] += place
            self._delays[kind] += delay
        queued = sent.place > 0
        self._queued += int(queued.sum())
        np.add.at(self._packets_by_node, sent.sender, queued)
        np.add.at(self._places_by_node, sent.sender, sent.place)
        np.maximum.at(self._highest, sent.sender, sent.place)

    def figures(self) -> QueueFigures:
        return QueueFigures(
            packets=self.by_kind(self.packets),
            places=self.by_kind(self._places),
            delays=self.by_kind(self._delays),
            queued=self._queued,
            packets_by_node=self._packets_by_node,
            places_by_node=self._places_by_node,
            highest_by_node=self._highest,
        )

    def by_kind(self, values: Sequence[int]) -> dict[str, int]:
        """Kinds of which no packet was sent are left out."""
        return {kind: value for kind, value, count in zip(("pub", "ack"), values, self.packets, strict=True) if count}


def _figures(run: ArrayRun, tally: _Tally) -> GroupFigures:
    flow, order, messages = run.flow, run.order, run.flow.messages
    others = np.zeros(flow.came.shape, np.bool_)
    others[:, list(run.members)] = True
    others[np.arange(len(messages)), [message.source for message in messages]] = False
    reached = others.sum(axis=1)
    times, firsts = np.array(flow.times, np.int64), np.array(flow.firsts, np.int64)

    def when(events: NDArray[np.int32]) -> NDArray[np.int64]:
        return times[np.searchsorted(firsts, events[others], side="right") - 1]

    reception, delivery = when(flow.came), when(order.delivered)
    waits = delivery - reception
    published = np.repeat(np.array([message.time for message in messages], np.int64), reached)
    reception -= published
    delivery -= published
    turns = np.array([message.time - message.asked for message in messages], np.int64)
    hops = Counter(dict(enumerate(np.bincount(flow.hops[others]).tolist()))) + Counter({0: len(messages)})
    return GroupFigures(
        published=len(messages),
        sent=tally.by_kind(tally.packets),
        bytes_sent=tally.by_kind([int((_sizes(run) * reached).sum()), _ACK_BYTES * tally.packets[1]]),
        subscriptions=len(run.members),
        reception=reception,
        delivery=delivery,
        waits=waits,
        turns=int(turns.sum()),
        turns_received=int((turns * reached).sum()),
        hops=hops,
        dependencies=Counter(map(len, order.dependencies)),
    )


def _sizes(run: ArrayRun) -> NDArray[np.int64]:
    """Bytes of a packet with each message."""
    content, model, messages = bytes(run.payload), Sizes(), run.flow.messages
    sizes = []
    for message, dependencies in zip(messages, run.order.dependencies, strict=True):
        named = tuple([(messages[earlier].source, messages[earlier].seq) for earlier in dependencies.tolist()])
        sizes.append(model.packet(Pub((Message(TOPIC, message.source, message.seq, named, content),))))
    return np.array(sizes, np.int64)
