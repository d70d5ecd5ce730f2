"""One run: a description in plain values, and the function that simulates it.

A `RunSpec` is everything a run depends on. It travels to Spark workers, into file names (by its hash) and back to the
user as the command that replays it. Each part of a run draws from its own generator, seeded by the run's seed and the
part's name, so that a change of the workload does not change the network's draws.
"""

import hashlib
import random
import shlex
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from antecede.core import UsageError
from antecede.core.choices import parse
from antecede.core.gc_pause import gc_paused
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.protocols.options import GroupOptions, MakeProcess, ProtocolOptions, RngOptions
from antecede.protocols.per_topic import PerTopic
from antecede.protocols.registry import options
from antecede.sim.engine import Observer, Simulation
from antecede.sim.fault_choices import FAULTS
from antecede.sim.meter import Meter
from antecede.sim.network import PacketSwitched
from antecede.sim.networks import NETWORKS
from antecede.sim.peersim import StepQueues
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS
from antecede.sim.workload import Members, WorkloadChoice
from antecede.sim.workloads import WORKLOADS
from antecede.trace import Recorder

#: A run with so many events without a delivery does not come to rest.
IDLE_EVENTS_MAX: Final = 2_000_000


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A run in plain values. Equal specs give equal traces."""

    protocol: str
    nodes: Annotated[int, Meta(ge=1)]
    seed: Annotated[int, Meta(ge=0)] = 1
    network: str = "normal"
    workload: str = "uniform"
    faults: tuple[str, ...] = ()
    #: Options of the protocol.
    options: dict[str, object] = {}

    def key(self) -> str:
        """A short name that changes with any part of the run."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]

    def command(self) -> str:
        """The command that replays this run."""
        words = ["antecede", "simulate", self.protocol, "--nodes", str(self.nodes), "--seed", str(self.seed)]
        words += ["--network", self.network, "--workload", self.workload]
        for fault in self.faults:
            words += ["--fault", fault]
        for name, value in self.options.items():
            words += ["--option", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        return shlex.join(words)


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run."""

    spec: RunSpec
    metrics: dict[str, object]
    #: None unless a trace was asked for.
    trace: Recorder | None


def promises_across_topics(spec: RunSpec) -> bool:
    """Does this run promise causal order over all its topics? With one topic that is the same as within it."""
    if len(parse("workload", spec.workload, WORKLOADS).topics) <= 1:
        return True
    return options(spec.protocol, spec.options).across_topics


def promised_rules(spec: RunSpec) -> tuple[str, ...]:
    """The rules of the audit this run promises to keep."""
    return options(spec.protocol, spec.options).promises


def check(spec: RunSpec) -> None:
    """Refuse numbers that are out of range."""
    if not 1 <= spec.nodes <= 1 << CUBE_DIMENSION_MAX:
        raise UsageError("nodes", spec.nodes, "is out of range", f"choose 1 … {1 << CUBE_DIMENSION_MAX}")
    if spec.seed < 0:
        raise UsageError("seed", spec.seed, "is negative", "choose 0 or more")


def simulate(
    spec: RunSpec,
    *,
    trace: bool = False,
    measure: bool = True,
    watch: Sequence[Observer] = (),
    before: Callable[[Simulation], None] | None = None,
) -> RunResult:
    """Run to the end, with further observers if any. Raises `UsageError` if the spec names something unknown.

    `before` is called with the simulation before it runs, to schedule looks at its processes.
    """
    check(spec)
    network_choice = parse("network", spec.network, NETWORKS)
    workload = parse("workload", spec.workload, WORKLOADS)
    faults = [parse("fault", text, FAULTS) for text in spec.faults]
    protocol = options(spec.protocol, spec.options)
    members = workload.members(spec.nodes, random.Random(f"{spec.seed}/members"))
    make_process = _maker(spec, protocol, workload, members)

    wire = network_choice.build(spec.nodes, f"{spec.seed}/network")
    network = wire
    for position, fault in enumerate(faults):
        network = fault.around(network, spec.nodes, f"{spec.seed}/fault {position}")

    meter = Meter(spec.nodes, with_queues=isinstance(wire, StepQueues))
    if measure and isinstance(wire, StepQueues):
        wire.record()
    recorder = Recorder() if trace else None
    observers: list[Observer] = [meter, *watch] if measure else [*watch]
    if recorder is not None:
        observers.append(Tracer(recorder))
    simulation = Simulation(make_process, range(spec.nodes), network, observers)
    if measure:
        simulation.on_wait = meter.waits_for_its_turn
        simulation.on_ask = meter.asks
    simulation.idle_max = IDLE_EVENTS_MAX + 10 * spec.nodes**2  # the last acknowledgements of a large run
    simulation.wire = wire
    if isinstance(wire, StepQueues):
        wire.events = simulation
    for topic, nodes in members.items():
        for node in nodes:
            for observer in observers:
                observer.changed(0, node, "subscribe", topic)  # founders: no process is told
    workload.start(simulation, members, random.Random(f"{spec.seed}/workload"))
    for fault in faults:
        fault.schedule(simulation, spec.nodes)
    if before is not None:
        before(simulation)
    with gc_paused():
        simulation.run()

    metrics: dict[str, object] = {}
    if measure:
        metrics = meter.broadcast() if protocol.broadcast else meter.groups(wire)
    metrics["finished"] = simulation.now / TICKS
    metrics["events"] = simulation.steps
    metrics["still_held"] = sum(process.held for process in simulation.processes.values())
    if isinstance(wire, PacketSwitched):
        metrics["queued_mean"] = wire.queued / TICKS / max(1, simulation.packets)
    return RunResult(spec=spec, metrics=metrics, trace=recorder)


def _maker(spec: RunSpec, protocol: ProtocolOptions, workload: WorkloadChoice, members: Members) -> MakeProcess:
    """Makes the processes of a run. In a broadcast every node must be a member; topics are independent."""
    if isinstance(protocol, RngOptions):
        return protocol.build_with_rng(
            spec.nodes, members, lambda node: random.Random(f"{spec.seed}/protocol at {node}")
        )
    if isinstance(protocol, GroupOptions):
        return protocol.build_groups(spec.nodes, members)
    if any(len(nodes) < spec.nodes for nodes in members.values()):
        raise UsageError(
            "workload",
            spec.workload,
            f"{spec.protocol} is a broadcast, every node takes every message",
            "leave subscribers at 1, or choose a protocol with subscriptions",
        )
    make_one = protocol.build(spec.nodes)
    if len(workload.topics) == 1:
        return make_one
    return lambda node: PerTopic(node, make_one)
