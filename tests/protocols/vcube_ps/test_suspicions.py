"""What suspicions cost: lost packets cause none, and a wrong one causes no storm."""

from collections import Counter

import msgspec
import pytest

from antecede.core import Packet
from antecede.protocols.diagnosis.options import TRIES
from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.sim.engine import SilentObserver, Simulation
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.run import RunSpec, simulate
from antecede.sim.units import TICKS

NODES = 32
#: 128 messages, and one packet in twenty lost.
LOSSY = RunSpec(protocol="vcube-ps", nodes=NODES, workload="uniform:messages=4", faults=("loss:share=0.05",))
CHURN = "churn:size=20,messages=60,session=3000"


def packets(spec: RunSpec) -> Counter[str]:
    sent = simulate(spec).metrics["sent"]
    assert isinstance(sent, dict)
    return Counter(sent)


@pytest.mark.parametrize("workload", [LOSSY.workload, CHURN])
@pytest.mark.parametrize("seed", [1, 2])
def test_diagnosis_on_links_that_lose_packets_at_most_doubles_them(seed: int, workload: str) -> None:
    without = packets(msgspec.structs.replace(LOSSY, seed=seed, workload=workload))
    told = packets(msgspec.structs.replace(LOSSY, seed=seed, workload=workload, options={"diagnosis": 20}))
    assert told["pub"] <= 1.1 * without["pub"]
    assert told.total() <= 2 * without.total()


@pytest.mark.parametrize("seed", range(1, 11))
def test_no_live_node_is_suspected_because_packets_are_lost(seed: int) -> None:
    """An answer carries news only after a suspicion: without, every packet has its least size."""
    spec = RunSpec(
        protocol="vcube-diagnosis",
        nodes=NODES,
        seed=seed,
        workload="quiet",
        faults=("loss:share=0.05",),
        options={"rounds": 20, "tries": TRIES},
    )
    metrics = simulate(spec).metrics
    sent, weight = metrics["sent"], metrics["bytes"]
    assert isinstance(sent, dict)
    assert isinstance(weight, dict)
    assert weight["reply"] == weight["probe"] // sent["probe"] * sent["reply"]


class Sent(SilentObserver):
    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        self.kinds[packet.kind] += 1


def run(suspected: tuple[int, ...]) -> Counter[str]:
    """The packets of a run in which every node publishes twice and wrongly suspects these nodes for a while."""
    sent = Sent()
    make = VCubePsOptions().build_groups(NODES, {"t": range(NODES)})
    simulation = Simulation(make, range(NODES), PacketSwitched(constant(100 * TICKS)), [sent])
    for node in range(NODES):
        for time in (0, 1000):
            simulation.at(time * TICKS, lambda node=node: simulation.publish(node, "t", b"") and None)  # type: ignore[misc]
        for about in suspected:
            if about != node:
                simulation.at(1050 * TICKS, lambda node=node, about=about: simulation.suspect(node, about))  # type: ignore[misc]
                simulation.at(1150 * TICKS, lambda node=node, about=about: simulation.trust(node, about))  # type: ignore[misc]
    simulation.run()
    return sent.kinds


@pytest.mark.parametrize("suspected", [(5,), (0, 5, 16)])
def test_a_wrong_suspicion_brings_no_message_again(suspected: tuple[int, ...]) -> None:
    """There are 64 messages with 31 receivers each. Every member reports on every stream once or twice more."""
    calm, upset = run(()), run(suspected)
    assert upset["pub"] - calm["pub"] <= NODES * len(suspected)
    assert upset.total() - calm.total() <= 2.5 * NODES**2
