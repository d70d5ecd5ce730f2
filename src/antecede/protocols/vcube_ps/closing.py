"""Closing the streams of a node that was forgotten, so that its number can have another owner.

An operator says that a node X is gone for good (`Process.forget`). Nodes that are up may have received different parts
of its messages. All members must deliver the same ones before the next owner of the number publishes. Three steps, for
each topic:

    end      A node that learns of the new epoch takes no more messages of the former ones, and drops those that it has
             received and not delivered. So how far it has delivered X is final, and survives a crash of it.
    agree    The custodian of the stream asks every node for that. The highest answer is the *last* message; a floor is
             none, since perhaps no node has the messages below it. A member that has delivered less, and whose floor is
             lower, takes messages up to the last (`Ended`), and fetches them from those that have them.
    close    When all members have delivered the last message, the custodian says so (`Ended.closed`). From then on all
             numbers of the former epochs count as delivered, and what depended on a message that no node had is free.

*Why all nodes agree on the last message.* A node reports how far it has delivered only with the custodian's own view
(`custody`), which has the new epoch: so it has ended the stream before. Until it knows the last message it delivers
nothing more of the stream. So the answers do not change, whichever node asks, however often; nor does their maximum.
The custodian waits for every node but those that were forgotten, too, and numbers that no node has. A node that is down
may have delivered a message that no other node has: then the stream stays open until that node is back or forgotten.

*If another node Y is forgotten meanwhile*, perhaps Y alone had delivered the last message, and the maximum is lower
without Y. So a node that learns of Y's new epoch ends the open streams of other nodes again: it drops what it received
and did not deliver, and waits for the last message anew. `Ended` counts only with the receiver's own view, which has
the epochs of both. A stream that was closed stays so: every member had delivered its last message.

*Why the next owner cannot be misunderstood.* Its numbers are above those of all former epochs (`core.epochs`). It is
the custodian of its own stream, and publishes on a topic once the former epochs are closed there. A member delivers its
first message when it has closed them, too: the message before it in the stream is the last number of the former epoch.

The new epoch travels with the views, as the register of the number (`view`). So a node that nobody told learns it from
any acknowledgement or comparison of views. What X had acknowledged is dropped: stability waits for it no more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from antecede.core import Message
from antecede.core.epochs import epoch_base, epoch_of
from antecede.overlay.members import nodes_of
from antecede.protocols.vcube_ps.catching_up import CatchingUp
from antecede.protocols.vcube_ps.custody import Custody
from antecede.protocols.vcube_ps.packets import Ended, Have, Probe
from antecede.protocols.vcube_ps.records import Closed
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.streams import Stream


@dataclass(eq=False)
class Closing:
    """The part of a node that ends, agrees on and closes streams of former epochs.

    `differs(group, peer)` is told when views do, `freed(group)` that this node may publish; `deliver` is given messages
    that became deliverable.
    """

    _state: State
    _custody: Custody
    _catching_up: CatchingUp
    _differs: Callable[[Group, int], None]
    _deliver: Callable[[Sequence[Message]], None]
    _freed: Callable[[Group], None]

    def __post_init__(self) -> None:
        self._custody.pursue = self.pursue

    def end(self, group: Group, node: int, epoch: int) -> None:
        """`node` was forgotten: end its stream, and count nothing that it acknowledged."""
        for stream in group.streams.values():
            stream.positions.pop(node, None)
            stream.heard.discard(node)
            stream.behind.discard(node)
            if stream.ending:
                stream.end(group.order.reached(group.name, stream.source))
                self._ended_here(group, stream)
        stream = group.stream(node)
        if stream.begin_epoch(epoch, group.order.reached(group.name, node)):
            self._ended_here(group, stream)

    def _ended_here(self, group: Group, stream: Stream) -> None:
        """Hold no message of the stream, and tell its custodian."""
        group.order.drop(group.name, stream.source)
        early = {name: one for name, one in group.early.items() if name[0] != stream.source}
        self._state.early -= len(group.early) - len(early)
        group.early = early
        self._moved(group, stream)

    # -- the custodian ------------------------------------------------------------------------------------------

    def on_have(self, sender: int, packet: Have) -> None:
        """A node says how far it is with a stream. Behind the seams, that is for its custodian."""
        group = self._state.group(packet.topic)
        stream = group.streams.get(packet.source)
        if stream is None or not stream.epoch:
            self._custody.on_have(sender, packet)
            return
        agrees = packet.digest == group.view.digest
        seam = next((epoch for epoch in sorted(stream.seams) if packet.done < epoch_base(epoch)), None)
        if seam is None and not stream.ending and packet.done < epoch_base(stream.epoch):
            seam = stream.epoch  # this node joined behind it; whichever message was the last, every member has it
        if seam is not None:
            last = stream.seams.get(seam, 0)
            self._state.out.send(sender, self._ended(group, stream, seam, last, closed=True))
        elif not stream.ending:
            self._custody.on_have(sender, packet)
            return
        elif packet.done >= epoch_base(stream.epoch):
            self._custody.report(group, stream, sender)  # the sender has closed it: its answer says how
        elif self._state.looks_after(group, stream.source):
            if agrees:
                self._note(sender, group, stream, packet)
            self._custody.look_later(group, stream)
        if not agrees:
            self._differs(group, sender)

    def _note(self, sender: int, group: Group, stream: Stream, packet: Have) -> None:
        if (packet.done, packet.got) != stream.ends.get(sender):
            stream.attempts = 0
        stream.ends[sender] = packet.done, packet.got
        self._look(group, stream)

    def pursue(self, group: Group, stream: Stream) -> None:
        """The timer went off: ask nodes that have not answered, and tell members how far they must come."""
        state = self._state
        for node in self._others(group):
            if node in state.down:
                continue
            if node not in stream.ends:
                state.out.send(node, Probe(group.name, stream.source))
            elif node in group.view and stream.ends[node][0] < stream.last:
                state.out.send(node, self._ended(group, stream, stream.epoch, stream.last))
        self._look(group, stream)

    def _others(self, group: Group) -> list[int]:
        """The nodes whose answer counts: all but those without an owner."""
        state = self._state
        took = group.view.took()
        without = state.vacant | {node for node in state.epochs if node in state.down and node not in took}
        return [node for node in nodes_of(state.everyone.members & ~(1 << state.node)) if node not in without]

    def _look(self, group: Group, stream: Stream) -> None:
        """If every node has answered, the last message is known; if all members have it, the stream is closed."""
        others = self._others(group)
        if any(node not in stream.ends for node in others) or group.joining:
            return
        done = group.order.reached(group.name, stream.source)
        last = max([stream.delivered(done), *[stream.ends[node][1] for node in others]])
        behind = [node for node in self._state.others(group) if node in stream.ends and stream.ends[node][0] < last]
        if stream.last != last:
            stream.last = last
            for node in behind:
                self._state.out.send(node, self._ended(group, stream, stream.epoch, last))
        if group.takes and done < last:
            self._admit(group, stream, last)
        elif not behind:
            told = [node for node in others if node not in self._state.down]
            epoch = stream.epoch
            self._close(group, stream, epoch, last)
            for node in told:
                self._state.out.send(node, self._ended(group, stream, epoch, last, closed=True))

    def _ended(self, group: Group, stream: Stream, epoch: int, last: int, *, closed: bool = False) -> Ended:
        return Ended(group.name, stream.source, epoch, last, closed, group.view.digest)

    # -- every node ---------------------------------------------------------------------------------------------

    def on_ended(self, sender: int, packet: Ended) -> None:
        group = self._state.group(packet.topic)
        stream = group.stream(packet.source)
        if packet.epoch > stream.epoch or stream.got >= epoch_base(packet.epoch) or group.joining:
            return  # not learned yet, or closed before
        done = group.order.reached(packet.topic, packet.source)
        if packet.closed and (done >= packet.last or not group.takes):
            # A sender that joined behind the seam in an earlier version does not know the last message: it says 0.
            self._close(group, stream, packet.epoch, max(packet.last, stream.delivered(done)))
        elif not packet.closed and packet.digest != group.view.digest:
            self._differs(group, sender)
        elif group.takes and done < packet.last:
            self._admit(group, stream, packet.last)
        else:
            self._moved(group, stream)  # the custodian takes this node for slower than it is

    def joined_behind(self, group: Group, seams: Mapping[tuple[int, int], int]) -> None:
        """This node joined: note where the streams ended that were closed before its floors.

        `seams`: by source and epoch, the last message before the epoch, as the members say. The node never delivers
        these messages, but a reader who asks for the past must be told of them.
        """
        for (source, epoch), last in seams.items():
            stream = group.stream(source)
            if stream.got >= epoch_base(epoch) and epoch not in stream.seams:
                stream.seams[epoch] = last
                self._state.out.keep(Closed(group.name, source, epoch, last))

    def _moved(self, group: Group, stream: Stream) -> None:
        """The stream ended or was closed here: tell its custodian, or go on publishing."""
        self._custody.owes(group, stream)
        self._freed(group)

    def _admit(self, group: Group, stream: Stream, last: int) -> None:
        """Take messages up to the last one, and fetch them."""
        stream.last = stream.limit = last
        self._catching_up.begin(group, stream, last)

    def _close(self, group: Group, stream: Stream, epoch: int, last: int) -> None:
        base = epoch_base(epoch)
        self._state.out.keep(Closed(group.name, stream.source, epoch, last))
        close(self._state, group, stream, epoch, last)
        self._deliver(group.order.close(group.name, stream.source, base))
        group.order.stable(group.name, stream.source, base)
        self._moved(group, stream)


def close(state: State, group: Group, stream: Stream, epoch: int, last: int) -> None:
    """Go on behind the seam."""
    stream.close(epoch, last)
    number_from(state, group)


def number_from(state: State, group: Group) -> None:
    """This node's numbers begin behind the seam, once its number's former epochs are closed."""
    epoch = state.epochs.get(state.node, 0)
    if epoch_of(group.seq) < epoch and not group.stream(state.node).ending:
        group.seq = group.inside = epoch_base(epoch)
