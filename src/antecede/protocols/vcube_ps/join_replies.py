"""Collecting an answer from every node: what a joiner does, and a node that recovers.

A roll call is over when every node that is not suspected has answered. A joiner then knows its floors (`membership`).
It begins when it holds the messages below them that are not stable. It fetches these from the custodians, and if a
custodian lacks them, from one node after the other.

Where stable entries are left out of messages, a joiner also needs the answer of a node that takes the topic, or else of
every node that ever took it (`carrying`). It waits for those that are down.

An answer does not count if its node has gone down since. Perhaps no other node has what that node had delivered, and
with a floor above it the joiner would deliver messages whose past other members never get. So when a node that answered
goes down, a joiner that has not begun asks every node again.
"""

from collections.abc import Callable, Iterable
from typing import Final

from antecede.protocols.vcube_ps.outside import raise_to
from antecede.protocols.vcube_ps.packets import NUMBERS_MAX, Fetch, Fetched, Pull
from antecede.protocols.vcube_ps.state import Group, JoinReplies, State

#: Timer: ask the nodes again that have not answered.
ROLL: Final = "roll"

#: A joiner pulls messages from one node at a time so often, then from all of them.
_PULLS_ONE_BY_ONE: Final = 4


class RollCall:
    """`ask(group, roll, node)` puts the question to one node; `over(group, roll)` is called when all is heard."""

    def __init__(
        self, state: State, ask: Callable[[Group, JoinReplies, int], None], over: Callable[[Group, JoinReplies], None]
    ) -> None:
        self._state = state
        self._ask = ask
        self._over = over

    def begin(self, group: Group, register: int) -> JoinReplies:
        state = self._state
        roll = group.roll = JoinReplies(register, self._state.up())
        # A wave takes its time to go down the tree of all nodes and come back.
        self._arm(group, roll, state.timing.retry_us * max(1, state.dimension // 4))
        return roll

    def ask_again(self, group: Group, roll: JoinReplies) -> None:
        """Ask the nodes that have not answered, one by one; if all have, ask for the messages that are lacking."""
        for node in sorted(roll.waits_for):
            self._ask(group, roll, node)
        if not roll.waits_for:
            self._fetch(group, roll)

    def tick(self, group: Group, register: int) -> None:
        """The timer went off."""
        roll = group.roll
        if roll is None or roll.register != register:
            return
        roll.armed = False
        roll.attempts += 1
        if self._state.timing.goes_on(roll.attempts - min(roll.attempts, roll.heard_at)):
            self.ask_again(group, roll)
            self._arm(group, roll, self._state.timing.pause_us(roll.attempts))

    def answered(self, group: Group, nodes: Iterable[int]) -> None:
        """These have answered, or need not."""
        roll = group.roll
        if roll is not None:
            roll.waits_for.difference_update(nodes)
            roll.attempts = 0
            self._arm(group, roll, self._state.timing.retry_us)
            self.look(group)

    def came(self, group: Group, source: int, seq: int) -> None:
        """A joiner got a message."""
        roll = group.roll
        if roll is not None and (source, seq) in roll.lacking:
            roll.lacking.discard((source, seq))
            if not roll.lacking:
                self.look(group)

    def on_fetched(self, sender: int, packet: Fetched) -> None:
        """A node has sent a joiner what it has of a range: ask for the next, or take down that it has nothing."""
        group = self._state.group(packet.topic)
        roll = group.roll
        if roll is None:
            return
        if packet.upto >= packet.first:
            if any(source == packet.source for source, _ in roll.lacking):
                roll.attempts = 0
            self._fetch(group, roll, packet.source, to=sender)
            return
        without = roll.without.setdefault((packet.source, packet.first), {})
        if sender not in without:
            roll.heard_at = roll.attempts  # not in vain: go on until all have answered
            if group.stream(packet.source).ending:
                roll.attempts = roll.heard_at = 0
        without[sender] = packet.gone
        if self._state.up() <= without.keys() and (any(without.values()) or not self._only_absent(group, packet)):
            self.gone(group, packet.source, max(packet.first, min(filter(None, without.values()), default=0)))

    def gone(self, group: Group, source: int, upto: int) -> None:
        """What a joiner asked for is history."""
        roll = group.roll
        if roll is not None:
            raise_to(roll.gone, ((source, upto),))
            roll.attempts = 0  # the next range is another question
            roll.lacking = {(other, seq) for other, seq in roll.lacking if other != source or seq > upto}
            self.look(group)

    def down(self, group: Group, node: int) -> None:
        """Do not wait for a node that is down, and do not begin from what it answered."""
        roll = group.roll
        if roll is None:
            return
        if not group.joining or node in roll.waits_for:
            self.answered(group, (node,))
            return
        roll.asked += 1
        roll.counts.clear()
        roll.stable.clear()  # else what is below the floors would not be looked for
        roll.without.clear()
        roll.taken = False
        roll.lacking.clear()
        roll.waits_for = self._state.up()
        self._again(group, roll)

    def up(self, group: Group, node: int) -> None:
        """A node is back, or was never away: it must be heard too."""
        roll = group.roll
        if roll is not None:
            roll.waits_for.add(node)
            self._again(group, roll)

    def look(self, group: Group) -> None:
        """If every node has answered and no message is lacking, go on."""
        roll = group.roll
        if roll is None or roll.waits_for or roll.lacking:
            return
        if group.joining:
            if group.order.drops and not roll.taken and self._takers_are_down(group):
                return
            self._deepen(group, roll)
            roll.lacking = self._lacking(group, roll)
            if roll.lacking:
                roll.attempts = 0
                self._fetch(group, roll)
                self._arm(group, roll, self._state.timing.retry_us)
                return
        group.roll = None
        self._over(group, roll)

    def _only_absent(self, group: Group, packet: Fetched) -> bool:
        """May only nodes that are down have the message, though this node has delivered what depends on it?

        What the message depends on must be below the floors, too, and no node that is up can tell. So the join waits. A
        message on which nothing delivered here depends is not waited for.
        """
        known = dict(group.order.known(group.name)).get(packet.source, 0)
        source_may = packet.source in self._state.down and not group.stream(packet.source).ending
        return packet.first <= known and (source_may or self._takers_are_down(group))

    def _takers_are_down(self, group: Group) -> bool:
        """Is a node down that takes the topic or took it once? What it delivered may be in no other node's answer.

        A node that has left the cluster does not come back.
        """
        return not group.view.took().isdisjoint(self._state.down - self._state.vacant)

    def again(self, group: Group) -> None:
        """What a joiner waits for may have been forgotten: ask again, and look."""
        if group.roll is not None:
            self._again(group, group.roll)

    def _again(self, group: Group, roll: JoinReplies) -> None:
        roll.attempts = 0
        self.ask_again(group, roll)
        self._arm(group, roll, self._state.timing.retry_us)
        self.look(group)

    def _arm(self, group: Group, roll: JoinReplies, pause_us: int) -> None:
        if not roll.armed:
            roll.armed = True
            self._state.out.wake_after(pause_us, (ROLL, group.name, roll.register))

    def _deepen(self, group: Group, roll: JoinReplies) -> None:
        """Make sure the floors hold all that came before what they hold.

        They do, as answered. But in a domain of several topics this node may have delivered something that depends on
        a message on this topic of which nobody who answered knew; that one is before its time too, and so is its past.
        """
        raise_to(roll.counts, group.order.known(group.name))
        raise_to(roll.counts, group.past.items())
        for message in group.early.values():
            if message.seq <= roll.counts.get(message.source, 0):
                raise_to(roll.counts, message.deps)

    def _lacking(self, group: Group, roll: JoinReplies) -> set[tuple[int, int]]:
        """What a joiner must hold for others before it begins, and does not.

        Messages beyond what nodes hold in memory are left to the logs of those who delivered them: a member that is
        dead for good would otherwise make joins longer and longer.
        """
        found = set()
        for source, count in roll.counts.items():
            stream = group.stream(source)
            settled = max(roll.stable.get(source, 0), roll.gone.get(source, 0))
            first = max(settled + 1, stream.low, count - self._state.timing.retain + 1)
            if self._state.logged:  # it delivered these in an earlier session: they are in its log
                first = max(first, group.order.reached(group.name, source) + 1)
            for seq in range(first, count + 1):
                if seq not in stream.log and (source, seq) not in group.early:
                    found.add((source, seq))
        return found

    def _fetch(self, group: Group, roll: JoinReplies, only: int | None = None, to: int | None = None) -> None:
        """Ask for what is lacking, of all sources or `only` one: the custodian, later one node after the other.

        Perhaps one node alone has it, which has left the topic. A node that lacks it does not answer a `Pull`. So after
        some tries every node is asked each time: in turn, that one would be asked too seldom where packets get lost.
        """
        state = self._state
        up = sorted(state.up())
        wanted: dict[int, list[int]] = {}
        for source, seq in sorted(roll.lacking):
            if only is None or source == only:
                wanted.setdefault(source, []).append(seq)
        for source, numbers in wanted.items():
            server = state.custodian(group, source) if to is None else to
            ending = group.stream(source).ending
            if ending and to is None:  # perhaps no node has it, since its source was forgotten: ask each
                unasked = [node for node in up if node not in roll.without.get((source, numbers[0]), ())] or up
                server = unasked[roll.attempts % len(unasked)] if unasked else -1
            elif to is None and up and (roll.attempts or server in (-1, state.node)):
                server = up[roll.attempts % len(up)]
            if server in (-1, state.node):
                continue
            if len(numbers) > NUMBERS_MAX or state.logged or ending:
                last = min(numbers[-1], numbers[0] + state.timing.chunk - 1)
                state.out.send(server, Fetch(group.name, source, numbers[0], last))
            else:
                for node in up if roll.attempts >= _PULLS_ONE_BY_ONE else [server]:
                    state.out.send(node, Pull(group.name, source, tuple(numbers)))
