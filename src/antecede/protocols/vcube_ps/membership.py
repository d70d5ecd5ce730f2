"""Joining, leaving, and agreeing on the members, while nodes crash and packets get lost.

A joiner tells every node and starts from their answers. SUB goes down the tree of all nodes. It comes back up with the
views (thesis Figure 5.5), and with how far each node below has *delivered* each source. The highest answer for each
source is the joiner's *floor*: the joiner delivers messages above its floors and drops the others.

* *The floors are a consistent cut.* If a node has delivered a message, or the message predates its join, the same holds
  for every message before it; so it does for the union over nodes. Joins need not wait for each other.
* *Messages above the floors arrive.* No node that answered had delivered them when it heard of the joiner. So every
  later report of their delivery comes with a view that has the joiner. They do not become stable, hence are not
  forgotten, before the joiner has delivered them (`custody`). No tree needs to be right for that.
* *Messages below the floors are not lost to other members.* A joiner first fetches those that are not stable. It does
  not deliver them. But it delivers messages that depend on them, and a node that delivers a message must be able to
  give its past to members that still wait for it, even if every other node that had it is gone.

Suspected nodes are not waited for. A node that recovers compares views with every node before it publishes again; a
node that was suspected wrongly does so when the suspicion ends. Should it have published meanwhile, on its own,
messages that are gone for the joiner, the joiner is told (`Gone`) and joins anew, visibly: it left, and it joined.

If SUB is lost, or a node dies that should have answered for others, the joiner asks the nodes it has not heard from one
by one (`join_replies`). UNS is sent once, to every node: a node that misses it learns from the next comparison of
views.

Views are compared by digest with every acknowledgement. Where they differ, the nodes exchange entries and merge them.
"""

from collections.abc import Callable, Iterable

from antecede.protocols.vcube_ps.join_replies import RollCall
from antecede.protocols.vcube_ps.outside import raise_to, told
from antecede.protocols.vcube_ps.packets import Sub, SubAck, Uns, Views
from antecede.protocols.vcube_ps.records import Registered
from antecede.protocols.vcube_ps.state import Gathering, Group, JoinReplies, State
from antecede.protocols.vcube_ps.view import register_epoch


class Membership:
    """The part of a node that joins and leaves topics.

    `moved(group)` is called when a view has changed, `heard_all(group, roll)` when every node has answered, and
    `forget(node, epoch)` when another node knows that the owner of a number is gone (`closing`).
    """

    def __init__(
        self,
        state: State,
        moved: Callable[[Group], None],
        heard_all: Callable[[Group, JoinReplies], None],
        forget: Callable[[int, int], None],
    ) -> None:
        self._state = state
        self._moved = moved
        self._forget = forget
        self.roll_call = RollCall(state, self._ask, heard_all)

    # -- coming and going ---------------------------------------------------------------------------------------

    def join(self, group: Group, register: int) -> None:
        """Tell every node, and wait for its answer."""
        state = self._state
        group.joining = True
        self.learn(group, ((state.node, register),))
        group.order.enter(group.name)
        self.roll_call.begin(group, register)
        for hop in state.everyone.near[state.dimension]:
            state.out.send(hop, Sub(group.name, state.node, register))
        self.roll_call.look(group)  # a node that is alone has no answers to wait for

    def resume(self, group: Group) -> None:
        """This node was down. It publishes nothing on the topic until every node has told it what has changed."""
        roll = self.roll_call.begin(group, group.view.register(self._state.node))
        self.roll_call.ask_again(group, roll)
        self.roll_call.look(group)

    def leave(self, group: Group) -> None:
        state = self._state
        register = group.view.register(state.node) + 1
        self.learn(group, ((state.node, register),))
        for hop in state.everyone.near[state.dimension]:
            state.out.send(hop, Uns(group.name, state.node, register))

    def learn(self, group: Group, entries: Iterable[tuple[int, int]]) -> bool:
        """Merge registers into the view. True when there was news."""
        state, news = self._state, False
        for node, register in entries:
            epoch = register_epoch(register)
            if not 0 <= node < state.nodes or (node == state.node and epoch > state.epochs.get(node, 0)):
                continue  # of no node; or this one was forgotten, and its driver stops it
            if group.view.learn(node, register):
                state.out.keep(Registered(group.name, node, register))
                news = True
                if epoch > state.epochs.get(node, 0):
                    self._forget(node, epoch)
        if news:
            self._moved(group)
        return news

    def _ask(self, group: Group, roll: JoinReplies, node: int) -> None:
        """The question of a roll call, to one node."""
        if group.joining:
            self._state.out.send(node, Sub(group.name, self._state.node, roll.register, roll.asked + 1))
        else:
            self._state.out.send(node, self._views(group, asks=True))

    # -- suspicions ---------------------------------------------------------------------------------------------

    def down(self, group: Group, node: int) -> None:
        """Do not wait for a node that is down."""
        group.waves.pop(node, None)
        for joiner, (register, gathering) in list(group.waves.items()):
            if node in gathering.waits_for:
                gathering.skipped.update(self._cluster(node))
                self._came_up(group, joiner, register, gathering, node)
        self.roll_call.down(group, node)

    def up(self, group: Group, node: int) -> None:
        if group.roll is not None:
            self.roll_call.up(group, node)
        elif group.takes:
            self.compare(group, node)

    # -- views --------------------------------------------------------------------------------------------------

    def compare(self, group: Group, peer: int) -> None:
        """Views differ, or may: say what is known here."""
        self._state.out.send(peer, self._views(group))

    def _views(self, group: Group, *, asks: bool = False) -> Views:
        return Views(group.name, group.view.digest, group.view.moved(), asks)

    def on_views(self, sender: int, packet: Views) -> None:
        group = self._state.group(packet.topic)
        self.learn(group, packet.entries)
        if packet.asks or group.view.digest != packet.digest:
            self.compare(group, sender)
        if not packet.asks and not group.joining:
            self.roll_call.answered(group, (sender,))

    # -- SUB and UNS on their way -------------------------------------------------------------------------------

    def on_sub(self, sender: int, packet: Sub) -> None:
        state = self._state
        group = state.group(packet.topic)
        self.learn(group, ((packet.node, packet.register),))
        if packet.asked:
            gathering = Gathering(sender, set())
            self._add_mine(group, gathering, packet.register)
            self._send_up(group, packet.node, packet.register, gathering, packet.asked)
            return
        known = group.waves.get(packet.node)
        if known is not None and known[0] >= packet.register:
            return  # a repetition: a joiner that misses the answer asks directly
        height = state.height(sender)
        hops = state.everyone.near[height]
        gathering = Gathering(sender, set(hops))
        self._add_mine(group, gathering, packet.register)
        gathering.skipped = {node for node in state.down if (node ^ state.node).bit_length() <= height}
        group.waves[packet.node] = (packet.register, gathering)
        for hop in hops:
            state.out.send(hop, packet)
        self._came_up(group, packet.node, packet.register, gathering, -1)

    def on_sub_ack(self, sender: int, packet: SubAck) -> None:
        group = self._state.group(packet.topic)
        if packet.node == self._state.node:
            roll = group.roll
            if roll is not None and group.joining and roll.expects(packet.register, packet.asked):
                speakers = self._spoken_for(sender, packet)
                if speakers & self._state.down:
                    return  # late, and maybe of things that are gone with the speaker; the others are asked one by one
                raise_to(roll.counts, packet.counts)
                raise_to(roll.stable, packet.stable)
                roll.seams.update({(source, epoch): last for source, epoch, last in packet.seams})
                roll.taken |= packet.taken
                self.learn(group, packet.view)
                self.roll_call.answered(group, speakers)
            return
        wave = group.waves.get(packet.node)
        if wave is not None and wave[0] == packet.register:
            register, gathering = wave
            raise_to(gathering.view, packet.view)
            raise_to(gathering.counts, packet.counts)
            raise_to(gathering.stable, packet.stable)
            gathering.seams.update({(source, epoch): last for source, epoch, last in packet.seams})
            gathering.skipped.update(packet.skipped)
            gathering.taken |= packet.taken
            self._came_up(group, packet.node, register, gathering, sender)

    def on_uns(self, sender: int, packet: Uns) -> None:
        group = self._state.group(packet.topic)
        for hop in self._state.everyone.near[self._state.height(sender)]:
            self._state.out.send(hop, packet)
        self.learn(group, ((packet.node, packet.register),))

    def _came_up(self, group: Group, joiner: int, register: int, gathering: Gathering, child: int) -> None:
        """`child` has answered; when all have, so does this node."""
        gathering.waits_for.discard(child)
        if not gathering.waits_for and gathering.parent >= 0:
            self._send_up(group, joiner, register, gathering)
            gathering.parent = -1

    def _send_up(self, group: Group, joiner: int, register: int, gathering: Gathering, asked: int = 0) -> None:
        answer = SubAck(
            group.name,
            joiner,
            register,
            tuple(gathering.view.items()),
            tuple(gathering.counts.items()),
            tuple(gathering.stable.items()),
            tuple(sorted(gathering.skipped)),
            asked,
            gathering.taken,
            tuple([(source, epoch, last) for (source, epoch), last in gathering.seams.items()]),
        )
        self._state.out.send(gathering.parent, answer)

    def _spoken_for(self, sender: int, packet: SubAck) -> set[int]:
        """The nodes that an answer speaks for: the sender's whole cluster, if it came up the tree."""
        return {sender} if packet.asked else self._cluster(sender) - set(packet.skipped)

    def _cluster(self, node: int) -> set[int]:
        """The cluster of this node that `node` is in."""
        first = self._state.node ^ (1 << ((node ^ self._state.node).bit_length() - 1))
        size = 1 << ((node ^ self._state.node).bit_length() - 1)
        return {first ^ k for k in range(size) if first ^ k < self._state.nodes}

    def _add_mine(self, group: Group, gathering: Gathering, joiner: int) -> None:
        """What this node itself has to say: its register, and by source how far it is. `joiner`: whose register asks.

        The latter is down-closed: what came before any of it is among it.
        """
        gathering.taken = group.takes
        register = group.view.register(self._state.node)
        if register:
            gathering.view[self._state.node] = register
        if register_epoch(joiner) and group.order.drops:
            # The new owner of a number must know of members that are down, to wait for them (`carrying`).
            raise_to(gathering.view, group.view.moved())
        for source, stream in group.streams.items():
            own = source == self._state.node
            done = told(self._state, group) if own else ((source, group.order.reached(group.name, source)),)
            raise_to(gathering.counts, done)
            if source in gathering.counts and stream.stable:
                gathering.stable[source] = stream.stable
            gathering.seams.update({(source, epoch): last for epoch, last in stream.seams.items()})
