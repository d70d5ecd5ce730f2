"""The pipeline's commands: what they print, write and exit with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antecede.cli import main
from antecede.experiments import EXPERIMENTS
from antecede.spark.results import load_summary
from antecede.trace import SCHEMA, Event, Row
from antecede.trace.directory import BUCKETED, STORED, write_parts
from antecede.trace.files import write_trace
from tests.audit.traces import table

from .small import Faulty, Small

Antecede: TypeAlias = Callable[..., "Run"]


class Run:
    """What a command did."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
        monkeypatch.setattr("sys.argv", ["antecede", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as caught:
            main()
        self.code = caught.value.code or 0
        said = capsys.readouterr()
        self.out, self.err = said.out, said.err


@pytest.fixture
def antecede(spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Antecede:
    for experiment in (Small(), Faulty()):
        monkeypatch.setitem(EXPERIMENTS, experiment.name, experiment)
    return lambda *words: Run(capsys, monkeypatch, *words)


def test_run_audit_metrics(antecede: Antecede, tmp_path: Path) -> None:
    """The way of a result: measured, judged, measured again from its traces."""
    out = tmp_path / "out"
    ran = antecede("experiments", "run", "small", "--seeds", 2, "--out", out, "--trace")
    assert ran.code == 0
    assert "8 runs done, 0 failed" in ran.out
    assert "causal" in ran.out
    judged = antecede("audit", out)
    assert judged.code == 0
    assert "no violation in 8 runs" in judged.out
    assert json.loads((out / "audit.json").read_text())[0]["ok"]
    assert (out / "audit.parquet").exists()
    measured = antecede("metrics", out, "--metric", "packets", "--json")
    assert measured.code == 0
    rows = json.loads(measured.out)
    assert len(rows) == 8
    in_table = sum(line.ours * line.seeds for line in load_summary(out))
    assert in_table == sum(row["packets"] for row in rows)


def test_a_second_run_needs_resume(antecede: Antecede, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert antecede("experiments", "run", "small", "--out", out).code == 0
    again = antecede("experiments", "run", "small", "--out", out)
    assert again.code == 2
    assert again.err.startswith("error: --out")
    assert "--resume" in again.err
    resumed = antecede("experiments", "run", "small", "--out", out, "--resume", "--json")
    assert resumed.code == 0
    assert json.loads(resumed.out)["done"] == 0


def test_failed_runs_are_told_and_counted(antecede: Antecede, tmp_path: Path) -> None:
    ran = antecede("experiments", "run", "faulty", "--seeds", 2, "--out", tmp_path / "out")
    assert ran.code == 1
    assert "2 failed" in ran.out
    assert "failed: ValueError: no luck" in ran.out
    assert "repeat: antecede simulate causal-aggregation --nodes 8 --seed 2" in ran.out


def test_a_violation_is_told_and_counted(antecede: Antecede, tmp_path: Path) -> None:
    twice = [
        Row(0, Event.PUBLISH, 0, topic="t", source=0, seq=1),
        Row(1, Event.DELIVER, 1, topic="t", source=0, seq=1),
        Row(2, Event.DELIVER, 1, topic="t", source=0, seq=1),
    ]
    write_trace(table(twice), tmp_path / "twice.parquet")
    judged = antecede("audit", tmp_path)
    assert judged.code == 1
    assert "exactly-once violated: node 1 delivered t/0.1 twice" in judged.out
    assert "1 of 1 audited runs violate a rule" in judged.out
    assert antecede("audit", tmp_path / "twice.parquet", "--rule", "causal").code == 0
    as_json = antecede("audit", tmp_path, "--json")
    assert as_json.code == 1
    assert not json.loads(as_json.out)[0]["ok"]


def test_as_many_examples_as_asked_for(antecede: Antecede, tmp_path: Path) -> None:
    delivered = [Row(1, Event.DELIVER, 1, topic="t", source=0, seq=1)] * 4
    write_trace(table([Row(0, Event.PUBLISH, 0, topic="t", source=0, seq=1), *delivered]), tmp_path / "many.parquet")
    judged = antecede("audit", tmp_path, "--examples", 2)
    assert judged.out.count("exactly-once violated: node 1 delivered t/0.1 twice, first at row 1") == 2
    (run,) = json.loads(antecede("audit", tmp_path, "--examples", 9, "--json").out)
    (once,) = [rule for rule in run["report"]["rules"] if rule["rule"] == "exactly-once"]
    assert [example["rows"] for example in once["examples"]] == [[1, 2], [1, 3], [1, 4]]
    assert once["example"] == once["examples"][0]


def test_a_refused_trace_is_no_violation(antecede: Antecede, tmp_path: Path) -> None:
    write_trace(table([Row(0, Event.PUBLISH, 0, topic="t", source=0, seq=1)]), tmp_path / "good.parquet")
    write_trace(table([Row(0, Event.PUBLISH, -1, topic="t", source=0, seq=1)]), tmp_path / "bad.parquet")
    judged = antecede("audit", tmp_path)
    assert judged.code == 1
    assert "no violation in 1 runs" in judged.out
    assert "1 of 2 traces could not be judged" in judged.out


@pytest.mark.parametrize("words", [("audit",), ("metrics",), ("diagram", "--out", "x.svg")])
@pytest.mark.parametrize("layout", ["file", "directory"])
def test_an_unknown_event_is_refused_by_name(
    antecede: Antecede, tmp_path: Path, words: tuple[str, ...], layout: str
) -> None:
    good = table([Row(0, Event.PUBLISH, 0, topic="t", source=0, seq=1)])
    odd = good.set_column(2, SCHEMA.field("event"), pa.array(["explode"]).cast(SCHEMA.field("event").type))
    if layout == "file":
        pq.write_table(odd, tmp_path / "trace.parquet")
        path = tmp_path / "trace.parquet"
    else:
        path = tmp_path / "trace"
        path.mkdir()
        row = odd.append_column("row", pa.array([0]))
        parts = {"events.parquet": row} | {f"{part}-00.parquet": row.slice(0, 0) for part in BUCKETED}
        write_parts({name: part.cast(STORED) for name, part in parts.items()}, path, run="r", buckets=1)
    run = antecede(words[0], path, *words[1:])
    assert run.code == 2
    assert "event 'explode': is not an event of a trace" in run.err
    assert "write one of publish, send, receive, deliver" in run.err
    assert run.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("experiments", "run", "nonsense"), "experiment 'nonsense': is not known"),
        (("audit", "/nowhere"), "path '/nowhere': there is no such file or directory"),
        (("audit", ".", "--rule", "fairness"), "rules 'fairness': there is no such rule"),
        (("metrics", ".", "--metric", "beauty"), "--metric 'beauty': is not known; choose one of overview"),
    ],
)
def test_mistakes_take_one_line(antecede: Antecede, words: tuple[str, ...], said: str) -> None:
    run = antecede(*words)
    assert run.code == 2
    assert run.err.startswith(f"error: {said}")
    assert run.err.count("\n") == 1


def test_damaged_files_are_named_and_left_alone(antecede: Antecede, tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1 and then nothing")
    for command in ("audit", "metrics"):
        run = antecede(command, tmp_path)
        assert run.code == 2
        assert str(bad) in run.err
        assert run.err.count("\n") == 1
    assert bad.read_bytes() == b"PAR1 and then nothing"
    assert list(tmp_path.iterdir()) == [bad]


def test_metrics_of_a_sweep_without_traces(antecede: Antecede, tmp_path: Path) -> None:
    out = tmp_path / "out"
    antecede("experiments", "run", "small", "--out", out)
    run = antecede("metrics", out)
    assert run.code == 2
    assert "--trace --resume" in run.err
