"""Faults on live links: the simulator's own functions, around any transport.

A `sim.network.Network` says of a packet when it arrives: never, once, twice; now or later. `sim.faults` composes such
functions. Here they are put in front of a real transport, so that a system of real sockets meets the same losses,
duplicates, delays and partitions as the simulated one. A tick is a microsecond, counted from `Weather`'s making; one
`Weather` serves all nodes of a process. Faults that are to change while a run goes on are objects like `Cut`; nodes
that are processes are told theirs in the words of `antecede simulate` (`in_weather`, the setting `weather`).
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from antecede.core import Packet
from antecede.core.choices import parse
from antecede.sim.fault_choices import FAULTS, FaultChoice
from antecede.sim.network import Network
from antecede.sim.networks import NETWORKS
from antecede.wire.transport import Handler, Transport

#: Those that are on links. Who wants a process to crash kills it.
_FAULTS = {name: kind for name, kind in FAULTS.items() if kind.around is not FaultChoice.around}


class Clear:
    """No weather: every packet at once. The network to put faults around."""

    weighs = False

    def arrivals(self, now: int, sender: int, to: int, size: int) -> tuple[int, ...]:
        return (now,)


class Cut:
    """A partition that comes and goes at a caller's word rather than at set times."""

    def __init__(self, network: Network) -> None:
        self.weighs = network.weighs
        self._network = network
        self._side: frozenset[int] = frozenset()

    def cut(self, side: Collection[int]) -> None:
        """From now on nothing sent crosses between `side` and the rest."""
        self._side = frozenset(side)

    def heal(self) -> None:
        self._side = frozenset()

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Iterable[int]:
        side = self._side
        if side and (sender in side) != (to in side):
            return ()
        return self._network.arrivals(now, sender, to, size)


class Weather:
    """A network model and the moment at which its clock stood at 0: now, or `begin_s` seconds after 1970 began."""

    def __init__(self, network: Network, begin_s: float | None = None) -> None:
        self.network = network
        self._begin = asyncio.get_running_loop().time() - (0.0 if begin_s is None else time.time() - begin_s)

    def now(self) -> int:
        return int((asyncio.get_running_loop().time() - self._begin) * 1_000_000)


class WeatheredTransport(Transport):
    """`inner`, with every packet sent through the weather first. Its own losses come on top."""

    def __init__(self, inner: Transport, weather: Weather, size: Callable[[Packet], int] | None = None) -> None:
        super().__init__(inner.node)
        self.inner = inner
        self.counts = inner.counts
        self.relief = inner.relief
        self._weather = weather
        self._size = size
        self._due: set[asyncio.TimerHandle] = set()

    async def start(self, handler: Handler) -> None:
        await self.inner.start(handler)

    def send(self, to: int, packet: Packet) -> None:
        weather = self._weather
        now = weather.now()
        size = self._size(packet) if self._size is not None and weather.network.weighs else 0
        for arrival in weather.network.arrivals(now, self.node, to, size):
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


def in_weather(words: Sequence[str], slots: int, begin_s: float) -> Callable[[Transport], Transport]:
    """What puts a node's transport into the weather of these words. Raises `UsageError` where they make no sense.

    `words`: a network, unless packets are to arrive at once, then faults; a unit of time is a second.
    """
    has_network = bool(words) and words[0].partition(":")[0] in NETWORKS
    chosen = parse("weather", words[0], NETWORKS) if has_network else None
    faults = [parse("weather", text, _FAULTS) for text in words[has_network:]]

    def around(transport: Transport) -> Transport:
        seed = f"{transport.node} {time.time_ns()}"  # another one each time the node starts
        network: Network = Clear() if chosen is None else chosen.build(slots, seed)
        for number, fault in enumerate(faults):
            network = fault.around(network, slots, f"{seed} {number}")
        return WeatheredTransport(transport, Weather(network, begin_s))

    return around
