"""Measures throughput and what it costs: deliveries a second, bytes a message, how busy the busiest interface is.

Counted over the second half of the publications, from the moment the first of these is published to the last: the first
half is for the network and the clocks to fill. *Aggregated throughput* is as LoCaMu IV-A defines it, all messages
delivered to all nodes, a publisher's own among them. *Metadata* is what a packet that carries a message has beyond its
payload. 1 u.t. counts as 1 ms.
"""

from array import array

import numpy as np

from antecede.core import Message, Packet
from antecede.sim.units import TICKS

_TICKS_A_SECOND = 1000 * TICKS


class Throughput:
    """An observer of the engine that notes times and sizes."""

    def __init__(self) -> None:
        self._published = array("q")
        self._delivered = array("q")
        # For every packet sent: when, by whom, its bytes, and how many of them are metadata; −1: it carries no message.
        self._sent_at = array("q")
        self._sender = array("l")
        self._bytes = array("q")
        self._metadata = array("q")

    def published(self, now: int, node: int, message: Message) -> None:
        self._published.append(now)

    def sent(self, now: int, node: int, to: int, number: int, packet: Packet, size: int) -> None:
        self._sent_at.append(now)
        self._sender.append(node)
        self._bytes.append(size)
        messages = packet.messages
        self._metadata.append(size - sum([len(message.payload) for message in messages]) if messages else -1)

    def received(self, now: int, node: int, sender: int, number: int, packet: Packet, size: int) -> None:
        """Only what is delivered counts."""

    def delivered(self, now: int, node: int, message: Message, *, out_of_order: bool = False) -> None:
        self._delivered.append(now)

    def dropped(self, now: int, node: int, sender: int, number: int, packet: Packet) -> None:
        """Only what is delivered counts."""

    def changed(self, now: int, node: int, what: str, topic: str) -> None:
        """Membership and faults are no part of these figures."""

    def metrics(self) -> dict[str, object]:
        """Plain numbers; none when too little was published to have a second half."""
        if len(self._published) < 4 or self._published[len(self._published) // 2] == self._published[-1]:
            return {}
        begin, end = self._published[len(self._published) // 2], self._published[-1]
        seconds = (end - begin) / _TICKS_A_SECOND

        def within(times: "array[int]") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
            values = np.array(times, np.int64)
            return (values >= begin) & (values < end)

        now = within(self._sent_at)
        size, metadata = np.array(self._bytes, np.int64)[now], np.array(self._metadata, np.int64)[now]
        carries = metadata >= 0
        load = np.bincount(np.array(self._sender, np.int64)[now], weights=size)
        return {
            "throughput": int(within(self._delivered).sum()) / seconds,
            "messages_a_second": int(within(self._published).sum()) / seconds,
            "metadata_mean": float(metadata[carries].mean()) if carries.any() else 0.0,
            "metadata_max": int(metadata.max(initial=0)),
            "control_share": float(size[~carries].sum() / max(1, size.sum())),
            "busiest_mbps": float(load.max(initial=0)) * 8 / seconds / 1e6,
        }
