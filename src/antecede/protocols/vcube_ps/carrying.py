"""Entries of other topics are left out of messages once they are stable, and a node finds out which are.

A message carries, in `across`, entries of other topics that a reader of both must have delivered before it. An entry is
*stable* when every member of its topic has delivered it (`custody`). Rule: a stable entry is left out.

*Why a reader R that takes both topics still gets them in order.* Let V be the custodian's view when the entry became
stable.
* R is in V: R has delivered the entry's message before the entry was left out anywhere.
* R is not in V: no node of V had heard of R when it reported its delivery, as a report counts only with an equal view
  (`custody`). So each node of V that answers R's SUB answers later than that, and R's floor for the source is at least
  the entry. A node that takes the topic and is not in V joined later, and has the entry below its floor by the same
  argument. So one answer suffices, of a node that takes the topic, or else those of all nodes that ever took it: the
  last of them to leave has delivered the entry. A joiner waits for that (`join_replies`), beside the nodes that are up.
* R joins the topic after it has heard that the entry is stable: then its floor is at least the entry
  (`DomainFrontier.behind`).

The custodian of a stream announces to the members what has become stable, together with that of other streams. A node
that carries entries of a topic it does not take asks a member of it after a pause, or the source if no member is up. It
asks again as long as entries are left, ever less often, and gives up after `Timing.attempts_max` pauses without news
(`Timing.slow_us`).
"""

from typing import Final

from antecede.overlay.members import nodes_of
from antecede.protocols.vcube_ps.packets import Carried, Levels
from antecede.protocols.vcube_ps.state import Group, State

#: Timer: ask which of the entries carried are stable.
CARRY: Final = "carry"

#: A message is stable long before something would be sent again: ask after this part of the usual pause.
_SOONER: Final = 8


class Carrying:
    """The part of a node that finds out which entries of topics it does not take are stable."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._armed = False
        self._attempts = 0

    def watch(self) -> None:
        """Entries of other topics have come: before long, ask which of them are stable."""
        self._attempts = 0
        if not self._armed:
            self._arm()

    def tick(self) -> None:
        """The timer went off."""
        self._armed = False
        asked = False
        for group in self._state.named():
            entries = () if group.takes or group.joining else group.order.carried(group.name)
            if entries:
                asked = True
                self._ask(group, entries)
        if asked:
            self._attempts += 1
            if self._state.timing.goes_on(self._attempts):
                self._arm()

    def on_carried(self, sender: int, packet: Carried) -> None:
        streams = self._state.group(packet.topic).streams
        levels = [(source, streams[source].stable) for source, _ in packet.entries if source in streams]
        known = tuple([level for level in levels if level[1]])
        if known:
            self._state.out.send(sender, Levels(packet.topic, known))

    def on_levels(self, sender: int, packet: Levels) -> None:
        order = self._state.group(packet.topic).order
        for source, stable in packet.stable:
            order.stable(packet.topic, source, stable)

    def _ask(self, group: Group, entries: tuple[tuple[int, int], ...]) -> None:
        state = self._state
        members = nodes_of(group.view.present & ~(1 << state.node))
        if members:
            state.out.send(members[(state.node + self._attempts) % len(members)], Carried(group.name, entries))
            return
        for entry in entries:
            if entry[0] != state.node and entry[0] not in state.down:
                state.out.send(entry[0], Carried(group.name, (entry,)))

    def _arm(self) -> None:
        self._armed = True
        pause_us = self._state.timing.pause_us(self._attempts) // _SOONER
        self._state.out.wake_after(pause_us, (CARRY,))
