"""The figures of a run of a protocol with subscriptions, from what was counted: names and meanings exist once, here.

`GroupMeter` counts as the event engine goes, `sim.arrays` counts whole steps at once; both fill in these.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecede.sim.meter import histogram, spread
from antecede.sim.units import TICKS


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """What was counted of messages. Latencies and waits are in ticks, one for each reception or delivery."""

    published: int
    #: By sort of packet.
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
            "reception_latency": spread(self.reception),
            "delivery_latency": spread(self.delivery),
            "wait": spread(waits),
            "waited_share": float((waits > 0).mean()) if len(waits) else 0.0,
            "waits": _whole_units(waits),
            "hops": histogram(hops),
            "hops_mean": sum(value * count for value, count in hops.items()) / max(1, hops.total()),
            "dependencies": histogram(self.dependencies),
        }


@dataclass(frozen=True, kw_only=True)
class QueueFigures:
    """What was counted of the queues of `sim.peersim`. A packet that bypassed its queue had place 0 and is not queued.

    By sort of packet: how many, and the sums of their places and delays. By node, of the packets it sent: how many, the
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
        """Places and delays by sort of packet, and how many nodes had which mean place (thesis Table 5.1)."""
        by_node = self.places_by_node / np.maximum(self.packets_by_node, 1)
        return {
            "place_mean": sum(self.places.values()) / self.queued if self.queued else 0.0,
            "place_mean_by_kind": {kind: self.places[kind] / count for kind, count in self.packets.items()},
            "delay_mean_by_kind": {kind: self.delays[kind] / count / TICKS for kind, count in self.packets.items()},
            "place_mean_by_node": _bins(by_node),
            "place_mean_worst_node": float(by_node.max()),
            "place_max_worst_node": float(self.highest_by_node.max()),
        }


def _whole_units(ticks: NDArray[np.int64]) -> dict[str, int]:
    """How many waited how long, rounded up to whole units of time."""
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
    return histogram(found)
