"""Delta-Neighbourhood (Kazemzadeh and Jacobsen 2011): localized, FIFO only, one message in flight. LoCaMu's [5].

A publisher sends its next message when the last one has reached every member. Each node confirms a message to the node
it came from once all nodes behind it have confirmed it. A source's messages cannot overtake each other, since only one
is in flight. Messages of different sources can, so an answer may arrive before its question where links reorder. No
message is held back, so there is no gate; a node remembers only the messages it has yet to confirm.

Runs are without faults, as in the paper's figures: links lose and repeat nothing, and the redundant links by which
Delta-Neighbourhood bypasses a failed node are not used.

Bytes: 8 for a message's name (source, number), also in a confirmation.
"""

from antecede.core import Message, Packet, ProtocolError
from antecede.protocols.flooding.one_at_a_time import OneAtATime
from antecede.protocols.flooding.process import Carry
from antecede.protocols.flooding.routes import Routes

#: Bytes of a message's name.
NAME = 8


class Confirm(Packet, frozen=True, gc=False, tag="rival.confirm"):
    """The message has reached the sender and all nodes behind it."""

    topic: str
    source: int
    seq: int


class DeltaNeighbourhood(OneAtATime):
    """A node that forwards what it receives, and confirms it when all nodes behind it have."""

    def __init__(self, node: int, routes: Routes) -> None:
        super().__init__(node, routes)
        #: Messages to be confirmed: the node each came from, and how many have yet to confirm it.
        self._in_hands: dict[tuple[str, int, int], tuple[int | None, int]] = {}

    def receive(self, sender: int, packet: Packet) -> None:
        match packet:
            case Carry():
                message = packet.message
                self._check_group(sender, message)
                if message.topic in self._taken:
                    self.out.deliver(message)
                self._pass_on(message, packet, sender)
            case Confirm():
                self._confirmed(packet)
                self._send_waiting()
            case _:
                self._refuse(sender, packet)

    def metadata(self, packet: Packet) -> int:
        return NAME

    @property
    def state_bytes(self) -> int:
        """The names of messages to be confirmed, with the node each came from and how many have yet to confirm it."""
        return (NAME + 8) * len(self._in_hands)

    def _send(self, message: Message) -> None:
        self._pass_on(message, Carry(message), None)

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
        """Every node from here on has it: confirm it, or start the next publication."""
        if came_from is not None:
            self.out.send(came_from, Confirm(*name))
            return
        self._in_flight = False
