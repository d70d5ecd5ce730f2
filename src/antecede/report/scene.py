"""Gathers what a space-time diagram shows from the rows of a trace: arrows, publications, deliveries, outages.

This file knows times, nodes and messages, and no pixels. The send and receive rows of one packet become one arrow,
however many messages the packet carries. Packets that a choice of nodes leaves out are counted.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from antecede.audit import OUT_OF_ORDER
from antecede.audit.filters import matches
from antecede.trace import Event, Row

#: A message as the trace names it: (topic, source, seq).
Key: TypeAlias = tuple[str, int, int]


class Arrow(NamedTuple):
    """A packet. It arrived at `arrived_us`, or was lost: then, or (None) at an unknown time."""

    sender: int
    receiver: int
    sent_us: int
    arrived_us: int | None
    lost: bool
    messages: tuple[Key, ...]
    #: Of a packet without messages.
    kind: str
    bytes: int


class Publication(NamedTuple):
    row: int
    node: int
    time_us: int
    message: Key
    deps: tuple[Key, ...]


class Delivery(NamedTuple):
    """A message, delivered at `until_us`; or held until then (a crash, the end) and never delivered."""

    row: int
    node: int
    since_us: int
    until_us: int
    given: bool
    message: Key
    hops: int
    note: str


class Outage(NamedTuple):
    """A node was down, until the end if it did not come back. `stopped`: it stopped cleanly and did not crash."""

    node: int
    since_us: int
    until_us: int
    back: bool
    stopped: bool


class Change(NamedTuple):
    """A subscription that began or ended after the run did."""

    node: int
    time_us: int
    topic: str
    joined: bool


class Violation(NamedTuple):
    """A violation as a diagram marks it. `rows` count from 0 in the judged trace; the diagram must have all of it."""

    rule: str
    words: str
    nodes: tuple[int, ...]
    messages: tuple[Key, ...]
    rows: tuple[int, ...]


class Scene:
    """A run, as far as it is shown."""

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self.arrows: list[Arrow] = []
        self.publications: list[Publication] = []
        self.deliveries: list[Delivery] = []
        self.outages: list[Outage] = []
        self.changes: list[Change] = []
        self.start_us = 0
        self.end_us = 0
        #: Packets left out because one of their ends is not shown.
        self.beyond = 0


class Choice(NamedTuple):
    """What to show of a run; empty means everything."""

    nodes: frozenset[int] = frozenset()
    #: Filters as in a subscription.
    topics: tuple[str, ...] = ()
    messages: frozenset[Key] = frozenset()
    from_us: int | None = None
    until_us: int | None = None

    def takes(self, message: Key) -> bool:
        if self.topics and not any(matches(pattern, message[0]) for pattern in self.topics):
            return False
        return not self.messages or message in self.messages

    @property
    def all_messages(self) -> bool:
        return not self.topics and not self.messages

    def within(self, since_us: int, until_us: int) -> bool:
        return (self.from_us is None or until_us >= self.from_us) and (
            self.until_us is None or since_us <= self.until_us
        )


class _Packet:
    """One packet while its rows come in."""

    def __init__(self, row: Row) -> None:
        self.sent: Row = row
        self.messages: dict[Key, None] = {}
        #: Time of each arrival, and whether it was one at a node that was down.
        self.arrivals: dict[tuple[int, bool], None] = {}


class _Reader:
    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.scene = Scene()
        self.nodes: set[int] = set()
        self.packets: dict[object, _Packet] = {}
        self.received: dict[tuple[int, Key], tuple[int, int]] = {}
        self.taken: set[tuple[int, Key]] = set()
        self.subscriptions: dict[int, set[str]] = {}
        #: By node that is down: since when, and whether it stopped cleanly.
        self.down: dict[int, tuple[int, bool]] = {}
        self.first_us: int | None = None
        self.last_us = 0

    def add(self, index: int, row: Row) -> None:
        self.nodes.add(row.node)
        if row.event not in (Event.SUBSCRIBE, Event.UNSUBSCRIBE):
            self.first_us = row.time_us if self.first_us is None else min(self.first_us, row.time_us)
        self.last_us = max(self.last_us, row.time_us)
        key = (row.topic, row.source, row.seq)
        match row.event:
            case Event.SEND | Event.RECEIVE | Event.DROP:
                self._packet(row, key)
                if row.event is Event.RECEIVE and row.source >= 0 and (row.node, key) not in self.taken:
                    self.received.setdefault((row.node, key), (index, row.time_us))
            case Event.PUBLISH:
                self.taken.add((row.node, key))
                self.scene.publications.append(Publication(index, row.node, row.time_us, key, row.deps))
            case Event.DELIVER:
                self.received.pop((row.node, key), None)
                self.taken.add((row.node, key))
                since = row.time_us - max(0, row.held_us)
                # An application's own label is no tag of the protocol's.
                tagged = row.note if row.note == OUT_OF_ORDER else ""
                given = Delivery(index, row.node, since, row.time_us, True, key, row.hops, tagged)
                self.scene.deliveries.append(given)
            case Event.SUBSCRIBE | Event.UNSUBSCRIBE:
                self._change(row)
            case Event.CRASH | Event.STOP:
                self.down.setdefault(row.node, (row.time_us, row.event is Event.STOP))
                self._give_up({row.node}, row.time_us)
            case Event.RECOVER:
                since_us, stopped = self.down.pop(row.node, (row.time_us, False))
                self.scene.outages.append(Outage(row.node, since_us, row.time_us, True, stopped))

    def _packet(self, row: Row, key: Key) -> None:
        sender, receiver = (row.node, row.peer) if row.event is Event.SEND else (row.peer, row.node)
        # A trace made by hand may leave numbers out; a message crosses an edge once, as a rule.
        name = row.packet if row.packet >= 0 else (sender, receiver, key)
        packet = self.packets.get(name)
        if packet is None:
            packet = self.packets[name] = _Packet(row)
        if row.source >= 0:
            packet.messages[key] = None
        if row.event is not Event.SEND:
            packet.arrivals[row.time_us, row.event is Event.DROP] = None

    def _change(self, row: Row) -> None:
        topics = self.subscriptions.setdefault(row.node, set())
        joined = row.event is Event.SUBSCRIBE
        if joined:
            topics.add(row.topic)
        else:
            topics.discard(row.topic)
        if self.first_us is not None:  # what everyone takes from the start needs no mark
            self.scene.changes.append(Change(row.node, row.time_us, row.topic, joined))

    def _give_up(self, nodes: set[int], now_us: int) -> None:
        """Note that these nodes will not deliver what they still hold."""
        for (node, key), (index, since) in list(self.received.items()):
            # Relays pass on what they do not take; nothing is held there.
            if node in nodes and any(matches(pattern, key[0]) for pattern in self.subscriptions.get(node, ())):
                self.scene.deliveries.append(Delivery(index, node, since, now_us, False, key, -1, ""))
                del self.received[node, key]

    def finish(self) -> Scene:
        scene, choice = self.scene, self.choice
        self._give_up(self.nodes, self.last_us)
        scene.outages += [
            Outage(node, since_us, self.last_us, False, stopped) for node, (since_us, stopped) in self.down.items()
        ]
        scene.nodes = sorted(choice.nodes & self.nodes if choice.nodes else self.nodes)
        first = self.first_us if self.first_us is not None else self.last_us
        scene.start_us = first if choice.from_us is None else choice.from_us
        scene.end_us = max(scene.start_us, self.last_us if choice.until_us is None else choice.until_us)
        shown = set(scene.nodes)
        for packet in self.packets.values() or self._journeys():
            self._arrows(packet, shown)
        scene.publications = [
            one
            for one in scene.publications
            if one.node in shown and choice.takes(one.message) and choice.within(one.time_us, one.time_us)
        ]
        scene.deliveries = [
            one
            for one in scene.deliveries
            if one.node in shown and choice.takes(one.message) and choice.within(one.since_us, one.until_us)
        ]
        scene.outages = [
            one for one in scene.outages if one.node in shown and choice.within(one.since_us, one.until_us)
        ]
        scene.changes = [one for one in scene.changes if one.node in shown and choice.within(one.time_us, one.time_us)]
        return scene

    def _journeys(self) -> list[_Packet]:
        """For a trace without packets, as journals give it: one arrow from each publication to each delivery."""
        published = {one.message: one for one in self.scene.publications}
        journeys = []
        for given in self.scene.deliveries:
            began = published.get(given.message)
            if began is not None and given.node != began.node and given.given:
                journey = _Packet(Row(began.time_us, Event.SEND, began.node, peer=given.node))
                journey.messages[given.message] = None
                journey.arrivals[given.since_us, False] = None
                journeys.append(journey)
        return journeys

    def _arrows(self, packet: _Packet, shown: set[int]) -> None:
        row, messages = packet.sent, tuple(packet.messages)
        chosen = tuple(message for message in messages if self.choice.takes(message))
        if not chosen and (messages or not self.choice.all_messages):
            return
        sent_row = row.event is Event.SEND
        sender, receiver = (row.node, row.peer) if sent_row else (row.peer, row.node)
        arrivals: Iterable[tuple[int | None, bool]] = packet.arrivals or [(None, True)]
        for arrived_us, lost in arrivals:
            sent_us = row.time_us if sent_row else self.scene.start_us
            if not self.choice.within(sent_us, sent_us if arrived_us is None else arrived_us):
                continue
            if sender in shown and receiver in shown:
                kind = "" if messages else row.note or "control"
                self.scene.arrows.append(Arrow(sender, receiver, sent_us, arrived_us, lost, messages, kind, row.bytes))
            elif sender in shown or receiver in shown:
                self.scene.beyond += 1


def read_scene(rows: Iterable[Row], choice: Choice) -> Scene:
    reader = _Reader(choice)
    for index, row in enumerate(rows):
        reader.add(index, row)
    return reader.finish()
