"""Finds the cycles of a graph, and numbers its strongly connected components so that edges lead upwards.

Only broken traces have cycles. This is Tarjan's algorithm without recursion.
"""

import numpy as np

from antecede.audit.vectorised.columns import Ints


def points_of(count: int, src: Ints, dst: Ints) -> Ints:
    """By vertex: the number of its strongly connected component, in topological order."""
    order = np.argsort(src, kind="stable")
    heads = dst[order].tolist()
    starts = np.searchsorted(src[order], np.arange(count + 1)).tolist()
    index = [-1] * count
    low = [0] * count
    component = [-1] * count
    stack: list[int] = []
    visited = found = 0
    for root in range(count):
        if index[root] >= 0:
            continue
        path = [(root, starts[root])]
        index[root] = low[root] = visited
        visited += 1
        stack.append(root)
        while path:
            here, edge = path.pop()
            if edge < starts[here + 1]:
                path.append((here, edge + 1))
                there = heads[edge]
                if index[there] < 0:
                    index[there] = low[there] = visited
                    visited += 1
                    stack.append(there)
                    path.append((there, starts[there]))
                elif component[there] < 0:
                    low[here] = min(low[here], index[there])
                continue
            if low[here] == index[here]:
                while True:
                    member = stack.pop()
                    component[member] = found
                    if member == here:
                        break
                found += 1
            if path:
                above = path[-1][0]
                low[above] = min(low[above], low[here])
    # Tarjan's algorithm finishes a component after all components that it leads to.
    return found - 1 - np.array(component, np.int64)
