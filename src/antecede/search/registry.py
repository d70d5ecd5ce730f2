"""Every random search by name."""

from antecede.core import UsageError
from antecede.search import fixed_groups, gossip, locamu, logs, plumtree, tno, vcube_ps
from antecede.search.harness import Search

SEARCHES: dict[str, Search] = {
    "delta-causal": Search(
        "Δ-causal order: deadlines from too short to generous, coarse clocks, lossy, repeating and reordering links",
        fixed_groups.DeltaCausalRun.search,
    ),
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
    "message-history": Search(
        "message history: late acknowledgements, impatient sources, lossy, repeating and reordering links",
        fixed_groups.HistoryRun.search,
    ),
    "plumtree": Search(
        "Plumtree over HyParView: small views, joins, leaves, crashes, suspicions, lossy links, with and without order",
        plumtree.search,
    ),
    "safe-links": Search(
        "causal broadcast over FIFO links: links that come and go, with and without a memory of old messages",
        fixed_groups.SafeLinksRun.search,
    ),
    "vcube-ps": Search(
        "VCube-PS: subscriptions, rejoins, crashes, suspicions, lossy and reordering links, both modes",
        vcube_ps.search,
    ),
    "thicket": Search(
        "Thicket: several trees on small views, under the same schedules as Plumtree",
        plumtree.ThicketRun.search,
    ),
    "tno": Search(
        "total notification order: overlapping subscriptions, churn, loss, swaps of topics, managers that crash",
        tno.search,
    ),
    "vector-clocks": Search(
        "probabilistic clocks with an entry for each process, which promise order: repeating and reordering links",
        fixed_groups.VectorClocksRun.search,
    ),
}


def find_search(name: str) -> Search:
    search = SEARCHES.get(name)
    if search is None:
        raise UsageError("search", name, "is not known", f"choose one of {', '.join(sorted(SEARCHES))}")
    return search
