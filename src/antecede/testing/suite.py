"""Playing a scenario in a world, and having it judged by the independent audit."""

import random
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, get_args

from antecede.audit import Report, audit
from antecede.protocols.aggregation.packets import Bundle
from antecede.protocols.gossip import BROKER_PACKETS as GOSSIP_PACKETS
from antecede.protocols.gossip.records import KEPT as GOSSIP_KEPT
from antecede.protocols.locamu import PACKETS as LOCAMU_PACKETS
from antecede.protocols.locamu import Kept as LocamuKept
from antecede.protocols.options import GroupOptions, MakeProcess, RngOptions
from antecede.protocols.registry import options
from antecede.protocols.tno import PACKETS as TNO_PACKETS
from antecede.protocols.tno import RECORDS as TNO_RECORDS
from antecede.protocols.vcube_ps import PACKETS as VCUBE_PS_PACKETS
from antecede.protocols.vcube_ps.records import Kept
from antecede.sim.network import Network
from antecede.testing.scenarios import SCENARIOS, Scenario
from antecede.testing.world import TOPIC, ConformanceError, Subject, World

#: Makes the world of a scenario: (protocol, number of nodes, network).
MakeWorld: TypeAlias = Callable[[Subject, int, Network], World]

_RULES: Final = ("causal", "fifo", "exactly-once", "no-invention", "same-content", "complete", "agreement")


_FAULTS: Final = frozenset({"duplicates", "loss", "partition", "crash"})


def _groups(name: str, values: dict[str, object]) -> Callable[[int], MakeProcess]:
    """Builds protocol `name` with one topic that all nodes take. A unit of time is a second in live worlds."""

    def build(nodes: int) -> MakeProcess:
        chosen = options(name, values)
        founders = {TOPIC: range(nodes)}
        if isinstance(chosen, RngOptions):
            return chosen.build_with_rng(nodes, founders, lambda node: random.Random(f"gossip at {node}"))
        assert isinstance(chosen, GroupOptions)
        return chosen.build_groups(nodes, founders)

    return build


def _locamu(nodes: int) -> MakeProcess:
    return _groups("locamu", {"ack": 0.002, "retry": 0.05, "f": min(1, max(0, nodes - 2))})(nodes)


SUBJECTS: Final = {
    subject.name: subject
    for subject in (
        Subject(
            name="gossip-context",
            build=_groups(
                "gossip-context",
                {"round": 0.005, "rest": 1000, "retain": 100_000, "patience": 10_000, "durable": True},
            ),
            packets=GOSSIP_PACKETS,
            kept=GOSSIP_KEPT,
            tolerates=_FAULTS,
        ),
        Subject(name="locamu", build=_locamu, packets=LOCAMU_PACKETS, kept=get_args(LocamuKept), tolerates=_FAULTS),
        Subject(
            name="causal-aggregation",
            build=lambda nodes: options("causal-aggregation", {}).build(nodes),
            packets=(Bundle,),
            tolerates=frozenset({"duplicates"}),
        ),
        Subject(
            name="vcube-ps",
            build=_groups("vcube-ps", {"ack": 0.002, "retry": 0.05}),
            packets=VCUBE_PS_PACKETS,
            kept=get_args(Kept),
            tolerates=_FAULTS,
        ),
        Subject(
            name="tno",
            build=_groups("tno", {"retry": 0.1, "ttl": 0, "tries": 0}),
            packets=(*VCUBE_PS_PACKETS, *TNO_PACKETS),
            kept=(*get_args(Kept), *TNO_RECORDS),
            tolerates=_FAULTS,
        ),
    )
}


def fair_pairs() -> Iterator[tuple[Scenario, Subject]]:
    """Every scenario with every protocol that copes with it: what a complete run consists of."""
    for scenario in SCENARIOS.values():
        for subject in SUBJECTS.values():
            if scenario.needs <= subject.tolerates:
                yield scenario, subject


async def play(scenario: Scenario, subject: Subject, make_world: MakeWorld, *, seed: int = 1) -> Report:
    """Play it, judge it. Raises `ConformanceError` unless everything promised was kept; the report otherwise."""
    if not scenario.needs <= subject.tolerates:
        missing = ", ".join(sorted(scenario.needs - subject.tolerates))
        raise ConformanceError(f"{subject.name} does not claim to cope with {missing}: {scenario.name} is not for it")
    rng = random.Random(f"{seed}/{scenario.name}/{subject.name}")
    world = make_world(subject, scenario.nodes, scenario.network(rng))
    if "crash" in scenario.needs and not world.crashes:
        raise ConformanceError(f"nodes cannot crash in this world: {scenario.name} needs one with journals")
    where = f"{scenario.name} with {subject.name} in {type(world).__name__}, seed {seed}"
    await world.start()
    try:
        await scenario.play(world)
    except ConformanceError as error:
        raise ConformanceError(f"{where}: {error}") from None
    finally:
        await world.stop()
    report = audit(world.rows(), rules=_RULES, broadcast_to=range(scenario.nodes))
    if not report.ok:
        raise ConformanceError(f"{where}: the audit says\n{report}")
    if not report.deliveries:
        raise ConformanceError(f"{where}: nothing was delivered")
    return report
