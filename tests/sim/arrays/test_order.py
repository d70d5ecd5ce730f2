"""Order as a maximum beside the frontier and the gate, over arrivals in any order whatever."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from antecede.core import Message
from antecede.protocols.vcube_ps import TopicOrder
from antecede.sim.arrays.flow import NEVER, Stamped
from antecede.sim.arrays.order import Order

#: By message and node: the event in which it is delivered; and by message: what it depends on.
Outcome = tuple[list[list[int]], list[set[int]]]


def happen(nodes: int, choices: Sequence[int], prune: bool) -> tuple[list[Stamped], NDArray[np.int32], Outcome]:
    """Nodes publish, and messages come to the others, as `choices` say; at the end, all do. What gates make of it."""
    orders = [TopicOrder(node, prune=prune) for node in range(nodes)]
    stamped: list[Stamped] = []
    messages: list[Message] = []
    under_way: list[tuple[int, int]] = []
    came = np.full((len(choices), nodes), NEVER, np.int32)
    delivered: list[list[int]] = []
    for event, choice in enumerate([*choices, *[0] * (len(choices) * nodes)], 1):
        # So many things can happen: a node publishes, unless this is the end, or something under way arrives.
        publishes = event <= len(choices) and choice % (nodes + len(under_way)) < nodes
        if not publishes and not under_way:
            break
        if publishes:
            node = choice % (nodes + len(under_way))
            seq = 1 + sum(message.source == node for message in messages)
            under_way += [(len(messages), other) for other in range(nodes) if other != node]
            came[len(messages), node] = event
            delivered.append([event if other == node else 0 for other in range(nodes)])
            stamped.append(Stamped(node, seq, event, event, event))
            messages.append(orders[node].stamp("all", seq, b""))
        else:
            number, node = under_way.pop(choice % len(under_way))
            came[number, node] = event
            for message in orders[node].offer(messages[number]):
                delivered[messages.index(message)][node] = event
    numbers = {(message.source, message.seq): number for number, message in enumerate(messages)}
    dependencies = [{numbers[named] for named in message.deps} for message in messages]
    return stamped, came[: len(messages)], (delivered, dependencies)


def ordered(order: Order) -> Outcome:
    return order.delivered.tolist(), [set(dependencies.tolist()) for dependencies in order.dependencies]


@settings(deadline=None)
@given(st.integers(1, 5), st.lists(st.integers(0, 999), min_size=1, max_size=40), st.booleans())
def test_the_same_barriers_and_deliveries(nodes: int, choices: list[int], prune: bool) -> None:
    stamped, came, expected = happen(nodes, choices, prune)
    assert ordered(Order(stamped, came, prune=prune)) == expected


class _AsItComes(Order):
    def _wait(self, number: int, needs: Sequence[int]) -> None:
        """For nothing."""


class _WaitsForDependenciesOnly(Order):
    def _wait(self, number: int, needs: Sequence[int]) -> None:
        super()._wait(number, [need for need in needs if self._source[need] != self._source[number]])


@pytest.mark.parametrize("broken", [_AsItComes, _WaitsForDependenciesOnly])
def test_broken(broken: type[Order]) -> None:
    """The second message of node 0 comes to node 1 before the first."""
    stamped, came, expected = happen(2, [0, 0, 3], True)
    assert ordered(Order(stamped, came, prune=True)) == expected == ([[1, 4], [2, 4]], [set(), set()])
    assert ordered(broken(stamped, came, prune=True)) != expected
