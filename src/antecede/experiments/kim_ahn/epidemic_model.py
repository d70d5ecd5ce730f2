"""How gossip spreads, by calculation: the chain of lpbcast's analysis, which Kim & Ahn refer to ([4], section 3).

One of n processes has a message. In each round every process that has it sends it to F others, drawn from all. A packet
is lost with probability ε, and its target is down with probability τ. So a given process informs another one with
probability p = F/(n−1)·(1−ε)·(1−τ), and a process stays without the message with probability (1−p)^i when i have it.
The size of views plays no part: as long as they are random samples, a draw from one is a draw from all.

This is no experiment: `figures_7_10` and `reliability` show its results beside theirs.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

#: By number of processes that have the message: its probability.
Distribution: TypeAlias = npt.NDArray[Any]


def spread(nodes: int, fanout: int, rounds: int, *, loss: float = 0.05, crash: float = 0.01) -> list[Distribution]:
    """The distribution at the beginning and after each round."""
    told = min(1.0, fanout / max(1, nodes - 1)) * (1 - loss) * (1 - crash)
    step = _step(nodes, told)
    now = np.zeros(nodes + 1)
    now[1] = 1.0
    found = [now]
    for _ in range(rounds):
        now = now @ step
        found.append(now)
    return found


def mean_reached(distribution: Distribution) -> float:
    return float(distribution @ np.arange(len(distribution)))


def all_reached(distribution: Distribution) -> float:
    """The probability that all have the message."""
    return float(distribution[-1])


def rounds_to_all(nodes: int, fanout: int, *, loss: float = 0.05, crash: float = 0.01) -> float:
    """Mean rounds until all have the message: the sum over r of P(not all after r)."""
    rounds, total, unsure = 64, 0.0, 1.0
    while unsure > 1e-9:
        missing = [1 - all_reached(one) for one in spread(nodes, fanout, rounds, loss=loss, crash=crash)]
        total, unsure = sum(missing), missing[-1]
        rounds *= 2
    return total


def _step(nodes: int, told: float) -> npt.NDArray[Any]:
    """P(j have it after a round | i had it before): binomial, the number of the n − i others that are informed."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, nodes + 1)))])
    step = np.zeros((nodes + 1, nodes + 1))
    step[0, 0] = 1.0
    for have in range(1, nodes + 1):
        others = nodes - have
        new = np.arange(others + 1)
        hit = 1 - (1 - told) ** have
        if hit >= 1.0:
            step[have, nodes] = 1.0
            continue
        choices = logs[others] - logs[new] - logs[others - new]
        step[have, have + new] = np.exp(choices + new * np.log(hit) + (others - new) * np.log1p(-hit))
    return step
