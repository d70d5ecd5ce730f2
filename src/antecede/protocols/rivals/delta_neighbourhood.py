"""Delta-Neighbourhood (Kazemzadeh and Jacobsen 2011): localized, FIFO only, one message in flight. LoCaMu's [5].

A publisher sends its next message only when the last one has reached every member: each node confirms a message to the
one it had it from once all behind it have confirmed it. That is all there is to its order. A source's messages cannot
overtake each other, for there are never two under way; messages of different sources can, and so an answer may arrive
before its question where links reorder. Nothing is held back, so there is no gate here, and nothing is remembered but
what is in one's hands: no clock, no counter for any other node.

Runs are without faults, as in the paper's figures: links lose and repeat nothing, and the redundant links with which
Delta-Neighbourhood goes round a node that is down are not used.

Bytes: 8 for a message's name (who, which), and as many for a confirmation, which is nothing but a name.
"""

from collections import deque

from antecede.core import Message, Packet, Process, ProtocolError, UsageError
from antecede.core.limits import HELD_MESSAGES_MAX
from antecede.protocols.rivals.flooding import GROUP, HEADER, Carry
from antecede.protocols.rivals.routes import Routes

#: Bytes of a message's name.
NAME = 8


class Confirm(Packet, frozen=True, gc=False, tag="rival.confirm"):
    """The message has reached the sender of this and everyone behind it."""

    topic: str
    source: int
    seq: int


class DeltaNeighbourhood(Process):
    """A node that passes on what it gets and says when it has arrived."""

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node)
        self._routes = routes
        self._taken = routes.taken(node)
        self._seq: dict[str, int] = {}
        #: Publications that wait for the one in flight.
        self._queue: deque[tuple[str, bytes]] = deque()
        #: What is in this node's hands: whom it came from, and how many have yet to confirm it.
        self._in_hands: dict[tuple[str, int, int], tuple[int | None, int]] = {}
        self._in_flight = False

    def publish(self, topic: str, payload: bytes) -> Message | None:
        self._routes.check_member(topic, self.node)
        if not self._in_flight:
            return self._send_own(topic, payload)
        if len(self._queue) >= HELD_MESSAGES_MAX:
            raise UsageError(
                "publish", topic, f"{len(self._queue)} messages wait for their turn", "publish less than is confirmed"
            )
        self._queue.append((topic, payload))
        return None

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Carry():
                message = packet.message
                if message.topic not in self._routes.groups:
                    raise ProtocolError(f"node {self.node} got {message.id} from {sender}: there is no such group")
                if message.topic in self._taken:
                    self.out.deliver(message)
                self._pass_on(message, packet, sender)
            case Confirm():
                self._confirmed(packet)
                while self._queue and not self._in_flight:
                    self._send_own(*self._queue.popleft(), waited=True)
            case _:
                raise ProtocolError(
                    f"node {self.node} got a {type(packet).__name__} from {sender}, not one of its protocol"
                )

    def size(self, packet: Packet) -> int:
        return HEADER + GROUP + NAME + sum([len(message.payload) for message in packet.messages])

    def subscribe(self, topic: str) -> None:
        raise UsageError("topic", topic, "groups of this protocol do not change", "name its members at the beginning")

    def unsubscribe(self, topic: str) -> None:
        raise UsageError("topic", topic, "groups of this protocol do not change", "name its members at the beginning")

    def takes(self, topic: str) -> bool:
        return topic in self._taken

    @property
    def held(self) -> int:
        """Publications that wait for their turn; what is received never waits."""
        return len(self._queue)

    @property
    def state_bytes(self) -> int:
        """The names of what is in this node's hands, with whom each came from and how many are to confirm it."""
        return (NAME + 8) * len(self._in_hands)

    def _send_own(self, topic: str, payload: bytes, *, waited: bool = False) -> Message:
        seq = self._seq[topic] = self._seq.get(topic, 0) + 1
        message = Message(topic, self.node, seq, (), payload)
        self._in_flight = True
        if waited:
            self.out.published(message)
        self.out.deliver(message)
        self._pass_on(message, Carry(message), None)
        return message

    def _pass_on(self, message: Message, packet: Carry, came_from: int | None) -> None:
        hops = self._routes.hops(message.topic, self.node, came_from)
        for hop in hops:
            self.out.send(hop, packet)
        name = (message.topic, message.source, message.seq)
        if hops:
            self._in_hands[name] = (came_from, len(hops))
        else:
            self._arrived(name, came_from)

    def _confirmed(self, packet: Confirm) -> None:
        name = (packet.topic, packet.source, packet.seq)
        if name not in self._in_hands:
            raise ProtocolError(f"node {self.node} has nothing called {name} to be confirmed")
        came_from, missing = self._in_hands[name]
        if missing > 1:
            self._in_hands[name] = (came_from, missing - 1)
        else:
            del self._in_hands[name]
            self._arrived(name, came_from)

    def _arrived(self, name: tuple[str, int, int], came_from: int | None) -> None:
        """Everyone from here on has it."""
        if came_from is not None:
            self.out.send(came_from, Confirm(*name))
            return
        self._in_flight = False
