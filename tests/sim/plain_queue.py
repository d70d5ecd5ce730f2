"""The engine with the plainest queue there is: one heap of (time, order). What the quick one is held against."""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from antecede.core import Packet, Process
from antecede.sim.engine import Observer, Simulation
from antecede.sim.network import Network


class PlainSimulation(Simulation):
    def __init__(
        self,
        make_process: Callable[[int], Process],
        nodes: Iterable[int],
        network: Network,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.heap: list[tuple[int, int, int, int, Any, int, int]] = []
        self.made = 0
        super().__init__(make_process, nodes, network, observers)

    @property
    def pending(self) -> int:
        return len(self.heap)

    def at(self, time: int, action: Callable[[], None]) -> None:
        self._push(max(time, self.now), -1, -1, action, -1, 0)

    def run(self, until: int | None = None) -> None:
        while self.heap:
            if until is not None and self.heap[0][0] > until:
                self.now = until
                return
            self.now, _, node, sender, what, number, size = heappop(self.heap)
            self.steps += 1
            process = self.processes.get(node)
            if node == -1:
                what()
            elif process is None:
                for observer in self._observers:
                    observer.dropped(self.now, node, sender, number, what)
            else:
                for observer in self._observers:
                    observer.received(self.now, node, sender, number, what, size)
                process.receive(sender, what)
                self._carry_out(node, process)

    def _send(self, node: int, process: Process, weighed: Packet | None, size: int) -> None:
        for to, packet in process.out.sends:
            self.packets += 1
            size = process.size(packet)
            for observer in self._observers:
                observer.sent(self.now, node, to, self.packets, packet, size)
            arrivals = self._arrivals(self.now, node, to, size)
            if not arrivals:
                for observer in self._observers:
                    observer.dropped(self.now, to, node, self.packets, packet)
            for arrival in arrivals:
                self._push(arrival, to, node, packet, self.packets, size)
        process.out.sends.clear()

    def _push(self, time: int, node: int, sender: int, what: object, number: int, size: int) -> None:
        self.made += 1
        heappush(self.heap, (time, self.made, node, sender, what, number, size))
