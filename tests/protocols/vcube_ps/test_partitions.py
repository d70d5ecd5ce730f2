"""Several topics in one causal domain, and nodes that publish on topics they do not take."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from antecede.search.vcube_ps import VCubePsRun, partitions_of, search
from tests.protocols.vcube_ps import mutations_partitions as mutations

#: A publisher outside dropped messages, since no member was known, that a member it had not heard of waited for (53,
#: 105); it took a joiner's floor for a delivery and dropped them (94, 120).
DROPPED = (53, 94, 105, 120)
#: A node that joined one topic asked others again and again for messages on it, and so never asked the node that had
#: what the join waited for.
ENDLESS_JOIN = (234,)
#: Compaction without a log lost what a founder had delivered (532, 1938), and entries of other topics that stable
#: messages carry (1187).
COMPACTED = (532, 1938, 1187)
#: A node counted answers of different times: each node had said that it lacks a message before it got it.
STALE_ANSWERS = (1018,)
#: A publisher waited for a member that had left and whose UNS was lost.
LEFT = (1838,)


@pytest.mark.parametrize("seed", [*range(20), *DROPPED, *ENDLESS_JOIN, *COMPACTED, *STALE_ANSWERS, *LEFT])
def test_drawn_partitions(seed: int) -> None:
    verdict = search(seed, partitions_of(seed))
    assert verdict.ok, (partitions_of(seed), verdict.words)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_drawn_partitions(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        verdict = search(seed, partitions_of(seed))
        assert verdict.ok, (seed, partitions_of(seed), verdict.words)


#: By error: a seed that shows it, and what is violated.
FOUND: dict[Callable[[], AbstractContextManager[None]], tuple[int, str]] = {
    mutations.forgets_what_its_own_depend_on: (22, "causal"),
    mutations.lets_go_too_early: (80, "skipped"),
    mutations.tells_all_it_published: (145, "causal"),
    mutations.drops_what_it_has_delivered: (4, "causal"),
    mutations.counts_members_that_are_up: (0, "causal"),
    mutations.takes_one_delivery_for_all: (30, "causal"),
    mutations.joins_without_a_member: (22, "causal"),
}


@pytest.mark.parametrize("mutation", FOUND, ids=lambda mutation: mutation.__name__)
def test_a_known_seed_shows_the_error(
    mutation: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VCubePsRun, "events_max", 100_000)
    seed, rule = FOUND[mutation]
    with mutation():
        assert rule in search(seed, partitions_of(seed)).violated
    assert search(seed, partitions_of(seed)).ok
