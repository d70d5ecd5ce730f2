"""Measures a run as it goes, without a trace: the metrics of thesis 4.5.1 and 5.6.1.

Latencies are counted in ticks from the publication; a publisher's own copy counts for neither latency.
"""

from array import array
from collections import Counter, defaultdict

import numpy as np

from antecede.core import Message, Packet
from antecede.sim.units import TICKS


class Meter:
    """An observer of the engine that adds up."""

    def __init__(self) -> None:
        # By topic, then (source, seq): when it was published.
        self._published_at: defaultdict[str, dict[tuple[int, int], int]] = defaultdict(dict)
        self._reception = array("q")
        self._delivery = array("q")
        self._dependencies: Counter[int] = Counter()
        self._bundles: Counter[int] = Counter()
        self._sizes: Counter[int] = Counter()
        # By node: messages that had to wait and still do.
        self._pending: defaultdict[int, int] = defaultdict(int)
        self._pending_max: defaultdict[int, int] = defaultdict(int)
        self._bundle_max: defaultdict[int, int] = defaultdict(int)
        # The messages of the packet that arrived last: what is delivered now and is not among them had to wait.
        # Where it arrived, and how many of them are others' messages and not delivered.
        self._fresh: tuple[Message, ...] = ()
        self._fresh_at = -1
        self._undelivered = 0
        self._delayed = 0
        self._dropped = 0
        self._control = 0

    def published(self, now: int, node: int, message: Message) -> None:
        self._published_at[message.topic][message.source, message.seq] = now
        self._dependencies[len(message.deps)] += 1

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        count = len(packet.messages)
        if count == 0:
            self._control += 1
            return
        self._bundles[count] += 1
        self._sizes[size] += 1
        if count > self._bundle_max[node]:
            self._bundle_max[node] = count

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        if self._undelivered:
            self._pending[self._fresh_at] += self._undelivered
        self._fresh = packet.messages
        self._fresh_at = node
        come = 0
        for message in self._fresh:
            if message.source != node:
                self._reception.append(now - self._published_at[message.topic][message.source, message.seq])
                come += 1
        self._undelivered = come
        # The pending set of thesis Algorithm 2: what has come and is not delivered, the newcomers included.
        if come:
            pending = self._pending[node] + come
            if pending > self._pending_max[node]:
                self._pending_max[node] = pending

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        if message.source == node:
            return
        self._delivery.append(now - self._published_at[message.topic][message.source, message.seq])
        for fresh in self._fresh:
            if fresh is message:
                self._undelivered -= 1
                return
        self._pending[node] -= 1
        self._delayed += 1

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        self._dropped += 1

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        """Membership and faults are no part of these figures."""

    def metrics(self) -> dict[str, object]:
        """Plain values: numbers, and histograms as {value: count}."""
        packets = self._bundles.total()
        reception = np.frombuffer(self._reception, np.int64) if self._reception else np.zeros(0, np.int64)
        delivery = np.frombuffer(self._delivery, np.int64) if self._delivery else np.zeros(0, np.int64)
        return {
            "published": sum(len(times) for times in self._published_at.values()),
            "packets": packets,
            "control_packets": self._control,
            "dropped_packets": self._dropped,
            "message_hops": sum(size * count for size, count in self._bundles.items()),
            "aggregated_packets": packets - self._bundles[1],
            "aggregated_messages": sum(size * count for size, count in self._bundles.items() if size > 1),
            "bytes": sum(size * count for size, count in self._sizes.items()),
            "receptions": len(reception),
            "deliveries": len(delivery),
            "delayed_deliveries": self._delayed,
            "reception_latency": spread(reception),
            "delivery_latency": spread(delivery),
            "messages_per_packet": histogram(self._bundles),
            "packet_bytes": histogram(self._sizes),
            "dependencies": histogram(self._dependencies),
            "pending_max_by_node": histogram(Counter(self._pending_max.values())),
            "bundle_max_by_node": histogram(Counter(self._bundle_max.values())),
        }


def spread(values: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> dict[str, float]:
    """Mean, percentiles and maximum in units of time."""
    if not len(values):
        return {}
    p50, p99 = np.percentile(values, [50, 99])
    return {
        "mean": float(values.mean()) / TICKS,
        "p50": float(p50) / TICKS,
        "p99": float(p99) / TICKS,
        "max": float(values.max()) / TICKS,
    }


def histogram(counts: Counter[int]) -> dict[str, int]:
    return {str(value): counts[value] for value in sorted(counts)}
