"""Every block of the guides, one behind the other, against real nodes; and what they say comes true."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import antecede
from antecede.audit import Question
from antecede.spark.audit_targets import find_targets
from antecede.spark.verdicts import judge

from .nodes import Cluster

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide_spark.md"
VERDICT = ROOT / "docs" / "guide_verdict.md"


def blocks(guide: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", guide.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run(guide: Path, number: int, code: str, here: dict[str, Any]) -> None:
    try:
        exec(compile(code, f"{guide.name}, block {number}", "exec"), here)
    except Exception as error:
        raise AssertionError(f"block {number} of {guide.name} fails: {error}") from error


def test_the_guide_to_a_verdict_does_what_it_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"examples/garden.bundle": str(ROOT / "examples" / "garden.bundle")}
    places |= {name: str(tmp_path / name) for name in ("garden.git", "garden-trace")}
    here: dict[str, Any] = {}
    for number, block in enumerate(blocks(VERDICT), 1):
        run(VERDICT, number, re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], block), here)
    assert len(here["history"]) == 31
    assert [(row.rule, row.violations) for row in here["violated"]] == [("causal", 6)]
    assert set(here["names"].values()) >= {"ann", "bob", "cat", "git", "web page"}
    assert capsys.readouterr().out.count("causal, web page: node 4 delivered garden/") == 3
    (target,) = find_targets([tmp_path / "garden-trace"])
    (again,) = judge(spark, [target], Question())
    assert again.outcome.report is not None
    assert again.outcome.report.violated == ("causal",)


def test_the_guide_does_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    here: dict[str, Any] = {}
    with Cluster(tmp_path, nodes=2) as cluster:
        places = {"antecede://127.0.0.1:7400": cluster.url(0)}
        places |= {f"garden/n{node}": str(cluster.journal(node)) for node in (0, 1)}
        for number, block in enumerate(blocks(GUIDE), 1):
            code = re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], block)
            if "JOURNALS = " in block:
                _until_both_have_all(cluster)
            run(GUIDE, number, code, here)

    assert here["messages"] == len(here["SAID"]) == 7
    told = sorted((topic, one["from"][11:16], one["messages"], one["people"]) for topic, one in here["told"])
    assert told == [
        ("stats/roses", "09:01", 2, ["ann", "bob"]),
        ("stats/tomatoes", "09:00", 3, ["ann", "bob", "cat"]),
        ("stats/tomatoes", "11:00", 1, ["cat"]),
    ]
    shown = spark.table("together").collect()
    assert len(shown) == 7 + 3
    assert {row.order for row in shown} == {"causal"}
    assert here["counts"]["released"] == here["counts"]["duplicates"] == 10
    assert here["problems"] == 0
    assert here["violations"] == 0
    assert spark.table("findings").where("kind = 'topic'").count() == 4


def _until_both_have_all(cluster: Cluster) -> None:
    """The second node delivers a moment later than the first."""
    for _ in range(300):
        with antecede.connect_sync(cluster.url(1)) as bus:
            if bus.status()["position"] >= 10:
                return
        time.sleep(0.1)
    raise AssertionError("the second node does not catch up")
