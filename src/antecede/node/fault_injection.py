"""Fault injection on live links: the simulator's own faults, put in front of a real transport.

A network model (`sim.network`) says of a packet when it arrives: never, once, twice; now or later. `sim.faults`
composes such functions. Here they decide what real sockets carry, so that a live cluster meets the same loss,
duplicates, delays and partitions as a simulated one. A tick is a microsecond. Nodes of one process share one
`LinkFaults`; a node that is a process of its own is told its faults in the words of `antecede simulate`
(`inject_faults`, by its settings). A test that changes a fault while it runs keeps the object, like `Partition`.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

from antecede.core import Packet
from antecede.core.choices import parse
from antecede.sim.fault_choices import FAULTS, FaultChoice
from antecede.sim.network import Network
from antecede.sim.networks import NETWORKS
from antecede.wire.transport import Handler, Transport

#: Faults of links. To crash a process, kill it.
_FAULTS = {name: kind for name, kind in FAULTS.items() if kind.around is not FaultChoice.around}


class NoFaults:
    """A network that carries every packet at once: the one to put faults around."""

    weighs = False

    def arrivals(self, now: int, sender: int, to: int, size: int) -> tuple[int, ...]:
        return (now,)


class Partition:
    """A partition that a caller makes and heals, rather than one at set times."""

    def __init__(self, network: Network) -> None:
        self.weighs = network.weighs
        self._network = network
        self._side: frozenset[int] = frozenset()

    def cut(self, side: Collection[int]) -> None:
        """From now on no packet crosses between the nodes of `side` and the others."""
        self._side = frozenset(side)

    def heal(self) -> None:
        self._side = frozenset()

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Sequence[int]:
        side = self._side
        if side and (sender in side) != (to in side):
            return ()
        return self._network.arrivals(now, sender, to, size)


class LinkFaults:
    """A network model, and the moment at which its clock stood at 0: now, or `begin_s` in seconds since 1970."""

    def __init__(self, network: Network, begin_s: float | None = None) -> None:
        self.network = network
        self._begin = asyncio.get_running_loop().time() - (0.0 if begin_s is None else time.time() - begin_s)

    def now(self) -> int:
        return int((asyncio.get_running_loop().time() - self._begin) * 1_000_000)


class FaultyTransport(Transport):
    """A transport whose packets meet the faults before `inner` carries them. Losses of `inner` come on top."""

    def __init__(self, inner: Transport, faults: LinkFaults, size: Callable[[Packet], int] | None = None) -> None:
        super().__init__(inner.node)
        self.inner = inner
        self.counts = inner.counts
        self.relief = inner.relief
        self._faults = faults
        self._size = size
        self._due: set[asyncio.TimerHandle] = set()

    async def start(self, handler: Handler) -> None:
        await self.inner.start(handler)

    def forget(self, node: int) -> None:
        self.inner.forget(node)

    def set_peer(self, node: int, host: str, port: int) -> None:
        self.inner.set_peer(node, host, port)

    def send(self, to: int, packet: Packet) -> None:
        faults = self._faults
        now = faults.now()
        size = self._size(packet) if self._size is not None and faults.network.weighs else 0
        for arrival in faults.network.arrivals(now, self.node, to, size):
            if arrival <= now:
                self.inner.send(to, packet)
            else:
                self._later(arrival - now, to, packet)

    def flush(self) -> None:
        self.inner.flush()

    async def close(self) -> None:
        self._clear()
        await self.inner.close()

    def abort(self) -> None:
        self._clear()
        self.inner.abort()

    def pause(self) -> None:
        self.inner.pause()

    def resume(self) -> None:
        self.inner.resume()

    def _clear(self) -> None:
        for handle in self._due:
            handle.cancel()
        self._due.clear()

    def _later(self, delay_us: int, to: int, packet: Packet) -> None:
        def arrive() -> None:
            self._due.discard(handle)
            self.inner.send(to, packet)
            self.inner.flush()

        handle = asyncio.get_running_loop().call_later(delay_us / 1_000_000, arrive)
        self._due.add(handle)


def inject_faults(words: Sequence[str], slots: int, begin_s: float) -> Callable[[Transport], Transport]:
    """A function that puts the faults of these words in front of a node's transport.

    `words`: a network (without one packets arrive at once), then faults; a unit of time is a second. Raises
    `UsageError` for words that `antecede simulate` does not know either.
    """
    has_network = bool(words) and words[0].partition(":")[0] in NETWORKS
    chosen = parse("fault_injection", words[0], NETWORKS) if has_network else None
    faults = [parse("fault_injection", text, _FAULTS) for text in words[has_network:]]

    def around(transport: Transport) -> Transport:
        seed = f"{transport.node} {time.time_ns()}"  # a different one each time the node starts
        network: Network = NoFaults() if chosen is None else chosen.build(slots, seed)
        for number, fault in enumerate(faults):
            network = fault.around(network, slots, f"{seed} {number}")
        return FaultyTransport(transport, LinkFaults(network, begin_s))

    return around
