"""lpbcast, lightweight probabilistic broadcast (Eugster et al., DSN 2001; Kim & Ahn compare with it).

A member knows only a *view* of a few others. A round's gossip carries what came since the last one in full, the names
of recent messages, and names of members. The receiver asks for messages that it lacks. Nothing is ordered.

A member heard of takes an entry of the view, and the member it replaces travels on with the next gossip. Members are
passed around rather than forgotten, so views remain a random sample. (If parts of views were copied instead, views
would soon be full of members that gossip just now, which have the message already.)
"""

from collections.abc import Collection
from typing import Annotated

from msgspec import Meta

from antecede.core import Message, Packet
from antecede.core.message import Source
from antecede.core.rng import Rng
from antecede.protocols.gossip.epidemic import Epidemic, Messages, Names, Rounds
from antecede.protocols.gossip.packets import BUNDLE_MAX
from antecede.protocols.options import Founders


class Gossip(Packet, frozen=True, gc=False, tag="lpbcast.gossip"):
    """The sender's news of a round."""

    topic: str
    events: Messages
    names: Names
    #: Members passed around; the sender is one of them.
    peers: Annotated[tuple[Source, ...], Meta(max_length=256)]

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.events


class Lpbcast(Epidemic):
    """A member that knows as many others as its view holds."""

    def __init__(self, node: int, rounds: Rounds, rng: Rng, members: Founders, *, view: int) -> None:
        super().__init__(node, rounds, rng, members)
        self._places = view
        #: By topic: the members in the view, and those replaced there, to be told to others.
        self._view: dict[str, list[int]] = {}
        self._around: dict[str, list[int]] = {}
        #: By topic: the messages that came since the last gossip.
        self._events: dict[str, list[Message]] = {}
        for topic in sorted(self._takes):
            others = [member for member in self._members[topic] if member != node]
            self._view[topic] = others if len(others) <= view else rng.sample(others, view)
            self._around[topic] = []

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Gossip):
            super().receive(sender, packet)
            return
        if packet.topic in self._takes:
            self._meet(packet.topic, packet.peers)
            self._take(packet.events)
            self._ask_for_the_unseen(sender, packet.names)

    def size(self, packet: Packet) -> int:
        if isinstance(packet, Gossip):
            return self._sizes.packet(packet.events, len(packet.names), len(packet.peers))
        return super().size(packet)

    def _tell(self) -> None:
        for topic in sorted({name[0] for name in self._store}):
            events = self._events.pop(topic, [])[-BUNDLE_MAX:]
            carried = {message.id for message in events}
            names = tuple([name for name in self._store if name[0] == topic and name not in carried])
            packet = Gossip(topic, tuple(events), names, (self.node, *self._around[topic]))
            for member in self._draw(self._view[topic]):
                self.out.send(member, packet)

    def _new(self, message: Message) -> None:
        self._events.setdefault(message.topic, []).append(message)
        self.out.deliver(message)

    def _meet(self, topic: str, members: Collection[int]) -> None:
        view, around = self._view[topic], self._around[topic]
        for member in members:
            if member == self.node or member in view:
                continue
            if len(view) < self._places:
                view.append(member)
                continue
            place = self._rng.randrange(len(view))
            if view[place] not in around:
                around.append(view[place])
            view[place] = member
        while len(around) > self._places:
            del around[self._rng.randrange(len(around))]
