"""Errors that forgetting a node could have made, one at a time. Each patches the protocol while a run lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from antecede.core.clocks import DomainFrontier
from antecede.protocols.vcube_ps.closing import Closing
from antecede.protocols.vcube_ps.state import Group
from antecede.protocols.vcube_ps.streams import Stream
from antecede.sim.engine import Simulation


@contextmanager
def reuses_a_slot_without_epoch() -> Iterator[None]:
    """The next owner of a number begins with 1 again."""
    replace = Simulation.replace

    def without(self: Simulation, node: int, kept: list[object]) -> None:
        replace(self, node, [])

    with patch.object(Simulation, "replace", without):
        yield


@contextmanager
def closes_nothing() -> Iterator[None]:
    """A node that is forgotten leaves, and its streams stay open."""

    def look(self: Closing, group: Group, stream: Stream) -> None:
        """Agree on nothing."""

    with patch.object(Closing, "_look", look):
        yield


@contextmanager
def does_not_wait_for_the_absent() -> Iterator[None]:
    """A stream is closed though a node that is down may have delivered more of it."""
    others = Closing._others

    def up(self: Closing, group: Group) -> list[int]:
        return [node for node in others(self, group) if node not in self._state.down]

    with patch.object(Closing, "_others", up):
        yield


@contextmanager
def trusts_its_own_messages() -> Iterator[None]:
    """Messages on other topics do not carry what a message covers that no other node has."""

    def carried(self: DomainFrontier, topic: str) -> dict[int, int]:
        return self._ahead.get(topic, {})

    with patch.object(DomainFrontier, "_carried", carried):
        yield
