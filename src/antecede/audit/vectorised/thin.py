"""Leaves out edges that others imply, where a trace has very many: one whose publish rows record no dependencies.

What came before a message, of one publisher, is always a beginning of what that publisher published, since each of
its publications came before the next. So a past is one number a publisher, and whether an edge is implied is one
comparison. Looking at the latest candidates first, all that is implied is seen to be when nothing was delivered out of
order; otherwise a few edges too many stay, which do no harm.
"""

from typing import Final

import numpy as np

from antecede.audit.vectorised.columns import Ints
from antecede.audit.vectorised.ledger import Ledger

#: The table of pasts may have so many entries (4 bytes each); a larger run keeps its edges and takes longer.
_ENTRIES_MAX: Final = 1 << 28


def thin(ledger: Ledger, src: Ints, dst: Ints, scope: Ints) -> tuple[Ints, Ints]:
    """Fewer edges with the same paths. All edges lead to later publications; `scope`: by message."""
    published = ledger.published
    chain = np.unique(np.stack([ledger.first.node, scope[:published]]), axis=1, return_inverse=True)[1].reshape(-1)
    chains = int(chain.max()) + 1 if published else 0
    if published * chains > _ENTRIES_MAX:
        return src, dst
    place = _places(chain)
    past = np.zeros((published, chains), np.int32)
    order = np.lexsort((-ledger.published_at[src], dst))
    src, dst = src[order], dst[order]
    starts = np.searchsorted(dst, np.arange(published + 1))
    kept = np.zeros(len(src), bool)
    kept[src >= published] = True  # never published: nothing leads there, so nothing implies it
    for message in range(published):
        begin, end = starts[message], starts[message + 1]
        mine = past[message]
        before = np.arange(begin, end)[src[begin:end] < published]
        while len(before):
            candidates = src[before]
            before = before[mine[chain[candidates]] < place[candidates]]
            if not len(before):
                break
            edge, before = before[0], before[1:]
            kept[edge] = True
            nearest = src[edge]
            np.maximum(mine, past[nearest], out=mine)
            mine[chain[nearest]] = max(mine[chain[nearest]], place[nearest])
    return src[kept], dst[kept]


def _places(chain: Ints) -> Ints:
    """By message: how manieth of its chain it is, from 1. Messages are numbered as they were published."""
    order = np.argsort(chain, kind="stable")
    begins = np.flatnonzero(np.diff(chain[order], prepend=-1))
    lengths = np.diff(np.append(begins, len(chain)))
    place = np.empty(len(chain), np.int64)
    place[order] = np.arange(len(chain)) - np.repeat(begins, lengths) + 1
    return place
