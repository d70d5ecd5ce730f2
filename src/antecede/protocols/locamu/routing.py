"""Subscription routing: the directions in which there are members, as other nodes report them (LoCaMu III-B).

Every node tells the nodes within `number` in which directions of the base graph it knows members of a topic. From that
a node computes whether any node behind another one wants a message. If that other node is down and has not heard,
reports of the nodes behind it count. A wrong direction costs a packet, a missing one a message; in doubt a node sends.

A subscription spreads as a wave. A node that hears news of a neighbour tells its other neighbours. It is *settled*
towards that neighbour when all those are settled towards itself; and towards any node within `number`, when all nodes
behind it that are within `number` of that node have heard as well. When all neighbours of a new member are settled
towards it, every node knows of a member in its direction, and all nodes that number messages for it know it. Only then
has it joined: every message published from then on reaches it. A neighbour that is down delays a join until it is back.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from antecede.overlay.extended import Surroundings
from antecede.protocols.locamu.packets import Interest
from antecede.protocols.locamu.records import Heard, Member

#: By topic, for each node: the directions in which there were members from the beginning.
Founding: TypeAlias = Mapping[str, list[frozenset[int]]]

_NOBODY: frozenset[int] = frozenset()


class Routing:
    """One node's routing table."""

    def __init__(self, around: Surroundings, founding: Founding, changed: Callable[[Interest], None]) -> None:
        """`changed` is called with every interest to be kept, this node's or another's."""
        self._around = around
        self._founding = founding
        self._changed = changed
        self._heard: dict[tuple[int, str], Interest] = {}
        #: Topics that this node takes, and those it has asked for.
        self.joined = {topic for topic, directions in founding.items() if around.me in directions[around.me]}
        self.joining: set[str] = set()
        self._targets: dict[tuple[str, int | None], tuple[int, ...]] = {}
        #: By neighbour: what it has not been told.
        self._news: dict[int, dict[tuple[int, str], None]] = {peer: {} for peer in around.linked}

    @property
    def changes(self) -> bool:
        """Has any member joined or left since the beginning?"""
        return bool(self._heard)

    @property
    def entries(self) -> int:
        """How many entries the table has: one for each topic and each node within `number`, and this node."""
        return (len(self._around.numbered) + 1) * len(self._founding.keys() | {topic for _, topic in self._heard})

    # -- questions ----------------------------------------------------------------------------------------------

    def targets(self, topic: str, upstream: int | None) -> tuple[int, ...]:
        """The nodes for which a message that comes from `upstream` is numbered."""
        found = self._targets.get((topic, upstream))
        if found is None:
            around = self._around
            found = around.targets(around.number, upstream, lambda node: self._wants(node, topic))
            self._targets[topic, upstream] = found
        return found

    def _wants(self, node: int, topic: str) -> bool:
        """Does `node`, or a node behind it as seen from here, take `topic`?

        Reports of the nodes behind it count, too: their news may come before its own, which it cannot give while it is
        down. And a message that is numbered for a node must be numbered for all nodes on the way.
        """
        around = self._around
        back = around.path(node, around.me)[1]
        if any(direction != back for direction in self._towards(node, topic)):
            return True
        behind = (other for other in around.behind(node) if around.distance[other] <= around.number)
        return bool(self._heard) and any(self._wants(other, topic) for other in behind)

    def _towards(self, node: int, topic: str) -> Collection[int]:
        said = self._heard.get((node, topic))
        if said is not None:
            return said.towards
        founding = self._founding.get(topic)
        return _NOBODY if founding is None else founding[node]

    # -- joining and leaving ------------------------------------------------------------------------------------

    def subscribe(self, topic: str) -> None:
        if topic not in self.joined and topic not in self.joining:
            self.joining.add(topic)
            self._review(topic)

    def unsubscribe(self, topic: str) -> None:
        self.joining.discard(topic)
        self.joined.discard(topic)
        self._review(topic)

    def be(self, topic: str, what: str) -> None:
        """Restore the membership that a record says."""
        self.joined.discard(topic)
        self.joining.discard(topic)
        if what == "joined":
            self.joined.add(topic)
        elif what == "joining":
            self.joining.add(topic)

    def take_joined(self) -> list[str]:
        """The topics asked for whose joins are now complete."""
        done = [topic for topic in sorted(self.joining) if self._is_settled(topic)]
        self.joining.difference_update(done)
        self.joined.update(done)
        return done

    # -- reports ------------------------------------------------------------------------------------------------

    def hear(self, sender: int, interest: Interest) -> None:
        """A report of a node within `number`, perhaps forwarded by `sender`."""
        node, around = interest.node, self._around
        if node == around.me or around.distance.get(node, around.number + 1) > around.number:
            return
        known = self._heard.get((node, interest.topic))
        version = 0 if known is None else known.version
        newer = interest.version > version
        if not newer and not (interest.version == version and sender == node and interest != known):
            return
        self.learn(interest)
        self._changed(interest)
        if newer:
            self._spread(interest, sender)
        self._review(interest.topic)

    def learn(self, interest: Interest) -> None:
        """Enter an interest without telling other nodes."""
        self._heard[interest.node, interest.topic] = interest
        self._targets.clear()

    def news(self, peer: int) -> tuple[Interest, ...]:
        """Return what `peer` has not been told, and count it as told."""
        waiting = self._news[peer]
        if not waiting:
            return ()
        told = tuple(self._heard[key] for key in waiting)
        waiting.clear()
        return told

    def tell_all(self, peer: int) -> None:
        """Tell `peer` everything that concerns it: it may have forgotten, or never heard."""
        around = self._around
        self._news[peer] = {
            key: None for key in self._heard if around.apart(key[0], peer) <= around.number and key[0] != peer
        }

    def has_news(self) -> list[int]:
        """The neighbours that have something to be told."""
        return [peer for peer, waiting in self._news.items() if waiting] if self._heard else []

    def snapshot(self) -> list[object]:
        """The table as records."""
        kept: list[object] = [Heard(interest) for interest in self._heard.values()]
        kept += [Member(topic, "joined") for topic in sorted(self.joined)]
        kept += [Member(topic, "joining") for topic in sorted(self.joining)]
        kept += [Member(topic, "left") for topic in self._founding if topic not in self.joined | self.joining]
        return kept

    # -- inside -------------------------------------------------------------------------------------------------

    def _review(self, topic: str) -> None:
        """Report it if what this node knows of `topic` has changed."""
        me, around = self._around.me, self._around
        own = topic in self.joined or topic in self.joining
        towards = tuple(sorted([d for d in around.neighbours if self._wants(d, topic)] + ([me] if own else [])))
        known = self._heard.get((me, topic))
        version = 0 if known is None else known.version
        changed = towards != tuple(sorted(self._towards(me, topic)))
        if changed:
            version += 1
        before = () if known is None else known.settled
        settled = tuple(sorted((dict(before) | self._settled_towards(topic, version)).items()))
        if not changed and settled == before:
            return
        interest = Interest(me, topic, version, towards, settled)
        self.learn(interest)
        self._changed(interest)
        if changed:
            self._spread(interest, me)
        else:
            for neighbour in around.neighbours:
                self._news[neighbour][me, topic] = None

    def _settled_towards(self, topic: str, version: int) -> dict[int, int]:
        """The nodes whose last report is known to all nodes it concerns on this side of them, with its version.

        It concerns the nodes that may number a message for that node. What this node reports because of a neighbour's
        report must be known, too.
        """
        around = self._around
        found = {}
        for node in around.numbered:
            said = self._heard.get((node, topic))
            if said is None or not said.version:
                continue  # unchanged since the beginning, which all nodes know
            step, far = around.first_step(node), around.distance[node]
            if all(
                (far == around.number or self._is_settled_by(other, node, topic, said.version))
                and (far > 1 or self._is_settled_by(other, around.me, topic, version))
                for other in around.neighbours
                if other != step
            ):
                found[node] = said.version
        return found

    def _is_settled(self, topic: str) -> bool:
        me = self._around.me
        known = self._heard.get((me, topic))
        version = 0 if known is None else known.version
        return all(self._is_settled_by(other, me, topic, version) for other in self._around.neighbours)

    def _is_settled_by(self, neighbour: int, node: int, topic: str, version: int) -> bool:
        """Do `neighbour`, and all nodes behind it that it concerns, know report `version` of `node`?"""
        said = self._heard.get((neighbour, topic))
        return version == 0 or (said is not None and dict(said.settled).get(node, 0) >= version)

    def _spread(self, interest: Interest, sender: int) -> None:
        around = self._around
        for peer in around.linked:
            if peer not in (sender, interest.node) and around.apart(peer, interest.node) <= around.number:
                self._news[peer][interest.node, interest.topic] = None
