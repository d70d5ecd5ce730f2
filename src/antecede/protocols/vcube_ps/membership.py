"""Joining, leaving, and agreeing on who is there, while nodes crash and packets get lost.

A joiner tells every node and starts from what they answer. SUB goes down the tree of all nodes and comes back up with
the views (thesis Figure 5.5) and with how far each node below has *delivered* each source. The highest answer for each
source is the joiner's floor. It waits for messages above its floors and drops what is not.

* *The floors are a consistent cut.* What one node has delivered, or had before its time, holds with every message all
  that came before it; so does the union over nodes. Joins need not wait for each other.
* *What is above the floors comes.* Nobody who answered had delivered it when he heard of the joiner. So every later
  report of its delivery comes with a view that holds the joiner, and it does not become stable, hence is not forgotten,
  before the joiner has delivered it (`custody`). No tree needs to be right for that.

Nodes that are suspected are not waited for. One that comes back compares views with everybody before it publishes
again; one that was suspected wrongly does so when the suspicion ends. Should it have published meanwhile, all by
itself, what is then gone for the joiner, the joiner is told (`Gone`) and joins anew, visibly: it left, and it joined.

If SUB is lost on the way, or a node dies that should have answered for others, the joiner asks those it has not heard
from one by one. UNS is said once, to everybody: who misses it learns from the next comparison of views.

Views are compared by digest with every acknowledgement; where they differ, entries are exchanged, and both merge them.
"""

from collections.abc import Callable, Iterable
from typing import Final

from antecede.protocols.vcube_ps.packets import Sub, SubAck, Uns, Views
from antecede.protocols.vcube_ps.records import Registered
from antecede.protocols.vcube_ps.state import Gathering, Group, Roll, State

#: Timer: ask again those who have not answered.
ROLL: Final = "roll"


class Membership:
    """The part of a node that comes and goes.

    `moved(group)` is called when a view has changed, `heard_all(group, roll)` when everybody has answered.
    """

    def __init__(self, state: State, moved: Callable[[Group], None], heard_all: Callable[[Group, Roll], None]) -> None:
        self._state = state
        self._moved = moved
        self._heard_all = heard_all

    # -- coming and going ---------------------------------------------------------------------------------------

    def join(self, group: Group, register: int) -> None:
        """Tell everybody, and hear everybody."""
        state = self._state
        group.joining = True
        self.learn(group, ((state.node, register),))
        group.order.enter(group.name)
        self._call(group, register)
        for hop in state.everyone.near[state.dimension]:
            state.out.send(hop, Sub(group.name, state.node, register))

    def resume(self, group: Group) -> None:
        """This node was down: what has changed? Until everybody has said, it publishes nothing on the topic."""
        self._call(group, group.view.register(self._state.node))
        self.ask_again(group)

    def leave(self, group: Group) -> None:
        state = self._state
        register = group.view.register(state.node) + 1
        self.learn(group, ((state.node, register),))
        for hop in state.everyone.near[state.dimension]:
            state.out.send(hop, Uns(group.name, state.node, register))

    def learn(self, group: Group, entries: Iterable[tuple[int, int]]) -> bool:
        """Merge registers into the view. True when there was news."""
        news = False
        for node, register in entries:
            if 0 <= node < self._state.nodes and group.view.learn(node, register):
                self._state.out.keep(Registered(group.name, node, register))
                news = True
        if news:
            self._moved(group)
        return news

    # -- hearing everybody --------------------------------------------------------------------------------------

    def _call(self, group: Group, register: int) -> None:
        state = self._state
        group.roll = Roll(register, set(range(state.nodes)) - state.down - {state.node})
        # The wave takes its time to go down the tree of all nodes and come back.
        state.out.wake_after(state.timing.retry_us * max(1, state.dimension // 4), (ROLL, group.name, register))
        if not group.roll.waits_for:
            self._answered(group, ())

    def ask_again(self, group: Group) -> None:
        """Ask those who have not answered, one by one."""
        roll = group.roll
        if roll is not None:
            for node in sorted(roll.waits_for):
                self._ask(group, roll, node)

    def tick(self, group: Group, register: int) -> None:
        """The timer went off."""
        roll = group.roll
        if roll is None or roll.register != register:
            return
        timing = self._state.timing
        roll.attempts += 1
        if roll.attempts <= timing.attempts_max:
            self.ask_again(group)
            self._state.out.wake_after(timing.pause_us(roll.attempts), (ROLL, group.name, register))

    def _ask(self, group: Group, roll: Roll, node: int) -> None:
        if group.joining:
            self._state.out.send(node, Sub(group.name, self._state.node, roll.register, True))
        else:
            self._state.out.send(node, self._views(group, asks=True))

    def _answered(self, group: Group, nodes: Iterable[int]) -> None:
        roll = group.roll
        if roll is not None:
            roll.waits_for.difference_update(nodes)
            if not roll.waits_for:
                group.roll = None
                self._heard_all(group, roll)

    # -- suspicions ---------------------------------------------------------------------------------------------

    def down(self, group: Group, node: int) -> None:
        """Nobody waits for a node that is down."""
        group.waves.pop(node, None)
        for joiner, (register, gathering) in list(group.waves.items()):
            if node in gathering.waits_for:
                gathering.skipped.add(node)
                self._came_up(group, joiner, register, gathering, node)
        self._answered(group, (node,))

    def up(self, group: Group, node: int) -> None:
        roll = group.roll
        if roll is not None:
            roll.waits_for.add(node)
            self._ask(group, roll, node)
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
            self._answered(group, (sender,))

    # -- SUB and UNS on their way -------------------------------------------------------------------------------

    def on_sub(self, sender: int, packet: Sub) -> None:
        state = self._state
        group = state.group(packet.topic)
        self.learn(group, ((packet.node, packet.register),))
        mine = group.view.register(state.node)
        view = {state.node: mine} if mine else {}
        counts = self._delivered(group)
        if packet.direct:
            known_here = (tuple(view.items()), tuple(counts.items()))
            state.out.send(sender, SubAck(packet.topic, packet.node, packet.register, *known_here, direct=True))
            return
        known = group.waves.get(packet.node)
        if known is not None and known[0] >= packet.register:
            return  # a repetition: whoever misses the answer asks directly
        height = state.height(sender)
        hops = state.everyone.near[height]
        gathering = Gathering(sender, set(hops), view, counts)
        gathering.skipped = {node for node in state.down if (node ^ state.node).bit_length() <= height}
        group.waves[packet.node] = (packet.register, gathering)
        for hop in hops:
            state.out.send(hop, packet)
        self._came_up(group, packet.node, packet.register, gathering, -1)

    def on_sub_ack(self, sender: int, packet: SubAck) -> None:
        group = self._state.group(packet.topic)
        if packet.node == self._state.node:
            roll = group.roll
            if roll is not None and group.joining and roll.register == packet.register:
                _raise_to(roll.counts, packet.counts)
                self.learn(group, packet.view)
                self._answered(group, self._spoken_for(group, sender, packet))
            return
        wave = group.waves.get(packet.node)
        if wave is not None and wave[0] == packet.register:
            register, gathering = wave
            _raise_to(gathering.view, packet.view)
            _raise_to(gathering.counts, packet.counts)
            gathering.skipped.update(packet.skipped)
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
            view, counts = tuple(gathering.view.items()), tuple(gathering.counts.items())
            answer = SubAck(group.name, joiner, register, view, counts, tuple(sorted(gathering.skipped)))
            self._state.out.send(gathering.parent, answer)
            gathering.parent = -1

    def _spoken_for(self, group: Group, sender: int, packet: SubAck) -> set[int]:
        """Whom an answer speaks for: the sender's whole cluster, if it came up the tree."""
        if packet.direct or group.roll is None:
            return {sender}
        cluster = (sender ^ self._state.node).bit_length()
        waits_for = group.roll.waits_for
        return {node for node in waits_for if (node ^ self._state.node).bit_length() == cluster} - set(packet.skipped)

    def _delivered(self, group: Group) -> dict[int, int]:
        """By source: how far this node is. Down-closed: what came before any of it is among it."""
        counts = {}
        for source in group.streams:
            done = group.order.reached(group.name, source)
            if done:
                counts[source] = done
        return counts


def _raise_to(counts: dict[int, int], news: Iterable[tuple[int, int]]) -> None:
    for node, count in news:
        if counts.get(node, 0) < count:
            counts[node] = count
