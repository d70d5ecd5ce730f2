"""The figures of a run, computed from its trace, slowly and plainly. What `sim.meter` counts is held to this.

Applications' requests are not in a trace. When they ask for topics is given beside it (`Ask`). Two figures of the meter
count from the request to publish and are left out: `turn` and `latency_from_request`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from antecede.sim.units import TICKS
from antecede.trace import Event, Row

Key = tuple[str, int, int]


class Ask(NamedTuple):
    """An application asks for a topic, or to leave it, after so many rows of the trace."""

    rows: int
    node: int
    topic: str
    takes: bool


class Story:
    """A trace, read once: what came, what was delivered, in which packets."""

    def __init__(self, rows: Iterable[Row], asks: Iterable[Ask] = ()) -> None:
        self.published: dict[Key, int] = {}
        self.dependencies: Counter[int] = Counter()
        #: By packet: its kind, sender, messages and bytes.
        self.packets: dict[int, tuple[str, int, int, int]] = {}
        self.dropped: set[int] = set()
        self.subscriptions = self.unsubscriptions = self.tagged = self.duplicates = 0
        self.receptions: list[int] = []
        self.deliveries: list[int] = []
        self.waits: list[int] = []
        self.hops: list[int] = []
        self.held_most: dict[int, int] = {}
        self._takes: set[tuple[int, str]] = set()
        self._own: set[Key] = set()
        self._posted: set[Key] = set()
        #: By node and message: the row of its first arrival, and whether it was a member's or at a root.
        self._first: dict[tuple[int, Key], Row] = {}
        self._member: set[tuple[int, Key]] = set()
        self._at_root: set[tuple[int, Key]] = set()
        self.members_at_root = 0
        self._back: set[Key] = set()
        self._done: set[tuple[int, Key]] = set()
        self._held: defaultdict[int, set[Key]] = defaultdict(set)
        waiting, read = list(asks)[::-1], 0
        for arrived in packets_together(rows):
            while waiting and waiting[-1].rows <= read:
                _, node, topic, takes = waiting.pop()
                (self._takes.add if takes else self._takes.discard)((node, topic))
            read += len(arrived)
            for row in arrived:
                self._read(row)
            if arrived[0].event is Event.RECEIVE and self._held[arrived[0].node]:
                node = arrived[0].node
                self.held_most[node] = max(self.held_most.get(node, 0), len(self._held[node]))
        self.relayed = [place for place in self._first if place not in self._member | self._at_root]

    def _read(self, row: Row) -> None:
        key = (row.topic, row.source, row.seq)
        match row.event:
            case Event.PUBLISH:
                self.published[key] = row.time_us
                self.dependencies[sum(dep[0] == row.topic for dep in row.deps)] += 1
                if (row.node, row.topic) in self._takes:
                    self._own.add(key)
            case Event.SEND:
                self.packets[row.packet] = (row.note, row.node, row.bundle, row.bytes)
            case Event.DROP:
                self.dropped.add(row.packet)
            case Event.RECEIVE if row.source >= 0:
                self._arrive(row, key)
            case Event.DELIVER:
                self.tagged += row.note == "out_of_order"
                if row.node != row.source:
                    self._deliver(row, key)
            case Event.SUBSCRIBE:
                self.subscriptions += 1
                self._takes.add((row.node, row.topic))
            case Event.UNSUBSCRIBE:
                self.unsubscriptions += 1
                self._takes.discard((row.node, row.topic))
            case Event.CRASH:
                self._held[row.node].clear()

    def _arrive(self, row: Row, key: Key) -> None:
        place = (row.node, key)
        if self.packets[row.packet][0] == "post":
            self._posted.add(key)
            if place not in self._first and row.node != row.source:
                self._first[place] = row
                self._at_root.add(place)
                self.members_at_root += (row.node, row.topic) in self._takes
        elif place in self._first or (row.node == row.source and key not in self._posted):
            self.duplicates += 1
        else:
            self._first[place] = row
            if (row.node, row.topic) in self._takes:
                self._receive(place, row)
                if row.node == row.source:  # it comes back
                    self._back.add(key)
                    self.deliveries.append(row.time_us - self.published[key])
                    self.waits.append(0)
                else:
                    self._held[row.node].add(key)

    def _receive(self, place: tuple[int, Key], row: Row) -> None:
        self._member.add(place)
        self.receptions.append(row.time_us - self.published[place[1]])
        self.hops.append(row.hops)

    def _deliver(self, row: Row, key: Key) -> None:
        place = (row.node, key)
        if place in self._at_root:
            return
        first = self._first.get(place)
        if first is not None and place not in self._member:  # it had asked to leave before it had joined
            self._receive(place, first)
        self.deliveries.append(row.time_us - self.published[key])
        self.waits.append(0 if first is None or place in self._done else row.time_us - first.time_us)
        self._done.add(place)
        self._held[row.node].discard(key)

    # -- figures ----------------------------------------------------------------------------------------------------

    def broadcast(self) -> dict[str, Any]:
        carrying = [packet for packet in self.packets.values() if packet[2] > 0]
        bundles, most = Counter(count for _, _, count, _ in carrying), Counter[int]()
        for _, sender, count, _ in carrying:
            most[sender] = max(most[sender], count)
        return {
            "published": len(self.published),
            "packets": len(carrying),
            "control_packets": len(self.packets) - len(carrying),
            "dropped_packets": len(self.dropped),
            "message_hops": sum(count for _, _, count, _ in carrying),
            "aggregated_packets": sum(count > 1 for _, _, count, _ in carrying),
            "aggregated_messages": sum(count for _, _, count, _ in carrying if count > 1),
            "bytes": sum(size for _, _, _, size in carrying),
            "receptions": len(self.receptions),
            "deliveries": len(self.deliveries),
            "delayed_deliveries": sum(wait > 0 for wait in self.waits),
            "reception_latency": spread(self.receptions),
            "delivery_latency": spread(self.deliveries),
            "messages_per_packet": histogram(bundles),
            "packet_bytes": histogram(Counter(size for _, _, _, size in carrying)),
            "dependencies": histogram(self.dependencies),
            "pending_max_by_node": histogram(Counter(self.held_most.values())),
            "bundle_max_by_node": histogram(Counter(most.values())),
        }

    def groups(self) -> dict[str, Any]:
        sent, bytes_sent = Counter[str](), Counter[str]()
        for kind, _, _, size in self.packets.values():
            sent[kind] += 1
            bytes_sent[kind] += size
        # A member's own copy, unless it came back, and a member's copy at a root have crossed no link.
        at_source_or_root = len(self._own - self._back) + self.members_at_root
        hops = Counter(self.hops) + Counter({0: at_source_or_root})
        receptions, relayed = len(self.receptions), len(self.relayed)
        return {
            "published": len(self.published),
            "sent": dict(sent),
            "bytes": dict(bytes_sent),
            "dropped_packets": len(self.dropped),
            "subscriptions": self.subscriptions,
            "unsubscriptions": self.unsubscriptions,
            "receptions": receptions,
            "deliveries": len(self.deliveries),
            "out_of_order": self.tagged,
            "duplicates": self.duplicates,
            "relayed": relayed,
            "relayed_share": relayed / max(1, relayed + receptions),
            "reception_latency": spread(self.receptions),
            "delivery_latency": spread(self.deliveries),
            "wait": spread(self.waits),
            "waited_share": sum(wait > 0 for wait in self.waits) / max(1, len(self.waits)),
            "waits": histogram(Counter(-(-wait // TICKS) for wait in self.waits)),
            "hops": histogram(hops),
            "hops_mean": sum(value * count for value, count in hops.items()) / max(1, hops.total()),
            "dependencies": histogram(self.dependencies),
        }


def packets_together(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows one by one, but those of one arriving packet together: it has a row for each of its messages."""
    together: list[Row] = []
    for row in rows:
        same = together and row.event is Event.RECEIVE and together[0].event is Event.RECEIVE
        if same and (row.packet, row.node) == (together[0].packet, together[0].node) and len(together) < row.bundle:
            together.append(row)
        else:
            if together:
                yield together
            together = [row]
    if together:
        yield together


def spread(times: list[int]) -> dict[str, float]:
    if not times:
        return {}
    p50, p99 = np.percentile(times, [50, 99])
    named = {"mean": np.mean(times), "p50": p50, "p99": p99, "max": max(times)}
    return {name: float(value) / TICKS for name, value in named.items()}


def histogram(counts: Counter[int]) -> dict[str, int]:
    return {str(value): counts[value] for value in sorted(counts)}
