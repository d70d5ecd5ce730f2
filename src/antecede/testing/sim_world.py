"""The simulated world: the reference. A run is a function of its seed."""

from collections.abc import Callable, Iterator
from typing import Final

from antecede.sim.engine import Simulation
from antecede.sim.network import Network
from antecede.sim.tracing import Tracer
from antecede.testing.world import TOPIC, Subject, World
from antecede.trace import Recorder, Row

#: How long a condition may take to come true, and how often it is looked at, in simulated microseconds.
_PATIENCE_US: Final = 600_000_000
_STEP_US: Final = 1_000


class SimWorld(World):
    """Processes in the simulator's engine."""

    def __init__(self, subject: Subject, nodes: int, network: Network) -> None:
        super().__init__(subject, nodes, network)
        self._recorder = Recorder()
        self._simulation = Simulation(subject.build(nodes), range(nodes), self.cut, [Tracer(self._recorder)])
        self._simulation.on_delivery = self.take

    async def start(self) -> None:
        """The engine has started them."""

    async def stop(self) -> None:
        """Nothing runs by itself here."""

    def publish(self, node: int, payload: bytes) -> None:
        self._simulation.publish(node, TOPIC, payload)

    def suspect(self, node: int, peer: int) -> None:
        self._simulation.suspect(node, peer)

    def trust(self, node: int, peer: int) -> None:
        self._simulation.trust(node, peer)

    async def crash(self, node: int) -> None:
        self.up.discard(node)
        self._simulation.crash(node)

    async def recover(self, node: int) -> None:
        self._simulation.recover(node)
        self.up.add(node)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        end = self._simulation.now + _PATIENCE_US
        while not condition():
            if self._simulation.now >= end or not self._simulation.pending:
                raise self.in_vain(what)
            self._simulation.run(until=self._simulation.now + _STEP_US)

    async def pause(self, delay_us: int) -> None:
        self._simulation.run(until=self._simulation.now + delay_us)

    def rows(self) -> Iterator[Row]:
        return self._recorder.rows()
