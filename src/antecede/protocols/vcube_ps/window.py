"""A publisher's window: how many of its messages may be under way, and which members it waits for.

The window is full when `window` messages have not arrived at all members that are up and keep up. A member that is
*behind* (`streams.Stream.sort_out`) is not waited for: it fetches by itself (`catching_up`). Two bounds hold for those
that publish, where `Timing.patience_us` is set:

* A member that takes longer than that for the messages of a full window is behind from then on.
* While members are behind, publishers slow down so that these catch up, and stop for no longer than that: in every
  period of `patience_us` they may publish a quarter of a window, and one message for every two that the slowest of
  those members receives.
"""

from collections.abc import Callable
from typing import Final

from antecede.protocols.vcube_ps import outside
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.streams import Stream

#: Timers: how long members may hold a full window up; and how long a period of slower publishing is.
HOLD_UP: Final = "hold-up"
PACE: Final = "pace"


class Window:
    """The windows of one node, one a topic.

    `settle(group, stream)` looks at all members again, `freed(group)` is told that the window may have room.
    """

    def __init__(self, state: State, settle: Callable[[Group, Stream], None], freed: Callable[[Group], None]) -> None:
        self._state = state
        self._settle = settle
        self._freed = freed

    def room(self, group: Group) -> int:
        """How many messages may be published now."""
        if group.joining or group.roll is not None:
            return 0
        window = more = self._state.window
        if not group.takes:
            if not outside.knows_members(self._state, group):
                return 0
            more = outside.room(self._state, group)
        own = group.streams.get(self._state.node)
        if own is None:
            return min(window, more)
        if own.ending:
            return 0
        if own.behind and own.pace is None and self._state.timing.patience_us:
            self._begin_period(group, own)
        return min(window - (group.seq - own.arrived), own.paced(group.seq, window), more)

    def closed(self, group: Group) -> None:
        """Something waits for room: members that do not make any in time hold the window up no longer."""
        if not self._state.timing.patience_us or group.joining or group.roll is not None:
            return
        stream = group.stream(self._state.node)
        if not stream.holding_up:
            stream.holding_up = True
            self._state.out.wake_after(self._state.timing.patience_us, (HOLD_UP, group.name, group.seq))

    def end_hold_up(self, group: Group, seq: int) -> None:
        """The timer went off: members that still lack what was published when the window closed are behind."""
        state, stream = self._state, group.stream(self._state.node)
        stream.holding_up = False
        late = {
            node
            for node in state.others(group)
            if node not in state.down and (position := stream.positions.get(node)) is not None and position.got < seq
        }
        if late - stream.behind:
            stream.behind |= late
            self._settle(group, stream)

    def set_pace(self, group: Group) -> None:
        """The timer went off: a period is over, and another begins if members are still behind."""
        self._begin_period(group, group.stream(self._state.node))
        self._freed(group)

    def _begin_period(self, group: Group, stream: Stream) -> None:
        state = self._state
        reached = {
            node: stream.positions[node].got
            for node in stream.behind
            if node in stream.positions and node not in state.down and node in group.view
        }
        stream.pace = (group.seq, reached) if reached else None
        if reached:
            state.out.wake_after(state.timing.patience_us, (PACE, group.name))

    def handed_over(self, group: Group) -> bool:
        """Has what this node published arrived at members that pass it on? Those behind get it from them."""
        own = group.streams.get(self._state.node)
        if own is None:
            return True
        up = {node for node in self._state.others(group) if node not in self._state.down}
        return own.arrived >= group.seq and (not up or bool(up - own.behind))
