"""VCube-PS under random schedules of subscriptions, publications, crashes and bad links, judged by the audit."""

import pytest

from antecede.search.vcube_ps import search


@pytest.mark.parametrize("block", range(4))
def test_no_schedule_goes_wrong(block: int) -> None:
    for seed in range(25 * block, 25 * (block + 1)):
        verdict = search(seed)
        assert verdict.ok, f"search({seed}): {verdict.words}"


@pytest.mark.slow
def test_no_schedule_goes_wrong_in_ten_thousand_runs_on_spark() -> None:
    from antecede.spark.search import search_on_spark  # noqa: PLC0415 - only the slow test needs Spark
    from antecede.spark.session import spark_session  # noqa: PLC0415

    result = search_on_spark(spark_session(None), "vcube-ps", range(10_000))
    assert result.runs == 10_000
    assert not result.failed, result.failures
