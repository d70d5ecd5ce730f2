"""Nodes that are away for longer than others hold messages in memory: they get everything, from logs."""

import pytest

from antecede.search.vcube_ps import VCubePsRun, absence_of, search
from tests.protocols.vcube_ps import mutations_absence as mutations

#: A node without room for more asked for the same messages again and again.
STORMS = (2016, 2036, 2045, 3828)
#: A node waited for ever for messages that no log had any more: nodes that never had them kept it waiting.
GAPS = (1604, 2351, 2388, 2491, 2639, 2734)


@pytest.mark.parametrize("seed", [*range(30), *STORMS, *GAPS])
def test_drawn_absences(seed: int) -> None:
    verdict = search(seed, absence_of(seed))
    assert verdict.ok, (absence_of(seed), verdict.words)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_drawn_absences(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        verdict = search(seed, absence_of(seed))
        assert verdict.ok, (seed, absence_of(seed), verdict.words)


def test_absences_are_drawn_that_only_logs_can_serve() -> None:
    """Else the tests above would show nothing."""
    read = 0
    for seed in range(5):
        run = VCubePsRun(seed, absence_of(seed))
        run.judge()
        read += sum(log.answered for log in run.simulation.logs.values())
    assert read > 100


def test_a_gap_is_visible_and_only_where_logs_have_removed_messages() -> None:
    """A node that finds its past gone leaves and joins. `Verdict.offences` names those that need not have."""
    seeds = [seed for seed in range(60) if absence_of(seed).log_keeps]
    assert sum(search(seed, absence_of(seed)).broken for seed in seeds) > 0


#: By error: the first seed whose absence shows it, and what is violated.
FOUND = {
    mutations.NeverReadsItsLog: (1, "skipped"),
    mutations.AsksOnce: (0, "complete"),
    mutations.CheckpointsWithoutFrontier: (0, "causal"),
    mutations.CheckpointsLess: (0, "exactly-once"),
    mutations.ReadsNoReferences: (0, "exactly-once"),
    mutations.ForgetsTheTime: (2, "lamport"),
}


@pytest.mark.parametrize("mutant", mutations.ABSENCE, ids=lambda mutant: mutant.__name__)
def test_a_known_seed_shows_the_error(mutant: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VCubePsRun, "events_max", 100_000)
    seed, rule = FOUND[mutant]
    assert rule in search(seed, absence_of(seed), mutations.make_absent(mutant)).violated
    assert search(seed, absence_of(seed)).ok
