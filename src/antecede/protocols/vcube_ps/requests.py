"""A receiver asks for messages that others it holds depend on, if they do not come by themselves.

A receiver knows that a message is missing; the custodian of the stream assumes it (`custody`). So receivers ask sooner
than custodians send.
"""

from collections.abc import Callable
from typing import Final

from antecede.core.process import Missing
from antecede.protocols.vcube_ps.catching_up import CatchingUp
from antecede.protocols.vcube_ps.packets import NUMBERS_MAX, Pull
from antecede.protocols.vcube_ps.state import Group, State

#: Timer: ask for what is missing.
REQUEST: Final = "request"

#: After this part of a custodian's pause.
_SOONER: Final = 4


class Requests:
    """The part of a node that asks for missing messages. `overdue()` is told before it asks."""

    def __init__(self, state: State, catching_up: CatchingUp, overdue: Callable[[], None]) -> None:
        self._state = state
        self._catching_up = catching_up
        self._overdue = overdue
        self._seeking = False
        self._sought = 0
        self._lacked: set[tuple[str, int]] = set()
        # By topic and source: the nodes that were asked for missing messages since the gap appeared.
        self._asked: dict[tuple[str, int], set[int]] = {}

    def watch(self) -> None:
        """A message is held: if it still is after a pause, ask for the messages it waits for."""
        self._sought = 0
        if not self._seeking:
            self._lacked = set(self._missing())
            self._seek_later()

    def _seek_later(self) -> None:
        if self._state.timing.goes_on(self._sought):
            self._seeking = True
            pause_us = self._state.timing.pause_us(self._sought) // _SOONER
            self._state.out.wake_after(pause_us, (REQUEST,))

    def tick(self) -> None:
        """The timer has expired: ask for the messages that were missing at the last pause and still are."""
        self._seeking = False
        missing = self._missing()
        for (topic, source), numbers in missing.items():
            if (topic, source) in self._lacked:
                self._overdue()
                self._ask(self._state.group(topic), source, numbers)
        self._lacked = set(missing)
        self._asked = {key: asked for key, asked in self._asked.items() if key in missing}
        if missing:
            self._sought += 1
            self._seek_later()

    def _missing(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        held = {key for key, order in self._state.orders.items() if order.held}
        for group in self._state.groups.values() if held else ():
            if group.takes and id(group.order) in held:
                held.discard(id(group.order))
                for (topic, source), awaited in group.order.missing(group.name).items():
                    other = self._state.group(topic)
                    if not other.takes:
                        continue  # it is joining, and what it lacks then is the matter of `join_replies`
                    stream = other.stream(source)
                    numbers = stream.lacking(awaited, NUMBERS_MAX + 1) if stream.fetching is None else []
                    if numbers:
                        found[topic, source] = numbers
        return found

    def missing(self) -> list[Missing]:
        """What this node waits for and has asked for in vain."""
        return [
            Missing(topic, source, numbers[0], numbers[-1], tuple(sorted(self._asked[topic, source])), self._sought)
            for (topic, source), numbers in self._missing().items()
            if (topic, source) in self._asked
        ]

    def _ask(self, group: Group, source: int, numbers: list[int]) -> None:
        """Ask the custodian; if that does not help, one node after the other. Fetch in bulk what is much.

        Members come first. A node that left may be the only one that has it: it delivered it while it was a member.
        """
        state = self._state
        asked = self._asked.setdefault((group.name, source), set())
        to = state.custodian(group, source)
        if self._sought % 2 or to in (-1, state.node):
            up = state.up()
            members = [node for node in state.others(group) if node in up]
            others = members + sorted(up.difference(members))
            if not others:
                return
            to = others[self._sought // 2 % len(others)]
        asked.add(to)
        if len(numbers) > NUMBERS_MAX:
            self._catching_up.begin(group, group.stream(source), numbers[-1], to)
        else:
            state.out.send(to, Pull(group.name, source, tuple(numbers)))
