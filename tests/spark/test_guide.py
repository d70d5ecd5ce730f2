"""Every block of docs/guide_spark.md, one behind the other, against two real nodes; and what it says comes true."""

import re
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import antecede

from .nodes import Cluster

GUIDE = Path(__file__).parents[2] / "docs" / "guide_spark.md"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_guide_does_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    here: dict[str, Any] = {}
    with Cluster(tmp_path, nodes=2) as cluster:
        places = {"antecede://127.0.0.1:7400": cluster.url(0)}
        places |= {f"garden/n{node}": str(cluster.journal(node)) for node in (0, 1)}
        for number, block in enumerate(blocks(), 1):
            code = re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], block)
            if "JOURNALS = " in block:
                _until_both_have_all(cluster)
            try:
                exec(compile(code, f"{GUIDE.name}, block {number}", "exec"), here)
            except Exception as error:
                raise AssertionError(f"block {number} of {GUIDE.name} fails: {error}") from error

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
