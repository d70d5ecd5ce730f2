"""Plumtree under random schedules, and the search finds two rules put back that lose causal order."""

import pytest

from antecede.protocols.options import MakeProcess
from antecede.protocols.plumtree.order import CausalOrder
from antecede.protocols.plumtree.records import Member
from antecede.search.plumtree import PlumtreeRun, Trial, search, trial_of


@pytest.mark.parametrize("seed", [*range(25), 46, 139, 721])
def test_promises_hold(seed: int) -> None:
    verdict = search(seed)
    assert verdict.ok, verdict.words


@pytest.mark.slow
def test_promises_hold_in_many_runs() -> None:
    for seed in range(2000):
        verdict = search(seed)
        assert verdict.ok, f"seed {seed}: {verdict.words}"


def test_the_trials_are_of_every_kind() -> None:
    trials = [trial_of(seed) for seed in range(60)]
    for field in ("loss", "crashes", "changes", "false_suspicions", "duplication"):
        assert {bool(getattr(trial, field)) for trial in trials} == {False, True}, field
    assert {trial.order for trial in trials} == {"causal", "none"}
    assert any(PlumtreeRun(seed, trial).calm for seed, trial in enumerate(trials))


# -- mutations --------------------------------------------------------------------------------------------------------


def test_skipping_only_what_is_missing_loses_transitive_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed nowhere, and tempting: a lost message is skipped, and those that it depended on may still come."""

    def skips(self: CausalOrder, source: int, seq: int) -> list[object]:
        self._given_up += self._gate.skip(source, seq)
        return list(self._drain())

    monkeypatch.setattr(CausalOrder, "give_up", skips)
    assert "causal" in search(4).violated


def test_a_joiner_that_forgets_where_it_began_loses_order_after_a_crash() -> None:
    """Its contact's deliveries are below its floors; without a record of them they come again after a crash."""

    def make(seed: int, trial: Trial) -> MakeProcess:
        run = PlumtreeRun(seed, trial)
        build = run.maker()

        def forgetful(node: int):
            process = build(node)
            restore = process.restore
            process.restore = lambda records: restore(  # type: ignore[method-assign]
                [Member(one.topic, one.taken) if isinstance(one, Member) else one for one in records]
            )
            return process

        return forgetful

    assert "causal" in search(46, trial_of(46), make).violated
