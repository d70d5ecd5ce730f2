"""LoCaMu: one node (Algorithm 1 of the paper, completed and corrected: docs/errors_in_papers.md).

A copy of a message carries the identifiers it was given on its path (I), others it is known to have (A), and the past
of the node that forwarded it first (D). A node that receives a copy

  - drops it if an identifier is known here, and learns the others: duplicates never wait, and never enter a past;
  - holds it while its past names a message that was numbered for this node and is not processed here;
  - otherwise *processes* it: merges its past, numbers it for all nodes behind, delivers it if this node is a member,
    adds it to the log, and forwards it to those targets that are active connections, if its path is safe
    (`Surroundings.is_safe`).

`relay` has what the node does for others from then on.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Final

from antecede.core import LimitError, Message, Packet, ProtocolError, TopicMessageId
from antecede.core.native import mypyc_attr
from antecede.overlay.extended import Surroundings
from antecede.protocols.locamu.conversations import Conversations, Timing
from antecede.protocols.locamu.identifiers import Shared, link, receiver_of, sender_of
from antecede.protocols.locamu.packets import Data, Parcel
from antecede.protocols.locamu.records import Started, Took
from antecede.protocols.locamu.relay import Relay
from antecede.protocols.locamu.routing import Founding
from antecede.protocols.locamu.sizes import Sizes, links_around

#: How many messages the log may have before the node refuses to publish. It grows so large only while a neighbour is
#: away for long, and nothing that the neighbour lacks may be dropped.
LOG_MAX: Final = 100_000


@mypyc_attr(allow_interpreted_subclasses=True)
class LoCaMu(Relay):
    """A node of LoCaMu."""

    reports_membership: ClassVar[bool] = True

    def __init__(
        self,
        around: Surroundings,
        founding: Founding,
        timing: Timing,
        *,
        records: bool = True,
        sizes: Sizes | None = None,
        log_max: int = LOG_MAX,
    ) -> None:
        """`records`: send names of open messages, so that no node waits for a relay that never comes back."""
        super().__init__(around, founding, timing, records=records)
        self._sizes = sizes or Sizes()
        self._log_max = log_max
        self._links: int | None = None

    # -- the application ----------------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes) -> Message:
        log = self.state.log
        if len(log.entries) >= self._log_max:
            raise LimitError(
                "the log of messages a neighbour may need",
                len(log.entries),
                self._log_max,
                "bring back the nodes that are down, or remove them from the graph",
            )
        message = Message(topic, self.node, self.state.published.get(topic, 0) + 1, (), payload)
        self._process(Data(message, self.node, True, {}, {}, {}), None)
        self._settle()
        return message

    def subscribe(self, topic: str) -> None:
        routing = self.state.routing
        if topic not in routing.joined and topic not in routing.joining:
            self.state.be(topic, "joining")
            self._settle()

    def unsubscribe(self, topic: str) -> None:
        routing = self.state.routing
        if topic in routing.joined or topic in routing.joining:
            self.state.be(topic, "left")
            self.out.left(topic)
            self._settle()

    def wants(self, topic: str) -> bool:
        return topic in self.state.routing.joined or topic in self.state.routing.joining

    def takes(self, topic: str) -> bool:
        return topic in self.state.routing.joined

    def last_published(self, topic: str) -> int:
        return self.state.published.get(topic, 0)

    # -- packets, timers, suspicions ----------------------------------------------------------------------------

    def start(self) -> None:
        state = self.state
        state.life += 1
        self.out.keep(Started(state.life))
        if state.life > 1:
            self._talks = Conversations(self.out, state.life, self._timing)
            self._unsure.update(self.around.linked)
            for peer in self.around.linked:
                if peer not in self._suspected:
                    self._greet(peer)
            self._settle()

    def check(self, packets: Sequence[Packet]) -> None:
        """A copy must have a name, and come from another node that this one knows."""
        known = self.around.distance
        for packet in packets:
            data = packet.data if isinstance(packet, Parcel) else None
            if data is not None and (data.origin not in known or data.origin == self.node):
                raise ProtocolError(f"message {data.message.id} is said to come by node {data.origin}")
            if data is not None and not data.path and not data.alias:
                raise ProtocolError(f"message {data.message.id} has no number")

    def receive(self, sender: int, packet: Packet) -> None:
        if not isinstance(packet, Parcel) or sender not in self._untold:
            raise ProtocolError(f"node {self.node} got a {type(packet).__name__} from {sender}, no neighbour's parcel")
        again, parcels = self._talks.hear(sender, packet)
        if again and sender not in self._suspected:
            self._greet(sender)  # it waits for that before it sends anything
            self._transmit_all(sender)
        for parcel in parcels:
            self._acknowledged(sender, parcel)
            for ids in parcel.records:
                self.state.learn(ids, sender)
                self._told_by(sender, ids)
            for interest in parcel.interests:
                self.state.routing.hear(sender, interest)
            if parcel.data is not None:
                self._take(sender, parcel.data)
        self._settle()

    def wake(self, timer: Hashable) -> None:
        match timer:
            case ("ack",):
                self._armed.discard("ack")
                self._acknowledge()
            case ("look",):
                self._armed.discard("look")
                self._look()
            case ("again", int(peer)):
                self._talks.again(peer)

    def peer_down(self, node: int) -> None:
        if node in self._untold and node not in self._suspected:
            self._suspected.add(node)
            self._talks.end(node)
            self._suspicions_changed()

    def peer_up(self, node: int) -> None:
        if node in self._suspected:
            self._suspected.discard(node)
            self._greet(node)
            self._suspicions_changed()

    def size(self, packet: Packet) -> int:
        assert isinstance(packet, Parcel)
        if self._links is None:
            self._links = links_around(self.around)
        return self._sizes.parcel(packet, self._links)

    def restore(self, records: Iterable[object]) -> None:
        self.state.restore(records)

    @property
    def held(self) -> int:
        return self.state.column.waiting

    @property
    def answers_for(self) -> int:
        """How many messages, and names of messages, this node keeps for others."""
        return len(self.state.log.entries) + len(self.state.log.foreign)

    def footprint(self) -> dict[str, int]:
        """How much this node remembers, by kind. It grows only with messages under way and the neighbourhood."""
        state = self.state
        names = (*state.log.entries, *state.log.foreign)
        return {
            "counters": len(state.past) + state.column.counters,
            "log": len(names),
            "names": sum(len(one.ids) for one in names),
            "held": state.column.waiting,
            "unheard": self._talks.unheard,
            "routes": state.routing.entries,
        }

    def holding(self) -> list[TopicMessageId]:
        return [held.data.message.id for held in self.state.column.held]

    def unfinished(self) -> list[str]:
        waits = [f"waits for number {n} of node {sender}" for sender, n in sorted(self.state.column.missing().items())]
        return waits + [f"has not joined {topic}" for topic in sorted(self.state.routing.joining)]

    # -- a copy comes in ----------------------------------------------------------------------------------------

    def _take(self, sender: int, data: Data) -> None:
        """Handle a copy: a duplicate, one that must wait, or a new message."""
        state = self.state
        ids = {**data.path, **data.alias}
        if state.is_known(ids):
            state.duplicate(ids)
            if state.routing.changes and state.log.find(ids) is None and sender not in map(sender_of, ids):
                state.learn(ids, sender)  # from a proxy for this node, which lacks its number (`State._late_answer`)
            self._told_by(sender, ids)
        elif needs := state.column.needs(data.past):
            state.column.hold(sender, data, needs)
        else:
            self._process(data, sender)

    def _process(self, data: Data, sender: int | None) -> None:
        state, message = self.state, data.message
        upstream = None if sender is None else self.around.first_step(data.origin)
        targets = state.routing.targets(message.topic, upstream)
        targets = self._agreed(targets, upstream, data)
        past, me = state.past, self.node
        numbers = {at: past.get(at, 0) + 1 for at in (link(me, to) for to in targets)}
        late = sender is not None and not self._is_of_our_time(sender, data)
        entry = state.take(Took(message, data.origin, data.whole, data.path, data.alias, data.past, numbers, late))
        if sender is None or (message.topic in state.routing.joined and not late):
            self.out.deliver(message)
        if sender is not None:
            entry.tell(sender, self._talks.number(sender), (*data.path, *data.alias))

    def _told_by(self, sender: int, ids: Shared) -> None:
        """Note that `sender` knows these names."""
        log = self.state.log
        names = log.find(ids) or next(iter(log.find_foreign(ids)), None)
        if names is not None:
            has: Shared = names.ids
            known = [at for at, number in ids.items() if has.get(at) == number]
            talk = self._talks.number(sender)
            if len(known) == len(has):
                names.tell_all(sender, talk)
            else:
                names.tell(sender, talk, known)

    def _agreed(self, targets: tuple[int, ...], upstream: int | None, data: Data) -> tuple[int, ...]:
        """Add nodes that relays before this one numbered the message for, though this node would not.

        They left while the message was on its way, or joined and this node has not heard of it yet. (`State._late` is
        for names that come later.) Without membership changes all relays have the same targets.
        """
        around = self.around
        named = {receiver_of(at) for at in (*data.path, *data.alias)}.difference(targets)
        more = [to for to in around.numbered if to in named and around.first_step(to) != upstream]
        return (*targets, *more)

    def _is_of_our_time(self, sender: int, data: Data) -> bool:
        """Did all relays before this node know of a member here when they forwarded the message?

        If not, it was published before that member had joined, and may come after messages that depend on it. It is
        then processed, since others may wait for its numbers, but not delivered from here on. A relay's number that is
        only a name, not part of the path, was given late. Where the message came by other relays than those before
        this node, the numbers show which of them processed it earlier.
        """
        state, around = self.state, self.around
        if not state.routing.changes:
            return True
        relays = around.before(data.origin, self.node)[-around.number :]
        numbered = {sender, *map(sender_of, data.path)}.intersection(relays)
        if not numbered or any(link(relay, self.node) not in data.path for relay in numbered):
            return False
        return not state.is_overtaken(data.path)

    def _settle(self) -> None:
        """The end of every input: apply what follows from it, until nothing does."""
        state = self.state
        column = state.column
        state.log.unsettled = state.routing.changes
        while state.changed or column.freed:
            if state.changed:
                self._changes()
            else:
                held = column.freed.pop(0)
                column.release(held)
                self._take(held.sender, held.data)
        if state.routing.joining:
            for topic in state.routing.take_joined():
                state.be(topic, "joined")
                self.out.joined(topic)
        for peer in state.routing.has_news():
            if peer not in self._suspected:
                self._open(peer)
                self._talks.say(peer, interests=state.routing.news(peer))
        if self._talks.received >= self._timing.ack_every:
            self._acknowledge()
        elif self._talks.received or column.moved:
            self._arm("ack", self._timing.ack_us)
        if self._fresh:
            self._arm("look", self._timing.retry_us)

    def _suspicions_changed(self) -> None:
        self._active = self.around.active(self._suspected)
        self._transmit_all()
        self._settle()
