"""The figures of a run, from what was counted. Their names and meanings exist once, here (and in `sim.meter`).

`Meter` counts as the event engine goes, `sim.arrays` counts whole steps at once; both fill in these.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecede.sim.units import TICKS


@dataclass(frozen=True, kw_only=True)
class BroadcastFigures:
    """Counts of a broadcast. Latencies and waits are in ticks, one for each reception or delivery."""

    published: int
    control_packets: int
    dropped_packets: int
    #: Packets with messages, by how many they carry, and by their bytes.
    bundles: Counter[int]
    sizes: Counter[int]
    reception: NDArray[np.int64]
    delivery: NDArray[np.int64]
    waits: NDArray[np.int64]
    dependencies: Counter[int]
    #: Nodes by the most messages they held at a time, and by the largest bundle they sent.
    pending_max: Counter[int]
    bundle_max: Counter[int]

    def metrics(self) -> dict[str, object]:
        """Plain values: numbers, and histograms as {value: count}."""
        packets = self.bundles.total()
        return {
            "published": self.published,
            "packets": packets,
            "control_packets": self.control_packets,
            "dropped_packets": self.dropped_packets,
            "message_hops": sum(size * count for size, count in self.bundles.items()),
            "aggregated_packets": packets - self.bundles[1],
            "aggregated_messages": sum(size * count for size, count in self.bundles.items() if size > 1),
            "bytes": sum(size * count for size, count in self.sizes.items()),
            "receptions": len(self.reception),
            "deliveries": len(self.delivery),
            "delayed_deliveries": int((self.waits > 0).sum()),
            "reception_latency": _spread(self.reception),
            "delivery_latency": _spread(self.delivery),
            "messages_per_packet": _histogram(self.bundles),
            "packet_bytes": _histogram(self.sizes),
            "dependencies": _histogram(self.dependencies),
            "pending_max_by_node": _histogram(self.pending_max),
            "bundle_max_by_node": _histogram(self.bundle_max),
        }


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """Counts of a protocol with subscriptions. Latencies and waits are in ticks, one a reception or delivery."""

    published: int
    #: By kind of packet.
    sent: dict[str, int]
    bytes_sent: dict[str, int]
    dropped_packets: int = 0
    subscriptions: int
    unsubscriptions: int = 0
    reception: NDArray[np.int64]
    delivery: NDArray[np.int64]
    waits: NDArray[np.int64]
    out_of_order: int = 0
    duplicates: int = 0
    relayed: int = 0
    #: Ticks that messages waited for their turn to be sent: summed over messages, and over receptions of them.
    turns: int
    turns_received: int
    hops: Counter[int]
    dependencies: Counter[int]

    def metrics(self) -> dict[str, object]:
        """Plain values: numbers, and histograms as {value: count}."""
        receptions, hops, waits = len(self.reception), self.hops, self.waits
        return {
            "published": self.published,
            "sent": self.sent,
            "bytes": self.bytes_sent,
            "dropped_packets": self.dropped_packets,
            "subscriptions": self.subscriptions,
            "unsubscriptions": self.unsubscriptions,
            "receptions": receptions,
            "deliveries": len(self.delivery),
            "out_of_order": self.out_of_order,
            "duplicates": self.duplicates,
            "relayed": self.relayed,
            "relayed_share": self.relayed / max(1, self.relayed + receptions),
            "turn": self.turns / max(1, self.published) / TICKS,
            "latency_from_request": (int(self.reception.sum()) + self.turns_received) / max(1, receptions) / TICKS,
            "reception_latency": _spread(self.reception),
            "delivery_latency": _spread(self.delivery),
            "wait": _spread(waits),
            "waited_share": float((waits > 0).mean()) if len(waits) else 0.0,
            "waits": _whole_units(waits),
            "hops": _histogram(hops),
            "hops_mean": sum(value * count for value, count in hops.items()) / max(1, hops.total()),
            "dependencies": _histogram(self.dependencies),
        }


@dataclass(frozen=True, kw_only=True)
class QueueFigures:
    """Counts of the queues of `sim.peersim`. A packet that bypassed its queue had place 0 and is not queued.

    By kind of packet: how many, and the sums of their places and delays. By node, of the packets it sent: how many, the
    sum of their places, and the highest place.
    """

    packets: dict[str, int]
    places: dict[str, int]
    delays: dict[str, int]
    #: Packets that stood in a queue.
    queued: int
    packets_by_node: NDArray[np.int64]
    places_by_node: NDArray[np.int64]
    highest_by_node: NDArray[np.int64]

    def metrics(self) -> dict[str, object]:
        """Places and delays by kind of packet, and how many nodes had which mean place (thesis Table 5.1)."""
        by_node = self.places_by_node / np.maximum(self.packets_by_node, 1)
        return {
            "place_mean": sum(self.places.values()) / self.queued if self.queued else 0.0,
            "place_mean_by_kind": {kind: self.places[kind] / count for kind, count in self.packets.items()},
            "delay_mean_by_kind": {kind: self.delays[kind] / count / TICKS for kind, count in self.packets.items()},
            "place_mean_by_node": _bins(by_node),
            "place_mean_worst_node": float(by_node.max()),
            "place_max_worst_node": float(self.highest_by_node.max()),
        }


def _spread(values: NDArray[np.int64]) -> dict[str, float]:
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


def _histogram(counts: Counter[int]) -> dict[str, int]:
    return {str(value): counts[value] for value in sorted(counts)}


def _whole_units(ticks: NDArray[np.int64]) -> dict[str, int]:
    """How many waits of each length, rounded up to whole units of time."""
    values, counts = np.unique(-(-ticks // TICKS), return_counts=True)
    return {str(value): int(count) for value, count in zip(values, counts, strict=True)}


def _bins(means: NDArray[np.float64]) -> dict[str, int]:
    """Nodes by the power of two up to which their mean reaches: "8" counts those above 4 and up to 8; "0" exactly 0."""
    found: Counter[int] = Counter()
    for mean in means.tolist():
        limit = 0 if mean == 0 else 2
        while mean > limit:
            limit *= 2
        found[limit] += 1
    return _histogram(found)
