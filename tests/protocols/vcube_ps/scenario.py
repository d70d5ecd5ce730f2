"""Scenarios a person can read: what is done, when, over which links; and below the line what came of it.

    A joiner is not held up by what was before its time.       <- what it shows, up to an empty line

    mode faithful                                              <- or pipelined; further words are options, key=value
    nodes 4
    members chat 0 1                                           <- from the beginning
    hop 100                                                    <- u.t. a packet takes
    link 0>2 900                                               <- but on this link
    cut 0>2 10..50                                             <- and what leaves there then is lost
    show pub pull                                              <- packets worth seeing
    10 0 publishes hello on chat
    20 3 subscribes chat                                       <- unsubscribes, crashes, recovers
    30 everyone suspects 0                                     <- or one node; trusts
    ---
    what happened, line by line                                <- rewritten by ANTECEDE_REWRITE=1, reviewed as a diff

Times are in u.t. The last line is the verdict of the audit.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from antecede.audit import audit
from antecede.audit.rules import DEFAULT_RULES
from antecede.core import Message, Packet
from antecede.protocols.options import TOTAL, GroupOptions
from antecede.protocols.registry import options
from antecede.protocols.vcube_ps.options import VCubePsOptions
from antecede.protocols.vcube_ps.packets import (
    Ack,
    ActAck,
    Bundle,
    Gone,
    Have,
    Pub,
    Pull,
    Settled,
    SubAck,
    Views,
)
from antecede.sim.engine import Simulation
from antecede.sim.tracing import Tracer
from antecede.sim.units import TICKS, ticks
from antecede.trace import Recorder

_ACTION = re.compile(r"(?P<time>\d+) (?P<who>\S+) (?P<verb>\w+)( (?P<rest>.+))?$")


class _Links:
    """Fixed delays, and cuts."""

    weighs = False

    def __init__(self) -> None:
        self.hop = ticks(100)
        self.links: dict[tuple[int, int], int] = {}
        self.cuts: list[tuple[int, int, int, int]] = []

    def arrivals(self, now: int, sender: int, to: int, size: int) -> Sequence[int]:
        for a, b, begin, end in self.cuts:
            if (a, b) == (sender, to) and begin <= now < end:
                return ()
        return (now + self.links.get((sender, to), self.hop),)


class Scenario:
    """Reads a scenario, runs it, and tells what happened."""

    #: Who tells it.
    story_type: "type[Story] | None" = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head, _, self.expected = path.read_text().partition("---\n")
        self.links = _Links()
        self.nodes = 0
        self.mode: dict[str, object] = {}
        self.members: dict[str, list[int]] = {}
        self.shown: set[str] = set()
        self.labels: dict[str, str] = {}
        self.actions: list[tuple[int, str, str, str]] = []
        _, _, lines = self.head.partition("\n\n")
        for line in lines.splitlines():
            self._read(line.strip())

    def rewrite(self, told: str) -> None:
        self.path.write_text(f"{self.head}---\n{told}")

    def run(self) -> str:
        """What happened, as text."""
        chosen = self.chosen()
        recorder = Recorder()
        story = (self.story_type or Story)(recorder, self.shown, self.labels)
        simulation = Simulation(chosen.build_groups(self.nodes, self.members), range(self.nodes), self.links, [story])
        for topic, members in self.members.items():
            for node in members:
                Tracer.changed(story, 0, node, "subscribe", topic)
        for time, who, verb, rest in self.actions:
            simulation.at(ticks(time), self._action(simulation, story, who, verb, rest))
        simulation.run(until=ticks(200_000))
        rules = (*DEFAULT_RULES, *[rule for rule in chosen.promises if rule == TOTAL])
        report = audit(recorder.rows(), rules=rules, across_topics=chosen.across_topics)
        broken = [rule.example.words for rule in report.rules if rule.example and rule.name != "tree-edges-once"]
        held = {node: process.held for node, process in simulation.processes.items() if process.held}
        verdict = "; ".join(broken) or "in order, complete, nobody waits" + (f", but held: {held}" if held else "")
        return "\n".join([*story.lines, f"audit: {verdict}", ""])

    def chosen(self) -> GroupOptions:
        chosen = options("vcube-ps", self.mode)
        assert isinstance(chosen, VCubePsOptions)
        return chosen

    def _read(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "mode":
            mode, *more = rest.split()
            self.mode = {"mode": mode, **dict(pair.split("=") for pair in more)}
        elif word == "nodes":
            self.nodes = int(rest)
        elif word == "members":
            topic, *members = rest.split()
            self.members[topic] = [int(member) for member in members]
        elif word == "hop":
            self.links.hop = ticks(float(rest))
        elif word == "link":
            link, delay = rest.split()
            self.links.links[_link(link)] = ticks(float(delay))
        elif word == "cut":
            link, times = rest.split()
            begin, end = times.split("..")
            self.links.cuts.append((*_link(link), ticks(float(begin)), ticks(float(end))))
        elif word == "show":
            self.shown.update(rest.split())
        elif line:
            said = _ACTION.match(line)
            assert said, f"{self.path.name}: {line!r}"
            self.actions.append((int(said["time"]), said["who"], said["verb"], said["rest"] or ""))

    def _action(self, simulation: Simulation, story: "Story", who: str, verb: str, rest: str) -> Callable[[], None]:
        def publish(node: int) -> None:
            label, _, topic = rest.partition(" on ")
            simulation.publish(node, topic, label.encode())

        acts: dict[str, Callable[[int], object]] = {
            "publishes": publish,
            "subscribes": lambda node: simulation.subscribe(node, rest),
            "unsubscribes": lambda node: simulation.unsubscribe(node, rest),
            "crashes": simulation.crash,
            "recovers": simulation.recover,
            "suspects": lambda node: node != int(rest) and simulation.suspect(node, int(rest)),
            "trusts": lambda node: node != int(rest) and simulation.trust(node, int(rest)),
        }

        def act() -> None:
            if verb in ("subscribes", "unsubscribes", "suspects", "trusts"):
                asks = f"asks to {'take' if verb == 'subscribes' else 'leave'} {rest}"
                story.tell(simulation.now, f"{who} {asks if verb.endswith('scribes') else f'{verb} {rest}'}")
            for node in range(self.nodes) if who == "everyone" else [int(who)]:
                if node in simulation.processes or verb == "recovers":
                    acts[verb](node)

        return act


class Story(Tracer):
    """An observer that tells what happens, and records it for the audit."""

    def __init__(self, recorder: Recorder, shown: set[str], labels: dict[str, str]) -> None:
        super().__init__(recorder)
        self.lines: list[str] = []
        self._shown = shown

    def tell(self, now: int, words: str) -> None:
        self.lines.append(f"{now / TICKS:7g}  {words}")

    def published(self, now: int, node: int, message: Message) -> None:
        super().published(now, node, message)
        after = [f"{source}.{seq}" for source, seq in message.deps] + [f"{t}/{s}.{n}" for t, s, n in message.across]
        behind = f", after {', '.join(after)}" if after else ""
        self.tell(now, f"{node} publishes {_name(message)}{behind}")

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        super().sent(now, node, to, number, packet, size)
        if packet.kind in self._shown:
            self.tell(now, f"    {node} > {to}  {_words(packet)}")

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        super().delivered(now, node, message, out_of_order=out_of_order)
        if message.source != node:
            self.tell(now, f"{node} delivers {_name(message)}")

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        super().changed(now, node, what, topic)
        words = {"subscribe": f"has joined {topic}", "unsubscribe": f"has left {topic}"}
        self.tell(now, f"{node} {words.get(what, f'{what}s' if what != 'crash' else 'crashes')}")


def _name(message: Message) -> str:
    return f"{message.topic}/{message.source}.{message.seq} {message.payload.decode()!r}"


def _link(text: str) -> tuple[int, int]:
    sender, to = text.split(">")
    return int(sender), int(to)


def _pairs(entries: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{node}:{count}" for node, count in sorted(entries)) or "nothing"


def _words(packet: Packet) -> str:
    return packet.kind + _more(packet)


def _more(packet: Packet) -> str:
    more = ""
    match packet:
        case Bundle():
            more = " " + ", ".join(str(message.id) for message in packet.messages)
        case Pub():
            how = {0: " (again, to it alone)", 1: "", 2: " (again, down the tree)"}[packet.spread]
            more = " " + ", ".join(str(message.id) for message in packet.messages) + how
        case Ack():
            more = f" {packet.source}.{packet.seq}" + (f" (has left, {packet.left})" if packet.left else "")
        case SubAck():
            counts = f", delivered {_pairs(packet.counts)}" if packet.counts else ""
            more = f" for {packet.node}: view {_pairs(packet.view)}{counts}"
        case ActAck():
            more = f" for {packet.node}: before it {_pairs(packet.counts)}"
        case Have():
            beyond = f" and {', '.join(map(str, packet.beyond))}" if packet.beyond else ""
            more = f" of {packet.source}: got {packet.got}{beyond}, delivered {packet.done}"
        case Pull():
            more = " " + ", ".join(f"{packet.source}.{seq}" for seq in packet.numbers)
        case Gone():
            more = f" {packet.source}: up to {packet.upto}"
        case Settled():
            more = f" {packet.source}: up to {packet.stable}"
        case Views():
            more = f" {_pairs(packet.entries)}"
        case _ if hasattr(packet, "node"):
            more = f" for {packet.node}"
    return more
