"""docs/spark.md, "Topics as tables": its code runs as it stands there, against a node of the test's."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from .nodes import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_section_on_topics_runs(session: SparkSession, tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Topics as tables\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    # Paths count from where the JVM was started, which is not ours to choose.
    for name in ("n0", "answers-checkpoint"):
        assert code.count(f'"{name}"') == 1
        code = code.replace(f'"{name}"', f'"{tmp_path / name}"')
    with Cluster(tmp_path) as cluster:
        cluster.publish([("rooms/1/chat", b"why?"), ("rooms/1/chat", b"because"), ("rooms/2/chat", b"hm")])
        # A stream begins with what comes next, and nobody speaks while the text is read: begin with what was said.
        code = code.replace('"topics", "rooms/#")', '"topics", "rooms/#").option("since", "earliest")')
        names: dict[str, object] = {"spark": session}
        exec(code.replace("antecede://127.0.0.1:7400", cluster.url()), names)
        found = session.read.format("antecede").options(url=cluster.url(), topics="#").load()
        said = [(row.topic, row.payload.decode()) for row in found.collect()]
    assert [text for topic, text in said if topic == "answers"] == ["re: why?", "re: because", "re: hm"]
    assert sorted(said[-2:]) == [("rooms/1/chat", "hello"), ("rooms/2/chat", "is anybody here?")]
    assert len(said) == 8
