"""Errors that publishing without taking could have made, one at a time. Each patches the protocol while a run lasts."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from antecede.core import Message
from antecede.core.clocks import DomainFrontier
from antecede.protocols.vcube_ps import membership, outside
from antecede.protocols.vcube_ps.carrying import Carrying
from antecede.protocols.vcube_ps.join_replies import RollCall
from antecede.protocols.vcube_ps.packets import Carried, Levels
from antecede.protocols.vcube_ps.state import Group, State


def _reached(state: State, group: Group) -> int:
    return group.order.reached(group.name, state.node)


@contextmanager
def tells_all_it_published() -> Iterator[None]:
    """A joiner is told of messages that no node has delivered, and not of what they depend on."""

    def told(state: State, group: Group) -> Iterable[tuple[int, int]]:
        return [(state.node, _reached(state, group))]

    with patch.object(membership, "told", told):
        yield


@contextmanager
def forgets_what_its_own_depend_on() -> Iterator[None]:
    """A publisher that joins has its own messages at its floor, and what they depend on above it: a floor too low."""

    def published(group: Group, message: object) -> None:
        del message
        group.undelivered.append(group.seq)

    with patch.object(outside, "published", published):
        yield


@contextmanager
def lets_go_too_early() -> Iterator[None]:
    """A publisher counts its own messages as delivered, though it takes nothing, and drops them from memory."""
    with patch.object(outside, "delivered", _reached):
        yield


@contextmanager
def drops_what_it_has_delivered() -> Iterator[None]:
    """An entry is left out as soon as this node has delivered it, stable or not."""

    observe = DomainFrontier.observe

    def drop(self: DomainFrontier, message: Message, *known: Any) -> None:
        observe(self, message, *known)
        self.stable(message.topic, message.source, message.seq)

    with patch.object(DomainFrontier, "observe", drop):
        yield


@contextmanager
def counts_members_that_are_up() -> Iterator[None]:
    """A message counts as stable when the members that are up have delivered it."""
    others = State.others

    def up(self: State, group: Group) -> list[int]:
        return [node for node in others(self, group) if node not in self.down]

    with patch.object(State, "others", up):
        yield


@contextmanager
def joins_without_a_member() -> Iterator[None]:
    """A joiner begins though no node that answered takes the topic, and one that took it is down: a floor too low."""
    with patch.object(RollCall, "_takers_are_down", lambda self, group: False):
        yield


@contextmanager
def takes_one_delivery_for_all() -> Iterator[None]:
    """A node that carries an entry is told that it is stable by any member that has delivered it."""

    def on_carried(self: Carrying, sender: int, packet: Carried) -> None:
        group = self._state.group(packet.topic)
        counts = [(source, group.order.reached(packet.topic, source)) for source, _ in packet.entries]
        levels = tuple([count for count in counts if count[1]])
        self._state.out.send(sender, Levels(packet.topic, levels))

    with patch.object(Carrying, "on_carried", on_carried):
        yield
