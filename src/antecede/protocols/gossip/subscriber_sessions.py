"""A broker's sessions with its subscribers: what each takes, and the short form in which messages go to it.

Among brokers a message names its predecessors on every topic. A subscriber can wait only for topics that it takes, so
its copy keeps only those (Kim & Ahn's immediate predecessors, for each topic). The broker sends what it has delivered
to each subscriber once, or in several rounds (`notices`). A subscriber sees gaps by number and pulls; the broker
reports now and then how far it is (`Standing`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from antecede.core import Message
from antecede.core.domain_order import StreamName
from antecede.core.native import mypyc_attr
from antecede.protocols.bundling import in_packets
from antecede.protocols.gossip.groups import groups_of
from antecede.protocols.gossip.packets import (
    BUNDLE_MAX,
    Attach,
    Attached,
    Copy,
    Detach,
    Level,
    Notice,
    Pull,
    Rumour,
    Standing,
)

if TYPE_CHECKING:
    from antecede.protocols.gossip.broker import Broker

#: How many other brokers a subscriber is told of.
_ALTERNATES: Final = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class SubscriberSessions:
    """The sessions of a gossip-context broker."""

    def __init__(self, broker: "Broker", subscribers: Mapping[int, frozenset[str]]) -> None:
        self._broker = broker
        #: By subscriber: the version of its request, and its groups.
        self._subscribers: dict[int, tuple[int, frozenset[str]]] = {}
        self._by_groups: dict[frozenset[str], dict[int, None]] = {}
        # The levels of the last report to all subscribers, and the part of them that concerns each set of groups.
        self._compared: dict[StreamName, int] = {}
        self._by_groups_compared: dict[frozenset[str], tuple[Level, ...]] = {}
        # Notices to send again, with their subscribers, and in how many rounds.
        self._again: list[tuple[Notice, tuple[int, ...], int]] = []
        for node, groups in subscribers.items():
            self._set(node, 0, groups)

    def __len__(self) -> int:
        return len(self._subscribers)

    # -- the short form ----------------------------------------------------------------------------------------------

    def copy(self, rumour: Rumour, groups: frozenset[str]) -> Copy | None:
        """The message for a subscriber of `groups`. None: it is of no use to the subscriber any more."""
        return Copy(projected(rumour.message, groups), rumour.clock)

    # -- packets from subscribers ------------------------------------------------------------------------------------

    def attach(self, node: int, packet: Attach) -> None:
        broker = self._broker
        version, groups = self._subscribers.get(node, (0, frozenset()))
        if packet.version < version:
            return
        if packet.version > version:
            groups = frozenset((*packet.groups, *packet.fresh))
            self._set(node, packet.version, groups)
        broker.wake_up()
        # Groups it took before count, too: only a broker that relays all of them knows what precedes those messages.
        broker.relay(groups.union(*[groups_of(topic) for topic, _, _ in packet.past]))
        if not groups.isdisjoint(broker.group_join.joining):
            return  # not yet: the subscriber asks again
        if packet.fresh and not packet.resigned and not (broker.group_join.closed and self._covers(packet.past)):
            return
        floors = self._levels(groups) if packet.fresh else ()
        alternates = tuple(broker.views.targets(groups, _ALTERNATES))
        broker.out.send(node, Attached(packet.version, floors, broker.time, alternates))
        self._bring_up_to_date(node, groups, packet)

    def detach(self, node: int, packet: Detach) -> None:
        known = self._subscribers.get(node)
        if known is not None and known[0] < packet.version:
            self.gone(node)

    def gone(self, node: int) -> None:
        known = self._subscribers.pop(node, None)
        if known is not None:
            of_groups = self._by_groups[known[1]]
            del of_groups[node]
            if not of_groups:
                del self._by_groups[known[1]]

    def pulled(self, node: int, packet: Pull) -> None:
        """A subscriber, of this broker or another, misses messages."""
        store = self._broker.store
        found: list[Rumour] = []
        for topic, source, after, upto in packet.wants:
            found += [one for one in store.stream(topic, source) if after < one.message.seq <= upto and self._had(one)]
        self._send(node, found[: self._broker.config.burst], frozenset(packet.groups))

    # -- packets to subscribers --------------------------------------------------------------------------------------

    def announce(self, rumours: list[Rumour]) -> None:
        """Send messages that were delivered here."""
        for groups, nodes in self._by_groups.items():
            for notice in self._notices(rumours, groups):
                self._tell(notice, tuple(nodes), self._broker.config.notices)

    def repeat(self) -> None:
        """Send the notices of the last rounds again, as often as is set (`GossipConfig.notices`)."""
        again, self._again = self._again, []
        for notice, nodes, times in again:
            self._tell(notice, tuple([node for node in nodes if node in self._subscribers]), times)

    def _tell(self, notice: Notice, nodes: tuple[int, ...], times: int) -> None:
        for node in nodes:
            self._broker.out.send(node, notice)
        if times > 1:
            self._again.append((notice, nodes, times - 1))

    def compare(self) -> None:
        """Tell all subscribers how far this broker is."""
        levels = self._broker.order.levels()
        if levels != self._compared:
            self._compared = levels
            self._by_groups_compared.clear()
        for groups, nodes in self._by_groups.items():
            found = self._by_groups_compared.get(groups)
            if found is None:
                found = self._by_groups_compared[groups] = self._levels(groups)
            standing = self.standing(groups, found)
            for node in nodes:
                self._broker.out.send(node, standing)

    def standing(self, groups: frozenset[str], levels: tuple[Level, ...]) -> Standing:
        """How far this broker is, for subscribers of `groups`."""
        return Standing(levels, self._broker.time)

    def _send(self, node: int, rumours: list[Rumour], groups: frozenset[str]) -> None:
        for notice in self._notices(rumours, groups):
            self._broker.out.send(node, notice)

    def _notices(self, rumours: list[Rumour], groups: frozenset[str]) -> list[Notice]:
        copies = [
            copy
            for rumour in rumours
            if not groups.isdisjoint(groups_of(rumour.message.topic))
            and (copy := self.copy(rumour, groups)) is not None
        ]
        name = tuple(sorted(groups))
        return [Notice(name, part) for part in in_packets(copies, BUNDLE_MAX)]

    def _bring_up_to_date(self, node: int, groups: frozenset[str], packet: Attach) -> None:
        """Send a subscriber that comes from another broker what it has not seen, as far as it is stored here."""
        fresh = frozenset(packet.fresh)
        seen = {(topic, source): position for topic, source, position in packet.past}
        store = self._broker.store
        found = [
            rumour
            for topic, source in store.streams()
            if not (groups - fresh).isdisjoint(groups_of(topic))
            for rumour in store.stream(topic, source)
            if rumour.message.seq > seen.get((topic, source), 0) and self._had(rumour)
        ]
        if not fresh:
            self._send(node, found[: self._broker.config.burst], groups)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _had(self, rumour: Rumour) -> bool:
        """Was it delivered here?"""
        message = rumour.message
        return message.seq <= self._broker.order.reached((message.topic, message.source))

    def _levels(self, groups: frozenset[str]) -> tuple[Level, ...]:
        return tuple(
            [
                (*stream, reached)
                for stream, reached in self._broker.order.levels().items()
                if not groups.isdisjoint(groups_of(stream[0]))
            ]
        )

    def _covers(self, past: tuple[Level, ...]) -> bool:
        """Has this broker delivered everything the subscriber has? Then it has also delivered what precedes that."""
        reached = self._broker.order.reached
        return all(reached((topic, source)) >= position for topic, source, position in past)

    def _set(self, node: int, version: int, groups: frozenset[str]) -> None:
        self.gone(node)
        self._subscribers[node] = (version, groups)
        self._by_groups.setdefault(groups, {})[node] = None


def projected(message: Message, groups: frozenset[str]) -> Message:
    """The message without the dependencies that a subscriber of only `groups` cannot wait for."""
    across = tuple([entry for entry in message.across if not groups.isdisjoint(groups_of(entry[0]))])
    return message if len(across) == len(message.across) else msgspec.structs.replace(message, across=across)
