"""LoCaMu under random schedules of publications, crashes, suspicions, joins and bad links, judged by the audit."""

import pytest
from msgspec.structs import replace

from antecede.search.locamu import search, trial_of


@pytest.mark.parametrize("block", range(4))
def test_no_schedule_goes_wrong(block: int) -> None:
    for seed in range(10 * block, 10 * (block + 1)):
        verdict = search(seed)
        assert verdict.ok, f"search({seed}): {verdict.words}"


@pytest.mark.parametrize("seed", [900, 1043, 1108, 2150])
def test_a_message_that_comes_before_the_news_of_a_member_is_forgotten_in_the_end(seed: int) -> None:
    """Each left messages in a log once: a relay never numbered them for somebody behind it, or was never asked to."""
    verdict = search(seed, replace(trial_of(seed), changes=3))
    assert verdict.ok, f"search({seed}): {verdict.words}"


@pytest.mark.parametrize(
    ("seed", "changes", "crashes", "why"),
    [
        (10657, 8, 3, "a relay gave a number late, and the joiner did not see that it was"),
        (10988, 8, 3, "the same, further along the way"),
        (10293, 8, 3, "a node had joined before all who number for it had heard of it"),
        (20481, 16, 6, "who stood in for another left out the only name the message had for its receiver"),
    ],
)
def test_joins_amid_crashes(seed: int, changes: int, crashes: int, why: str) -> None:
    """Each went wrong once."""
    trial = replace(trial_of(seed), changes=changes, crashes=crashes, stay_down=0.0)
    if seed == 20481:
        trial = replace(trial, topics=3, actions=20, members=0.4)
    verdict = search(seed, trial)
    assert verdict.ok, f"{why}: {verdict.words}"


def test_who_was_away_when_names_were_told_is_told_them_later() -> None:
    """A node that has come back does not tell names to whom it has not heard yet; once it passed them over for good."""
    verdict = search(644)
    assert verdict.ok, verdict.words


def test_what_goes_down_with_its_publisher_is_waited_for_and_breaks_no_order() -> None:
    """Node 7 never comes back, and with it the last thing it had numbered: 6 waits for that, in order."""
    verdict = search(2720)
    assert verdict.ok, verdict.words


def test_the_search_is_of_what_it_says() -> None:
    trials = [trial_of(seed) for seed in range(500)]
    assert {trial.shape for trial in trials} == {"line", "star", "random"}
    assert {trial.f for trial in trials} == {1, 2}
    assert {trial.nodes for trial in trials} == set(range(5, 13))
    assert sum(trial.crashes > 0 for trial in trials) > 300
    assert sum(trial.false_suspicions > 0 for trial in trials) > 200
    assert sum(trial.stay_down > 0 for trial in trials) > 80
    assert {trial.changes for trial in trials} == {0, 3, 8, 16}
    assert sum(trial.changes >= 8 and trial.crashes >= 3 for trial in trials) > 50
    assert sum(search(seed).crashed > 0 for seed in range(10)) >= 5


@pytest.mark.slow
def test_no_schedule_goes_wrong_in_ten_thousand_runs_on_spark() -> None:
    from antecede.spark.search import search_on_spark  # noqa: PLC0415 - only the slow test needs Spark
    from antecede.spark.session import spark_session  # noqa: PLC0415

    result = search_on_spark(spark_session(None), "locamu", range(10_000))
    assert result.runs == 10_000
    assert not result.failed, result.failures
