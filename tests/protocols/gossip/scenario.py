"""Scenarios of gossip a person can read, in the form of those of VCube-PS (`tests.protocols.vcube_ps.scenario`).

`mode context` or `mode rounds`, with options; `members` are of groups; a topic names one group or several, "G1&G2".
"""

import random
from collections import Counter
from pathlib import Path

from antecede.audit import audit
from antecede.core import Packet
from antecede.protocols.gossip import groups_of
from antecede.protocols.gossip.options import GossipOptions
from antecede.protocols.gossip.packets import Attach, Copy, Notice, Pull
from antecede.protocols.registry import options
from antecede.sim.engine import Simulation
from antecede.sim.tracing import Tracer
from antecede.sim.units import ticks
from antecede.trace import Recorder
from tests.protocols.vcube_ps.scenario import Scenario, Story


class GossipScenario(Scenario):
    """Reads a scenario, runs it, and tells what happened."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.version = str(self.mode.pop("mode"))

    def run(self) -> str:
        chosen = options(f"gossip-{self.version}", dict(self.mode))
        assert isinstance(chosen, GossipOptions)
        recorder = Recorder()
        published = {rest.partition(" on ")[2] for _, _, verb, rest in self.actions if verb == "publishes"}
        story = GossipStory(recorder, self.shown, sorted({*self.members, *published}))
        make = chosen.build_with_rng(self.nodes, self.members, lambda node: random.Random(f"scenario/{node}"))
        simulation = Simulation(make, range(self.nodes), self.links, [story])
        for group, members in self.members.items():
            for node in members:
                story.takes(0, node, "subscribe", group)
        for time, who, verb, rest in self.actions:
            simulation.at(ticks(time), self._action(simulation, story, who, verb, rest))
        simulation.run(until=ticks(200_000))
        report = audit(recorder.rows())
        broken = [rule.example.words for rule in report.rules if rule.example and rule.name != "tree-edges-once"]
        held = {node: process.held for node, process in simulation.processes.items() if process.held}
        verdict = "; ".join(broken) or "in order, complete, nobody waits" + (f", but held: {held}" if held else "")
        return "\n".join([*story.lines, f"audit: {verdict}", ""])


class GossipStory(Story):
    """Tells of groups, records topics."""

    def __init__(self, recorder: Recorder, shown: set[str], topics: list[str]) -> None:
        super().__init__(recorder, shown, {})
        self._topics = topics
        self._through: Counter[tuple[int, str]] = Counter()

    def takes(self, now: int, node: int, what: str, group: str) -> None:
        step = 1 if what == "subscribe" else -1
        for topic in self._topics:
            if group in groups_of(topic):
                self._through[node, topic] += step
                if self._through[node, topic] == (step > 0):
                    Tracer.changed(self, now, node, what, topic)

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        if what in ("subscribe", "unsubscribe"):
            self.takes(now, node, what, topic)
            self.tell(now, f"{node} has {'joined' if what == 'subscribe' else 'left'} {topic}")
        else:
            super().changed(now, node, what, topic)

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        Tracer.sent(self, now, node, to, number, packet, size)
        if packet.kind in self._shown:
            self.tell(now, f"    {node} > {to}  {packet.kind} {_words(packet)}".rstrip())


def _words(packet: Packet) -> str:
    match packet:
        case Notice():
            return "; ".join(_copy(copy) for copy in packet.copies)
        case Pull():
            return ", ".join(f"{topic}/{source}.{after + 1}..{upto}" for topic, source, after, upto in packet.wants)
        case Attach():
            return "at " + (", ".join(f"{topic}/{source}.{n}" for topic, source, n in packet.past) or "the beginning")
        case _:
            return ""


def _copy(copy: Copy) -> str:
    message = copy.message
    if copy.ages:
        return f"{message.id} of round {copy.clock}, ages {' '.join(map(str, copy.ages))}"
    after = [f"{message.topic}/{source}.{seq}" for source, seq in message.deps]
    after += [f"{topic}/{source}.{seq}" for topic, source, seq in message.across]
    return f"{message.id} after {', '.join(after) or 'nothing'}"
