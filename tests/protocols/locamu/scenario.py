"""LoCaMu's scenarios: as those of VCube-PS (`tests.protocols.vcube_ps.scenario`), with the graph in the first line.

locamu f=1 graph=line                  <- options of the protocol
show data record                       <- copies with the identifiers they carry, and records of names
"""

from antecede.core import Packet
from antecede.protocols.locamu.identifiers import Ids, receiver_of, sender_of
from antecede.protocols.locamu.packets import Parcel
from antecede.protocols.options import GroupOptions
from antecede.protocols.registry import options
from antecede.sim.tracing import Tracer
from tests.protocols.vcube_ps.scenario import Scenario, Story


class LocamuStory(Story):
    """Tells of copies and their names."""

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        Tracer.sent(self, now, node, to, number, packet, size)
        assert isinstance(packet, Parcel)
        if packet.data is not None and "data" in self._shown:
            alias = f", also known as {_named(packet.data.alias)}" if packet.data.alias else ""
            self.tell(now, f"    {node} > {to}  {packet.data.message.id} named {_named(packet.data.path)}{alias}")
        if "interest" in self._shown:
            for interest in packet.interests:
                there = ", ".join("itself" if at == interest.node else str(at) for at in interest.towards) or "nowhere"
                settled = "".join(f"; settled with {at}" for at, _ in interest.settled)
                self.tell(now, f"    {node} > {to}  node {interest.node}: {interest.topic} at {there}{settled}")
        if packet.records and "record" in self._shown:
            for ids in packet.records:
                self.tell(now, f"    {node} > {to}  one message is {_named(ids)}")


class LocamuScenario(Scenario):
    """Reads a scenario, runs it, and tells what happened."""

    story_type = LocamuStory

    def chosen(self) -> GroupOptions:
        chosen = options("locamu", self.mode)
        assert isinstance(chosen, GroupOptions)
        return chosen

    def _read(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "locamu":
            self.mode = dict(pair.split("=", 1) for pair in rest.split())
        else:
            super()._read(line)


def _named(ids: Ids) -> str:
    """Identifiers by who gave them: 0>1,2:5 is number 5 of node 0 for 1 and for 2."""
    found: dict[tuple[int, int], list[int]] = {}
    for link, number in ids.items():
        found.setdefault((sender_of(link), number), []).append(receiver_of(link))
    return " ".join(f"{node}>{','.join(map(str, to))}:{number}" for (node, number), to in found.items())
