"""Publishing on a topic without taking it: the publisher is the root of its tree and no member of it.

Such a publisher stamps its messages, keeps them, sends them down the tree of the members, and retransmits them like any
source (`custody`). It delivers none of them. Five rules differ from those for members:

* *It must know where to send.* While it knows no member that is up, it asks every node that is up for its view before
  it publishes. Where it knows some members, their acknowledgements tell it of the others.
* *Its messages are stable once every member has delivered them, and at least one has.* A node that takes the topic
  cannot be counted while the publisher has not heard of it. A joiner that has not heard the publisher has heard a
  member, whose answer then holds all that the member had delivered when it reported (`membership`).
* *Its log lacks them.* The driver's log has what was delivered. So these messages stay in memory and among the kept
  records until a member says that it has delivered them, above its floor: then they are in its log. When
  `Timing.retain` of them have gathered, because members are absent or no node takes the topic, the publisher waits.
* *They are in no cut.* A joiner's floor holds what nodes have delivered, with all that came before. A publisher that
  has not delivered its own messages tells a joiner only of those that a member has delivered, and of what they depend
  on (`told`). The others are owed to the joiner.
* *A publisher that joins has them behind it.* They are at its floor. So is what they depend on, or the publisher would
  deliver it after messages that depend on its own (`Group.past`).
"""

from collections.abc import Iterable

from antecede.core import Message
from antecede.protocols.vcube_ps.records import Secured
from antecede.protocols.vcube_ps.state import Group, State


def raise_to(counts: dict[int, int], news: Iterable[tuple[int, int]]) -> None:
    """Keep the higher of what is known and what is said, for each node."""
    for node, count in news:
        if counts.get(node, 0) < count:
            counts[node] = count


def published(group: Group, message: Message) -> None:
    """This node, which does not take the topic, has published `message`."""
    raise_to(group.past, message.deps)
    group.undelivered.append(message.seq)


def entered(group: Group) -> None:
    """This node takes the topic from here on: what it published before is at its floor, with all that came before."""
    group.inside = group.seq
    group.past.clear()


def knows_members(state: State, group: Group) -> bool:
    """Is a member known that is up, or have all nodes that are up been asked?"""
    return group.asked or bool(group.view.present & ~(1 << state.node))


def must_ask(state: State, group: Group) -> bool:
    """Does this node publish without taking the topic, and know no member?"""
    publishes = not group.takes and bool(group.queue or group.undelivered)
    return publishes and group.roll is None and not knows_members(state, group)


def room(state: State, group: Group) -> int:
    """How many messages more may gather that only this node has."""
    return state.timing.retain - len(group.undelivered)


def told(state: State, group: Group) -> Iterable[tuple[int, int]]:
    """How far a joiner is told that this node is with its own messages, and with what these depend on."""
    if group.takes:
        return [(state.node, group.order.reached(group.name, state.node))]
    if group.secured <= group.inside:
        return [(state.node, group.inside)]
    return [(state.node, group.secured), *group.past.items()]


def secured(state: State, group: Group, upto: int) -> None:
    """Another node has delivered this node's messages up to `upto`, or every member has them behind it."""
    undelivered = group.undelivered
    if undelivered and undelivered[0] <= upto:
        while undelivered and undelivered[0] <= upto:
            group.secured = undelivered.popleft()
        state.out.keep(Secured(group.name, group.secured))


def delivered(state: State, group: Group) -> int:
    """Up to which number some node has delivered this node's own messages. They may leave its memory."""
    undelivered = group.undelivered
    return undelivered[0] - 1 if undelivered else group.order.reached(group.name, state.node)
