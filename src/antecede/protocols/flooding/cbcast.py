"""CBCAST (Birman, Schiper and Stephenson 1991): a compressed vector clock for each group. LoCaMu's reference [1].

Every node keeps a clock for every group it has heard of, since order may lead through groups that it does not take. A
message to a group carries that group's clock and those of all others; of each only what changed since its publisher's
last message *to the same group*. Every member received that message and waited for what it named (links lose nothing,
members do not change), so members know the entries that are left out.

Bytes as in LoCaMu VI: a full clock has 4 bytes for each member of its group, a single entry 8 (node, count); the
shorter form travels. The clock of another group has 2 more bytes to name it. With all nodes in one group of 1024 a full
clock has the paper's 4 KB.
"""

from collections import Counter

from antecede.core import Message, Packet
from antecede.core.gate import Need
from antecede.protocols.flooding.process import GROUP, Carry, Flooding
from antecede.protocols.flooding.routes import Routes

#: Bytes of a sequence number in a full clock, and of an entry that names its node.
COUNT, ENTRY = 4, 8


class GroupClocks:
    """The vector clocks of all groups, and when each entry last changed."""

    __slots__ = ("_entries", "_stamped", "_version")

    def __init__(self) -> None:
        # By group and node: the count, and the version when it changed. The latest change is last.
        self._entries: dict[tuple[str, int], tuple[int, int]] = {}
        self._version = 0
        # By group: the version when the last message to it was stamped.
        self._stamped: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def stamp(self, topic: str, node: int, seq: int) -> list[tuple[str, int, int]]:
        """Return what message `seq` of `node` to `topic` carries beside its own entry. Later messages depend on it."""
        since = self._stamped.get(topic, 0)
        changed = []
        for (other, source), (count, version) in reversed(self._entries.items()):
            if version <= since:
                break
            if source != node or other != topic:
                changed.append((other, source, count))
        self.note(topic, node, seq)
        self._stamped[topic] = self._version
        return changed

    def note(self, topic: str, source: int, count: int) -> None:
        """Note that `source` has sent `count` messages to `topic`."""
        key = (topic, source)
        known = self._entries.get(key)
        if known is not None:
            if known[0] >= count:
                return
            del self._entries[key]
        self._version += 1
        self._entries[key] = (count, self._version)


class Cbcast(Flooding):
    """A node that stamps with group clocks."""

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node, routes)
        self._clocks = GroupClocks()

    def metadata(self, packet: Packet) -> int:
        """Bytes of the message's clocks."""
        (message,) = packet.messages
        groups = self._routes.groups
        size = min(COUNT * len(groups[message.topic]), ENTRY * (1 + len(message.deps)))
        if message.across:
            for topic, entries in Counter([entry[0] for entry in message.across]).items():
                size += GROUP + min(COUNT * len(groups[topic]), ENTRY * entries)
        return size

    @property
    def state_bytes(self) -> int:
        """The entries of the clocks."""
        return ENTRY * len(self._clocks)

    def _stamp(self, topic: str, seq: int, payload: bytes) -> Carry:
        changed = self._clocks.stamp(topic, self.node, seq)
        deps = tuple([(source, count) for other, source, count in changed if other == topic])
        across = tuple([entry for entry in changed if entry[0] != topic])
        return Carry(Message(topic, self.node, seq, deps, payload, across))

    def _needs(self, packet: Carry) -> list[Need]:
        message, taken = packet.message, self._taken
        topic = message.topic
        needs: list[Need] = [((topic, source), count) for source, count in message.deps]
        if message.across:
            needs += [((other, source), count) for other, source, count in message.across if other in taken]
        return needs

    def _observe(self, packet: Carry) -> None:
        message = packet.message
        self._clocks.note(message.topic, message.source, message.seq)
        # Entries of groups taken here were delivered here before: only the others are new.
        for topic, source, count in message.across:
            if topic not in self._taken:
                self._clocks.note(topic, source, count)
