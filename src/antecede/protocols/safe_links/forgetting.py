"""A node that forgets a message once every link into it has brought a copy (Nédelec et al. 2018b; thesis 3.3.4).

`SafeLinks` remembers every message it has seen, to recognise copies. But a node forwards each message once on each of
its links, back to where it came from, too. So the receiver knows how many copies come: one for each link into it. It
keeps a register for a message from the first copy to the last, of the links whose copy has yet to come. Its memory
grows with the links and the messages under way, not with the nodes.

A new link from q to p must not bring p a message that p has forgotten. So p must know which copies to expect from it:

    q → p   Open      p begins to remember, for this link, every message that it delivers from now on
    p ⇢ q   Behind    what p delivered before that has reached q; from now on q buffers what it delivers
    q ⇢ p   Ahead     what q delivered before that has reached p, and does not come over the new link
    p ⇢ q   Done      what p delivered before that has reached q, and is in q's buffer if it comes over the new link
    q → p   …, End    the buffer over the new link, and its end: p awaits no other message from before `Ahead`

A dashed arrow is a path of links that are in use, so that it carries the packet behind the messages before it. Here it
is the ring, which is never dropped. A link that is dropped carries a `Close` last: p awaits nothing more from it.

The thesis's summary says that the paper has such control messages, not which: the steps above are ours.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from antecede.core import Message, Packet
from antecede.core.message import Seq, Source, TopicMessageId
from antecede.core.rng import Rng
from antecede.protocols.fifo_links import Linked
from antecede.protocols.safe_links.process import Changes, Flood, SafeLinks

#: Bytes of a node's name.
NODE = 2

Step = Literal["behind", "ahead", "done"]


class Open(Linked, frozen=True, gc=False, tag="safe.open"):
    """The sender wants a link to the receiver."""

    question: Seq


class Along(Linked, frozen=True, gc=False, tag="safe.along"):
    """A step of opening a link from `opener`, on its way along the ring to the node `to`."""

    to: Source
    step: Step
    opener: Source
    peer: Source
    question: Seq


class End(Linked, frozen=True, gc=False, tag="safe.end"):
    """The buffer of a new link ends here."""


class Close(Linked, frozen=True, gc=False, tag="safe.close"):
    """The link carries nothing more."""


class _Opening:
    """A link into this node that is being opened: the messages delivered since `Open`, until `Ahead` comes."""

    def __init__(self) -> None:
        self.before: set[TopicMessageId] = set()
        self.ahead = False


class ForgettingLinks(SafeLinks):
    """A node that remembers the messages under way only."""

    forwards_back = True

    def __init__(
        self,
        node: int,
        topics: frozenset[str],
        rng: Rng,
        links: Sequence[int],
        changes: Changes,
        incoming: Iterable[int],
        nodes: int,
    ) -> None:
        """`incoming`: those of the `nodes` that have a link to this one."""
        super().__init__(node, topics, rng, links, changes)
        self._nodes = nodes
        self._incoming = set(incoming)
        #: By message under way: the links whose copy has yet to come.
        self._awaited: dict[TopicMessageId, set[int]] = {}
        self._openings: dict[int, _Opening] = {}
        #: The nodes to which this node opens a link, by question.
        self._asked: dict[int, int] = {}

    def unfinished(self) -> list[str]:
        waits = [f"opens a link to {peer}" for peer in self._asked.values()]
        waits += [f"waits for the link from {peer}" for peer in self._openings]
        return waits + [f"remembers {len(self._awaited)} messages"] * bool(self._awaited)

    def size(self, packet: Packet) -> int:
        return super().size(packet) + (3 * NODE if isinstance(packet, Along) else 0)

    # -- copies --------------------------------------------------------------------------------------------------------

    def _is_new(self, message: Message, sender: int | None) -> bool:
        awaited = self._awaited.get(message.id)
        if awaited is not None and sender is not None:
            awaited.discard(sender)
            if not awaited:
                del self._awaited[message.id]
            return False
        awaited = {link for link in self._incoming | self._openings.keys() if link != sender}
        if awaited:
            self._awaited[message.id] = awaited
        for opening in self._openings.values():
            if not opening.ahead:
                opening.before.add(message.id)
        return True

    def _await_no_more(self, link: int, names: Iterable[TopicMessageId]) -> None:
        for name in names:
            awaited = self._awaited.get(name)
            if awaited is not None:
                awaited.discard(link)
                if not awaited:
                    del self._awaited[name]

    # -- links that change ---------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Drop a link, and begin to open one to a node drawn at random."""
        if len(self._links) > self._ring:
            dropped = self._links.pop(self._ring + self._rng.randrange(len(self._links) - self._ring))
            self.out.send(dropped, Close(self._fifo.next(dropped)))
        others = sorted(set(range(self._nodes)) - {self.node, *self._links, *self._asked.values()})
        if others:
            peer = self._rng.choice(others)
            self._questions += 1
            self._asked[self._questions] = peer
            self.out.send(peer, Open(self._fifo.next(peer), self._questions))

    def _take(self, sender: int, packet: Linked) -> None:
        match packet:
            case Open():
                self._openings[sender] = _Opening()
                self._send_along(self.node, Along(1, sender, "behind", sender, self.node, packet.question))
            case Along() if packet.to != self.node:
                self._send_along(self.node, packet)
            case Along():
                self._step(packet)
            case End():
                opening = self._openings.pop(sender)
                self._await_no_more(sender, sorted(opening.before))
                self._incoming.add(sender)
            case Close():
                self._incoming.discard(sender)
                self._await_no_more(sender, list(self._awaited))
            case Flood():
                super()._take(sender, packet)
            case _:
                self._refuse(sender, packet)

    def _step(self, packet: Along) -> None:
        match packet.step:
            case "behind":
                self._buffers[packet.question] = []
                self._send_along(self.node, Along(1, packet.peer, "ahead", self.node, packet.peer, packet.question))
            case "ahead":
                self._openings[packet.opener].ahead = True
                self._send_along(self.node, Along(1, packet.opener, "done", packet.opener, self.node, packet.question))
            case "done":
                del self._asked[packet.question]
                self._answered(packet.peer, packet.question)
                self.out.send(packet.peer, End(self._fifo.next(packet.peer)))

    def _send_along(self, at: int, packet: Along) -> None:
        """Send it one hop along the ring, the shorter way."""
        clockwise = (packet.to - at) % self._nodes
        hop = (at + (1 if 2 * clockwise <= self._nodes else -1)) % self._nodes
        number = self._fifo.next(hop)
        self.out.send(hop, Along(number, packet.to, packet.step, packet.opener, packet.peer, packet.question))
