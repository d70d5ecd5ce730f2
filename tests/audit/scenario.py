"""Scenarios a person can read: what happened line by line, what is expected, and what the judge says of it.

The triangle: B's answer overtakes A's question at C.      <- what it shows, up to an empty line

nodes A B C                                                <- numbered from 0
asked within topics, with total, broadcast to A B C        <- optional, any of the three
10 A subscribes chat
20 A publishes question on chat and delivers it            <- two rows; `after x, y` records dependencies
30 B delivers question                                     <- or `chat/0.1`; `out of order` or `incomplete` tags it
35 B delivers question saying hello                        <- the content, for rows that tell it; publications too
40 B sends question to C
50 B crashes
---
violated causal                                            <- written by hand: exactly these rules,
unknown tree-edges-once                                    <- and these; every other one is held
---
the report, word for word                                  <- rewritten by ANTECEDE_REWRITE=1, reviewed as a diff
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from antecede.audit import ALL_RULES, DEFAULT_RULES, INCOMPLETE, OUT_OF_ORDER, Report, audit
from antecede.trace import Event, Row, payload_digest

Key = tuple[str, int, int]

_PUBLISHES = re.compile(
    r"(?P<label>\S+) on (?P<topic>\S+)( as (?P<source>\d+)\.(?P<seq>\d+))?( after (?P<after>.+?))?"
    r"( saying (?P<content>\S+))?( and delivers it)?$"
)
_EXPLICIT = re.compile(r"(.+)/(\d+)\.(\d+)$")


@dataclass
class Scenario:
    path: Path
    head: str
    expected: dict[str, set[str]]
    report: str
    rows: list[Row] = field(default_factory=list)
    across_topics: bool = True
    rules: tuple[str, ...] = DEFAULT_RULES
    broadcast_to: tuple[int, ...] = ()

    def audit(self) -> Report:
        return audit(self.rows, across_topics=self.across_topics, rules=self.rules, broadcast_to=self.broadcast_to)

    def rewrite(self, report: str) -> None:
        self.path.write_text(f"{self.head}---\n{report}\n")


class _Reader:
    """Carries out the lines of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.nodes: dict[str, int] = {}
        self.messages: dict[str, Key] = {}

    def line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "nodes":
            self.nodes = {name: number for number, name in enumerate(rest.split())}
        elif word == "asked":
            for wish in rest.split(", "):
                self.asked(wish)
        else:
            name, verb, *what = rest.split(" ", 2)
            getattr(self, verb)(int(word), self.nodes[name], *what)

    def asked(self, wish: str) -> None:
        if wish == "within topics":
            self.scenario.across_topics = False
        elif wish == "with total":
            self.scenario.rules = ALL_RULES
        elif wish.startswith("broadcast to "):
            self.scenario.broadcast_to = tuple(self.nodes[name] for name in wish.split()[2:])
        else:
            raise ValueError(f"asked for what? {wish!r}")

    def subscribes(self, time: int, node: int, topic: str) -> None:
        self.add(Row(time, Event.SUBSCRIBE, node, topic=topic))

    def unsubscribes(self, time: int, node: int, topic: str) -> None:
        self.add(Row(time, Event.UNSUBSCRIBE, node, topic=topic))

    def crashes(self, time: int, node: int) -> None:
        self.add(Row(time, Event.CRASH, node))

    def stops(self, time: int, node: int) -> None:
        self.add(Row(time, Event.STOP, node))

    def recovers(self, time: int, node: int) -> None:
        self.add(Row(time, Event.RECOVER, node))

    def publishes(self, time: int, node: int, what: str) -> None:
        said = _PUBLISHES.match(what)
        assert said, what
        topic = said["topic"]
        seqs = [seq for t, source, seq in self.messages.values() if (t, source) == (topic, node)]
        key = (topic, int(said["source"] or node), int(said["seq"] or max(seqs, default=0) + 1))
        deps = tuple(self.key(label) for label in (said["after"] or "").split(", ") if label)
        self.messages[said["label"]] = key
        content = f" saying {said['content']}" if said["content"] else ""
        self.add(Row(time, Event.PUBLISH, node, -1, *key, deps=deps, digest=_digest(content)))
        if what.endswith(" and delivers it"):
            self.delivers(time, node, said["label"] + content)

    def delivers(self, time: int, node: int, what: str) -> None:
        note = OUT_OF_ORDER if what.endswith(" out of order") else INCOMPLETE if what.endswith(" incomplete") else ""
        said = what.removesuffix(" out of order").removesuffix(" incomplete")
        label, content, word = said.partition(" saying ")
        digest = _digest(content + word)
        self.add(Row(time, Event.DELIVER, node, -1, *self.key(label), note=note, digest=digest))

    def sends(self, time: int, node: int, what: str) -> None:
        label, _, peer = what.partition(" to ")
        self.add(Row(time, Event.SEND, node, self.nodes[peer], *self.key(label)))

    def key(self, label: str) -> Key:
        if label in self.messages:
            return self.messages[label]
        explicit = _EXPLICIT.match(label)
        assert explicit, f"no message {label}"
        return explicit[1], int(explicit[2]), int(explicit[3])

    def add(self, row: Row) -> None:
        self.scenario.rows.append(row)


def _digest(content: str) -> int:
    return payload_digest(content.encode()) if content else -1


def read_scenario(path: Path) -> Scenario:
    story, expected, report = (*path.read_text().split("---\n"), "")[:3]
    said: dict[str, set[str]] = {"violated": set(), "unknown": set()}
    for line in expected.splitlines():
        verdict, *rules = line.split()
        said[verdict].update(rules)
    scenario = Scenario(path, f"{story}---\n{expected}", said, report.rstrip("\n"))
    reader = _Reader(scenario)
    _, _, lines = story.partition("\n\n")
    for line in lines.splitlines():
        reader.line(line)
    return scenario
