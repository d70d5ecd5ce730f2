"""A search on Spark finds what a search here finds, and a finding carries its seed."""

import pytest

from antecede.search import registry as searches
from antecede.search.harness import Search, Verdict
from antecede.spark.search import FAILURES_SHOWN, search_here, search_on_spark


def _made_up(seed: int) -> Verdict:
    """Every third seed violates something, every tenth raises."""
    if seed % 10 == 9:
        raise ArithmeticError(f"at {seed}")
    offences = {"causal": f"words of {seed}", "complete": "one is missing"} if seed % 3 == 0 else {}
    return Verdict(seed=seed, offences=offences, messages=seed, deliveries=2, packets=3)


def test_the_same_runs_here_and_there(spark) -> None:
    there, here = search_on_spark(spark, "vcube-ps", range(100, 130)), search_here("vcube-ps", range(100, 130))
    assert there.runs == here.runs == 30
    assert (there.failed, there.messages, there.deliveries, there.packets) == (
        here.failed,
        here.messages,
        here.deliveries,
        here.packets,
    )


def test_findings_are_counted_and_carry_their_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(searches.SEARCHES, "made-up", Search("for this test", _made_up))
    found = search_here("made-up", range(100))
    assert found.runs == 100
    assert found.violated == {"causal": 30, "complete": 30, "raised": 10}
    assert found.failed == 40
    assert len(found.failures) == FAILURES_SHOWN
    assert [failure.seed for failure in found.failures[:5]] == [0, 3, 6, 9, 12]
    assert found.failures[3].words == "raised: ArithmeticError: at 9"


def test_a_run_without_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of 10,000 seeds once stood still at one of them: a process asked itself for ever within one input."""

    def endless(seed: int) -> Verdict:
        while seed == 1:
            pass
        return Verdict(seed=seed, offences={}, messages=0, deliveries=0, packets=0)

    monkeypatch.setattr("antecede.spark.search.SEED_CPU_S_MAX", 0.05)
    monkeypatch.setitem(searches.SEARCHES, "made-up", Search("for this test", endless))
    found = search_here("made-up", range(3))
    assert (found.runs, found.failed) == (3, 1)
    assert found.failures[0].seed == 1
    assert "no end after 0.05 s of processor time" in found.failures[0].words
