"""Finds a linear extension of a dependency graph: an order in which every message follows what it depends on.

There are many; this one depends on the graph alone: of the messages that may come next, the one with the lowest number.
Messages in a cycle cannot all follow what they depend on. They are drawn together as one point
(`audit.vectorised.scc`), stand side by side by number, after everything the cycle depends on, and are reported.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.scc import points_of


class Extension(NamedTuple):
    #: By message: its position in the order, from 0 on.
    position: Ints
    #: By message: the number of its cycle, from 1 on in the order of cycles; 0 if it is in none.
    circle: Ints


def extend(count: int, src: Ints, dst: Ints) -> Extension:
    """Order the messages 0 to `count` − 1, with `src[i]` before `dst[i]`."""
    order = _in_order(count, src, dst)
    circle = np.zeros(count, np.int64)
    if len(order) < count:
        order, circle = _around_circles(count, src, dst)
    position = np.empty(count, np.int64)
    position[order] = np.arange(count)
    return Extension(position, circle)


def _in_order(count: int, src: Ints, dst: Ints) -> Ints:
    """Order all messages that can be ordered: fewer than `count` if there are cycles."""
    by_source = np.argsort(src, kind="stable")
    heads = dst[by_source].tolist()
    starts = [0, *np.cumsum(np.bincount(src, minlength=count)).tolist()]
    missing = np.bincount(dst, minlength=count)
    free = np.flatnonzero(missing == 0).tolist()
    heapify(free)
    left = missing.tolist()
    order: list[int] = []
    while free:
        here = heappop(free)
        order.append(here)
        for head in heads[starts[here] : starts[here + 1]]:
            left[head] -= 1
            if not left[head]:
                heappush(free, head)
    return np.array(order, np.int64)


def _around_circles(count: int, src: Ints, dst: Ints) -> tuple[Ints, Ints]:
    """Order all messages, with each cycle drawn together to one point at the index of its first member."""
    point = points_of(count, src, dst)
    # Number points by their first member, so that their order does not depend on how they were found.
    _, first_member = np.unique(point, return_index=True)
    in_turn = np.argsort(first_member)
    renumbered = np.empty(len(in_turn), np.int64)
    renumbered[in_turn] = np.arange(len(in_turn))
    point = renumbered[point]
    between = point[src] != point[dst]
    points = _in_order(len(in_turn), point[src[between]], point[dst[between]])
    index_of_point = np.empty(len(points), np.int64)
    index_of_point[points] = np.arange(len(points))
    order = np.lexsort((np.arange(count), index_of_point[point]))
    in_circle = np.bincount(point, minlength=len(points)) > 1
    in_circle[point[src[src == dst]]] = True  # a message that depends on itself
    numbers = np.zeros(len(points), np.int64)
    numbers[points[in_circle[points]]] = np.arange(1, int(in_circle.sum()) + 1)
    return order, numbers[point]
