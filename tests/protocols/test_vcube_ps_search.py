"""VCube-PS under random schedules of subscriptions, publications, crashes and bad links, judged by the audit."""

import pytest

from antecede.experiments.search_vcube_ps import search


@pytest.mark.parametrize("block", range(4))
def test_no_schedule_goes_wrong(block: int) -> None:
    for seed in range(25 * block, 25 * (block + 1)):
        verdict = search(seed)
        assert verdict.ok, f"search({seed}): {verdict.words}"


@pytest.mark.slow
def test_no_schedule_goes_wrong_in_ten_thousand_runs_on_spark() -> None:
    from antecede.spark.session import spark_session  # noqa: PLC0415 - only the slow test needs Spark

    runs = 10_000
    found = (
        spark_session(None)
        .sparkContext.parallelize(range(runs), runs // 25)
        .map(lambda seed: (seed, search(seed).violated))
        .filter(lambda result: bool(result[1]))
        .collect()
    )
    assert not found, f"replay with search(seed): {found[:10]}"
