"""Errors that publishing without taking could have made, one at a time. Each patches the protocol while a run lasts."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from antecede.protocols.vcube_ps import membership, outside
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
