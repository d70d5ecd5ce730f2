"""Scenarios as in `tests.protocols.vcube_ps.scenario`, for the flooding protocols. Instead of a mode there is

    protocol cbcast graph=line                                 <- further words are options, key=value
    slow 0>3 0..10 40                                          <- what leaves there then takes 40, and may be overtaken

and a packet that is shown is shown with its bytes.
"""

from collections.abc import Sequence

from antecede.core import Message, Packet
from antecede.protocols.options import GroupOptions
from antecede.protocols.registry import options
from antecede.sim.tracing import Tracer
from antecede.sim.units import ticks
from tests.protocols.vcube_ps.scenario import Scenario, Story, _link, _Links, _name


class _Moods(_Links):
    """Links that are slow at times."""

    def __init__(self) -> None:
        super().__init__()
        self.slow: list[tuple[int, int, int, int, int]] = []

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Sequence[int]:
        for a, b, begin, end, delay in self.slow:
            if (a, b) == (sender, to) and begin <= now < end:
                return (now + delay,)
        return super().arrivals(now, sender, to, size)


class _Bytes(Story):
    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        Tracer.sent(self, now, node, to, number, packet, size)
        if packet.kind in self._shown:
            about = ", ".join(str(message.id) for message in packet.messages)
            self.tell(now, f"    {node} > {to}  {' '.join(filter(None, (packet.kind, about)))}, {size} bytes")


class FloodingScenario(Scenario):
    """Reads a scenario, runs it, and tells what happened."""

    story_type = _Bytes
    protocol = ""
    moods: _Moods

    def chosen(self) -> GroupOptions:
        chosen = options(self.protocol, self.mode)
        assert isinstance(chosen, GroupOptions)
        return chosen

    def _read(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "protocol":
            self.protocol, *more = rest.split()
            self.mode = dict(pair.split("=", 1) for pair in more)
            self.links = self.moods = _Moods()
        elif word == "slow":
            link, times, delay = rest.split()
            begin, end = (ticks(float(time)) for time in times.split(".."))
            self.moods.slow.append((*_link(link), begin, end, ticks(float(delay))))
        else:
            super()._read(line)


class _WithOwn(_Bytes):
    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        if message.source == node:
            self.tell(now, f"{node} delivers its {_name(message)}")
        super().delivered(now, node, message, out_of_order=out_of_order)


class TotalScenario(FloodingScenario):
    """Tells as well when a node delivers its own messages, which waits for their place in the order."""

    story_type = _WithOwn
