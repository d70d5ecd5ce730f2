"""Scenarios a person can read, as those of VCube-PS (`tests.protocols.vcube_ps.scenario`), with words of their own:

    mode plus buffer=0                     <- or faithful; further words are options of `tno`
    order high low                         <- the topics, from the highest down
    manager high 4                         <- who manages a topic; several nodes are its replicas, the first leads
    show create fill stamp                 <- control packets worth seeing

The event service is the plainest (`experiments.straight_service`): an event takes the direct link to every subscriber.
A delivery that is not in order ends with "out of order". The last line is the verdict of the audit.
"""

from functools import partial
from pathlib import Path

from antecede.audit import audit
from antecede.core import Message, Packet
from antecede.protocols.registry import options
from antecede.protocols.tno import OrderingModule, TotalOrder
from antecede.protocols.tno.options import TnoOptions
from antecede.protocols.tno.packets import Fill, FillSub, NewOrder, Stamp, SubDone, Swap, Void
from antecede.protocols.tno.straight_service import straight_service
from antecede.sim.engine import Simulation
from antecede.sim.tracing import Tracer
from antecede.sim.units import ticks
from antecede.trace import Recorder
from tests.protocols.vcube_ps import scenario as vcube_ps

_RULES = ("total", "causal", "exactly-once", "no-invention", "complete", "agreement")


class Scenario(vcube_ps.Scenario):
    """Reads a scenario, runs it, and tells what happened."""

    def __init__(self, path: Path) -> None:
        self.order = ""
        self.managers: dict[str, tuple[int, ...]] = {}
        super().__init__(path)

    def run(self, **parts: object) -> str:
        """What happened, as text. `parts` of the module may be replaced: for mutations."""
        chosen = options("tno", {**self.mode, "order": self.order})
        assert isinstance(chosen, TnoOptions)
        # Managers are where the scenario puts them.
        settings = chosen.settings(self.nodes, self.members)
        settings = type(settings)(
            **{field: getattr(settings, field) for field in settings.__struct_fields__}
            | {"managers": lambda topic: self.managers.get(topic, (0,))}
        )
        service = straight_service(self.members)
        recorder = Recorder()
        story = _Story(recorder, self.shown, self.labels)
        make_module = partial(OrderingModule, settings=settings, **parts)  # type: ignore[arg-type]
        simulation = Simulation(
            lambda node: TotalOrder(make_module(node), service(node)), range(self.nodes), self.links, [story]
        )
        for topic, members in self.members.items():
            for node in members:
                Tracer.changed(story, 0, node, "subscribe", topic)
        for time, who, verb, rest in self.actions:
            simulation.at(ticks(time), self._action(simulation, story, who, verb, rest))
        simulation.run(until=ticks(200_000))
        report = audit(recorder.rows(), rules=_RULES, across_topics=False)
        broken = [f"{rule.name}: {rule.example.words}" for rule in report.rules if rule.example]
        held = {node: process.held for node, process in simulation.processes.items() if process.held}
        verdict = "; ".join(broken) or "one order, complete, nobody waits" + (f", but held: {held}" if held else "")
        return "\n".join([*story.lines, f"audit: {verdict}", ""])

    def _read(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "order":
            self.order = rest
        elif word == "manager":
            topic, *nodes = rest.split()
            self.managers[topic] = tuple(int(node) for node in nodes)
        else:
            super()._read(line)


class _Story(vcube_ps.Story):
    """Tells of tags and timestamps."""

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        Tracer.sent(self, now, node, to, number, packet, size)
        if packet.kind in self._shown:
            self.tell(now, f"    {node} > {to}  {packet.kind}{_more(packet)}")

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        Tracer.delivered(self, now, node, message, out_of_order=out_of_order)
        self.tell(now, f"{node} gets {vcube_ps._name(message)}{', out of order' if out_of_order else ''}")


def _entries(*entries: tuple[str, int]) -> str:
    return " ".join(f"{topic}:{number}" for topic, number in entries)


def _more(packet: Packet) -> str:  # noqa: PLR0911 - one line a kind
    match packet:
        case Fill() | Stamp():
            below = f", before it {_entries(*packet.below)}" if packet.below else ""
            return f" {packet.source}.{packet.seq} {_entries((packet.topic, packet.number), *packet.above)}{below}"
        case FillSub():
            return f" {packet.subscriber} takes {' '.join(packet.topics)}, from {_entries(*packet.floors) or 'nothing'}"
        case SubDone():
            return f" from {_entries(*packet.floors)}"
        case Void():
            return f" {_entries(*[(packet.topic, number) for number in packet.numbers])}"
        case Swap():
            return f" {packet.high} and {packet.low}"
        case NewOrder():
            return f" {packet.epoch}: {' '.join(packet.order)}"
    return f" {packet.topic}" if hasattr(packet, "topic") else ""
