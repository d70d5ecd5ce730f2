"""Every random search by name."""

from antecede.core import UsageError
from antecede.experiments import search_gossip, search_locamu, search_tno, search_vcube_ps
from antecede.experiments.searching import Search

SEARCHES: dict[str, Search] = {
    "gossip": Search(
        "gossip with predecessor lists: overlapping groups, loss, duplication, crashes, subscribers that move, both "
        "versions",
        search_gossip.search,
    ),
    "locamu": Search(
        "LoCaMu: lines, stars and random trees, f = 1 and 2, crashes, recoveries, false suspicions, joins, lossy links",
        search_locamu.search,
    ),
    "vcube-ps": Search(
        "VCube-PS: subscriptions, rejoins, crashes, suspicions, lossy and reordering links, both modes",
        search_vcube_ps.search,
    ),
    "tno": Search(
        "total notification order: overlapping subscriptions, churn, loss, swaps of topics, managers that crash",
        search_tno.search,
    ),
}


def find_search(name: str) -> Search:
    search = SEARCHES.get(name)
    if search is None:
        raise UsageError("search", name, "is not known", f"choose one of {', '.join(sorted(SEARCHES))}")
    return search
