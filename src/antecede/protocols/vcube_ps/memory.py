"""The bounds on messages that a node holds in memory: those it may have to send again, and those it cannot deliver yet.

Both bounds are in `Timing`. With a log, messages beyond them are read from there, at this node or another one
(`catching_up`). Without one, a member that lacks them joins anew.
"""

from antecede.core import Message
from antecede.protocols.vcube_ps import outside
from antecede.protocols.vcube_ps.state import Group, State
from antecede.protocols.vcube_ps.streams import Stream


def refuses(state: State, group: Group, stream: Stream, message: Message) -> bool:
    """Is there no room to hold a message that is not deliverable yet?"""
    timing = state.timing
    if message.seq <= stream.got or message.seq in stream.log:
        return False
    if message.seq - stream.got > timing.retain:
        return True
    return group.order.held_bytes >= timing.held_bytes_max and not group.order.deliverable(message)


def trim(state: State, group: Group, stream: Stream) -> None:
    """Keep what is in memory of a stream within its bounds."""
    timing = state.timing
    if len(stream.log) <= timing.retain and stream.log_bytes <= timing.retain_bytes:
        return
    if state.logged:
        own = stream.source == state.node
        done = outside.delivered(state, group) if own else group.order.reached(group.name, stream.source)
        stream.trim(done, timing.retain, timing.retain_bytes)
    elif len(stream.log) > timing.retain:
        stream.forget(stream.got - timing.retain)  # where members are that far behind, they join anew
