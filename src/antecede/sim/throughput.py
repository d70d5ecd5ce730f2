"""Measures throughput and its cost: deliveries a second, bytes a message, how busy the busiest interface is.

Only the second half of the messages counts, from the publication of the first of them to that of the last; in the first
half the network and the clocks fill. *Aggregated throughput* is as LoCaMu IV-A defines it, all messages delivered to
all nodes, a publisher's own included: deliveries of these messages, whenever they come, since a message reaches one
node later than another. That is a throughput where no more is published than the network carries, which `busiest_mbps`
shows. *Metadata* is the bytes of a packet with a message beyond its payload. 1 u.t. counts as 1 ms.
"""

from array import array
from collections import Counter

import numpy as np

from antecede.core import Message, Packet
from antecede.sim.engine import SilentObserver
from antecede.sim.units import TICKS

_TICKS_A_SECOND = 1000 * TICKS


class Throughput(SilentObserver):
    """An observer of the engine that records times and sizes."""

    def __init__(self) -> None:
        # By message, in the order they were published: when, and how often it was delivered.
        self._published: dict[tuple[str, int, int], int] = {}
        self._delivered: Counter[tuple[str, int, int]] = Counter()
        # For every packet sent: when, by whom, its bytes, and how many of them are metadata; −1: it carries no message.
        self._sent_at = array("q")
        self._sender = array("l")
        self._bytes = array("q")
        self._metadata = array("q")

    def published(self, now: int, node: int, message: Message) -> None:
        self._published[message.topic, message.source, message.seq] = now

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        self._sent_at.append(now)
        self._sender.append(node)
        self._bytes.append(size)
        messages = packet.messages
        self._metadata.append(size - sum([len(message.payload) for message in messages]) if messages else -1)

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        self._delivered[message.topic, message.source, message.seq] += 1

    def metrics(self) -> dict[str, object]:
        """Plain numbers; none when too little was published to have a second half."""
        names = list(self._published)
        names = names[len(names) // 2 :]
        begin, end = (self._published[names[0]], self._published[names[-1]]) if names else (0, 0)
        if begin == end:
            return {}
        seconds = (end - begin) / _TICKS_A_SECOND
        times = np.array(self._sent_at, np.int64)
        now = (times >= begin) & (times < end)
        size, metadata = np.array(self._bytes, np.int64)[now], np.array(self._metadata, np.int64)[now]
        carries = metadata >= 0
        load = np.bincount(np.array(self._sender, np.int64)[now], weights=size)
        return {
            "throughput": sum([self._delivered[name] for name in names[:-1]]) / seconds,
            "messages_a_second": (len(names) - 1) / seconds,
            "metadata_mean": float(metadata[carries].mean()) if carries.any() else 0.0,
            "metadata_max": int(metadata.max(initial=0)),
            "control_share": float(size[~carries].sum() / max(1, size.sum())),
            "busiest_mbps": float(load.max(initial=0)) * 8 / seconds / 1e6,
        }
