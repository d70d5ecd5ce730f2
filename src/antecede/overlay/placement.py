"""Chooses the physical node for each slot of the cube so that trees get shorter (thesis 6.2.1, future work there).

VCube's trees use only edges of the hypercube. In the tree of root r, node i forwards to i ⊕ 2^c exactly when r ≡ i
modulo 2^(c+1) (`overlay.vcube`). That holds for N / 2^(c+1) roots, and 2^c nodes are then reached through that edge.
The product does not depend on c. So over all roots and receivers every edge is used equally often, and the mean latency
from a publisher to a subscriber is

    (N · log₂N) / (2 (N − 1))  ×  the mean latency of the cube's edges.

To shorten all trees is therefore to assign nodes to slots so that the cube's edges are short: a quadratic assignment
problem in which a swap costs O(log N) to evaluate. First a recursive bisection puts halves that are close together into
halves of the cube. Then each slot makes its best swap with another, sweep after sweep, until no swap helps.

With fewer nodes than slots the last slots stay empty, their edges do not count, and the mean above is an approximation;
`mean_path_latency` walks the real trees.
"""

from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np

from antecede.core.errors import UsageError
from antecede.core.limits import CUBE_DIMENSION_MAX
from antecede.overlay.vcube import VCube

Latencies: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"
_Slots: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

#: A swap must gain this share of the total, so that rounding errors cannot make the search cycle.
_LEAST_GAIN = 1e-9


def place(latencies: Sequence[Sequence[float]], sweeps_max: int = 1000) -> list[int]:
    """The physical node for each slot. Deterministic. `latencies[a][b]` may differ from `latencies[b][a]`."""
    both_ways = _checked(latencies)
    both_ways = both_ways + both_ways.T
    order = np.array(_bisected(list(range(len(both_ways))), both_ways), np.int64)
    return [int(node) for node in _swapped(order, both_ways, sweeps_max)]


def mean_edge_latency(latencies: Sequence[Sequence[float]], placement: Sequence[int]) -> float:
    """The mean latency of the cube's edges between occupied slots."""
    matrix, order = _checked(latencies), np.array(placement)
    total, count = 0.0, 0
    for neighbours, here in _dimensions(len(order)):
        total += float(matrix[order[here], order[neighbours]].sum())
        count += len(here)
    return total / max(1, count)


def mean_path_latency(
    latencies: Sequence[Sequence[float]], placement: Sequence[int], members: Collection[int]
) -> float:
    """The mean latency from a member to another, over the trees of all members. Members are physical nodes."""
    matrix, order = _checked(latencies), list(placement)
    slots = [at for at, node in enumerate(order) if node in members]
    cube = VCube(len(order), absent=set(range(len(order))) - set(slots))
    total = 0.0
    for root in slots:
        reached = {root: 0.0}
        for node, children in cube.tree(root).items():
            for child in children:
                reached[child] = reached[node] + float(matrix[order[node], order[child]])
        total += sum(reached.values())
    return total / max(1, len(slots) * (len(slots) - 1))


# -- the search -------------------------------------------------------------------------------------------------------


def _bisected(nodes: list[int], matrix: Latencies) -> list[int]:
    """`nodes` ordered so that neighbours in the list, and so in the low dimensions, are close."""
    if len(nodes) <= 2:
        return nodes
    half = 1 << (len(nodes) - 1).bit_length() - 1
    inner = matrix[np.ix_(nodes, nodes)]
    one, other = (int(index) for index in np.unravel_index(int(inner.argmax()), inner.shape))
    nearer = np.argsort(inner[one] - inner[other], kind="stable")
    first, second = [nodes[index] for index in nearer[:half]], [nodes[index] for index in nearer[half:]]
    return _bisected(first, matrix) + _bisected(second, matrix)


def _swapped(order: _Slots, matrix: Latencies, sweeps_max: int) -> _Slots:
    """Make each slot's best swap, sweep after sweep, until a sweep changes nothing.

    `cost[n, p]` is the latency of the edges of slot p if node n were there.
    """
    count = len(order)
    cost = _costs(order, matrix)
    neighbours = [
        np.array([at ^ (1 << bit) for bit in range((count - 1).bit_length()) if at ^ (1 << bit) < count], np.int64)
        for at in range(count)
    ]
    everyone = np.arange(count)
    least = _LEAST_GAIN * float(cost[order, everyone].sum())
    for _ in range(sweeps_max):
        better = False
        for a in range(count):
            here = order[a]
            change = cost[here] + cost[order, a] - cost[here, a] - cost[order, everyone]
            # Two neighbours that swap keep the edge between them, which `cost` counts as of length 0.
            change[neighbours[a]] += 2 * matrix[here, order[neighbours[a]]]
            b = int(change.argmin())
            if change[b] < -least:
                better = True
                gain = matrix[:, order[b]] - matrix[:, here]
                cost[:, neighbours[a]] += gain[:, None]
                cost[:, neighbours[b]] -= gain[:, None]
                order[a], order[b] = order[b], here
        if not better:
            break
    return order


def _costs(order: _Slots, matrix: Latencies) -> Latencies:
    cost = np.zeros_like(matrix)
    for neighbours, here in _dimensions(len(order)):
        cost[:, here] += matrix[:, order[neighbours]]
    return cost


def _dimensions(count: int) -> list[tuple[_Slots, _Slots]]:
    """For each dimension: the slots across it and the slots they are across from, where both are occupied."""
    everyone = np.arange(count)
    found = []
    for bit in range((count - 1).bit_length()):
        across = everyone ^ (1 << bit)
        taken = across < count
        found.append((across[taken], everyone[taken]))
    return found


def _checked(latencies: Sequence[Sequence[float]]) -> Latencies:
    matrix: Latencies = np.asarray(latencies, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not 1 <= len(matrix) <= 1 << CUBE_DIMENSION_MAX:
        shape = " × ".join(map(str, matrix.shape))
        raise UsageError("latencies", shape, "is not a square matrix", "give a row and a column for each node")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise UsageError("latencies", "matrix", "holds a negative or infinite time", "every time must be 0 or more")
    return matrix
