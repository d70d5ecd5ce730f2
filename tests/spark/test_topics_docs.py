"""docs/spark.md: its code runs as it stands there, against a node of the test's where it needs one."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.audit import Question
from antecede.spark.audit_targets import find_targets
from antecede.spark.verdicts import judge

from .nodes import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def block(title: str, directory: Path, *names: str) -> str:
    """The code of a section, with these files in `directory`: paths count from where the JVM was started."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for name in names:
        assert code.count(f'"{name}"') == 1
        code = code.replace(f'"{name}"', f'"{directory / name}"')
    return str(code)


def test_the_section_on_traces_runs(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("Traces of any program", tmp_path, "chat.html", "chat-trace"), {"spark": spark})
    shown = capsys.readouterr().out
    assert "exactly-once" in shown
    assert "delivered chat/0.1 twice" in (tmp_path / "chat.html").read_text()
    (verdict,) = judge(spark, find_targets([tmp_path / "chat-trace"]), Question())
    assert verdict.outcome.report is not None
    assert verdict.outcome.report.violated == ("exactly-once",)


def test_the_section_on_topics_runs(session: SparkSession, tmp_path: Path) -> None:
    code = block("Topics as tables", tmp_path, "n0", "answers-checkpoint")
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
