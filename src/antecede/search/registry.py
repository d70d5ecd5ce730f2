"""Every random search by name."""

from antecede.core import UsageError
from antecede.search import gossip, locamu, logs, plumtree, tno, vcube_ps
from antecede.search.harness import Search

SEARCHES: dict[str, Search] = {
    "gossip": Search(
        "gossip with predecessor lists: overlapping groups, loss, duplication, crashes, subscribers that move, both "
        "versions",
        gossip.search,
    ),
    "locamu": Search(
        "LoCaMu: lines, stars and random trees, f = 1 and 2, crashes, recoveries, false suspicions, joins, lossy links",
        locamu.search,
    ),
    "logs": Search(
        "causal order over logs: lost appends and acknowledgements, copies, slow logs, filters, retention, crashes",
        logs.search,
    ),
    "plumtree": Search(
        "Plumtree over HyParView: small views, joins, leaves, crashes, suspicions, lossy links, with and without order",
        plumtree.search,
    ),
    "vcube-ps": Search(
        "VCube-PS: subscriptions, rejoins, crashes, suspicions, lossy and reordering links, both modes",
        vcube_ps.search,
    ),
    "tno": Search(
        "total notification order: overlapping subscriptions, churn, loss, swaps of topics, managers that crash",
        tno.search,
    ),
}


def find_search(name: str) -> Search:
    search = SEARCHES.get(name)
    if search is None:
        raise UsageError("search", name, "is not known", f"choose one of {', '.join(sorted(SEARCHES))}")
    return search
