"""A crash that failure detectors notice, so long after, and the return likewise."""

from antecede.core import Message, Packet, Process
from antecede.core.choices import parse
from antecede.sim.engine import Simulation
from antecede.sim.fault_choices import FAULTS
from antecede.sim.network import PacketSwitched, constant
from antecede.sim.units import TICKS


class _Told(Process):
    def __init__(self, node: int, told: list[tuple[int, str, int]]) -> None:
        super().__init__(node)
        self._told = told

    def publish(self, topic: str, payload: bytes) -> Message | None:
        return None

    def receive(self, sender: int, packet: Packet) -> None:
        """Nothing comes."""

    def size(self, packet: Packet) -> int:
        return 0

    def peer_down(self, node: int) -> None:
        self._told.append((self.node, "down", node))

    def peer_up(self, node: int) -> None:
        self._told.append((self.node, "up", node))


def heard(fault: str, until: int) -> list[tuple[int, str, int]]:
    told: list[tuple[int, str, int]] = []
    simulation = Simulation(lambda node: _Told(node, told), range(3), PacketSwitched(constant(1)))
    parse("fault", fault, FAULTS).schedule(simulation, 3)
    simulation.run(until=until * TICKS)
    return told


def test_the_others_are_told_after_the_time_it_takes() -> None:
    fault = "crash:node=1,at=10,back=50,noticed=5"
    assert heard(fault, 14) == []
    assert heard(fault, 15) == [(0, "down", 1), (2, "down", 1)]
    assert heard(fault, 54) == [(0, "down", 1), (2, "down", 1)]
    assert heard(fault, 55)[2:] == [(0, "up", 1), (2, "up", 1)]


def test_nobody_is_told_unless_asked_for() -> None:
    assert heard("crash:node=1,at=10,back=50", 100) == []
    assert heard("crash:node=1,at=10,noticed=0", 100) == [(0, "down", 1), (2, "down", 1)]


def test_a_node_that_is_back_finds_out_who_is_down() -> None:
    """Node 2 was down when the crash of node 0 was noticed."""
    told: list[tuple[int, str, int]] = []
    simulation = Simulation(lambda node: _Told(node, told), range(3), PacketSwitched(constant(1)))
    for fault in ("crash:node=0,at=20,noticed=5", "crash:node=2,at=10,back=50,noticed=5"):
        parse("fault", fault, FAULTS).schedule(simulation, 3)
    simulation.run()
    assert (2, "down", 0) in told
