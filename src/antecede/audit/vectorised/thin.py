"""Leaves out edges that others imply, for traces with very many edges: their publish rows record no dependencies.

Each publication of a publisher came before its next one. So the past of a message has, of each publisher, a prefix of
its publications: one number per publisher, and one comparison tells whether an edge is implied. The latest candidates
are looked at first; then every implied edge is found if nothing was delivered out of order. Otherwise a few edges too
many stay, which does no harm.
"""

from typing import Final

import numpy as np

from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.ledger import Ledger

#: The largest table of pasts, in entries of 4 bytes; a larger run keeps its edges and takes longer.
_ENTRIES_MAX: Final = 1 << 28


def thin(ledger: Ledger, src: Ints, dst: Ints, scope: Ints) -> tuple[Ints, Ints]:
    """Leave out edges without changing the paths. All edges must lead to later publications. `scope`: by message."""
    published = ledger.published
    chain = np.unique(np.stack([ledger.first.node, scope[:published]]), axis=1, return_inverse=True)[1].reshape(-1)
    chains = int(chain.max()) + 1 if published else 0
    if published * chains > _ENTRIES_MAX:
        return src, dst
    index = _indices(chain)
    past = np.zeros((published, chains), np.int32)
    order = np.lexsort((-ledger.published_at[src], dst))
    src, dst = src[order], dst[order]
    starts = np.searchsorted(dst, np.arange(published + 1))
    kept = np.zeros(len(src), bool)
    kept[src >= published] = True  # never published: no edge leads to it, so no path implies this edge
    for message in range(published):
        begin, end = starts[message], starts[message + 1]
        mine = past[message]
        before = np.arange(begin, end)[src[begin:end] < published]
        while len(before):
            candidates = src[before]
            before = before[mine[chain[candidates]] < index[candidates]]
            if not len(before):
                break
            edge, before = before[0], before[1:]
            kept[edge] = True
            nearest = src[edge]
            np.maximum(mine, past[nearest], out=mine)
            mine[chain[nearest]] = max(mine[chain[nearest]], index[nearest])
    return src[kept], dst[kept]


def _indices(chain: Ints) -> Ints:
    """By message: its index in its chain, from 1. Messages are numbered as they were published."""
    order = np.argsort(chain, kind="stable")
    begins = np.flatnonzero(np.diff(chain[order], prepend=-1))
    lengths = np.diff(np.append(begins, len(chain)))
    index = np.empty(len(chain), np.int64)
    index[order] = np.arange(len(chain)) - np.repeat(begins, lengths) + 1
    return index
