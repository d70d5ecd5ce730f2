"""From a sweep's directory to a page; and what is missing or damaged is named."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.core import UsageError
from antecede.report import page
from antecede.report.load import load
from antecede.sim import RunSpec, simulate
from antecede.spark.results import write_tables
from antecede.spark.sweep_directory import runs_path
from antecede.spark.verdicts import AUDIT_SCHEMA
from antecede.trace import Row
from antecede.trace.directory import EVENTS, bucket_name

from .runs import line
from .sweeps import NAME, make_sweep


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sweep") / "results"
    make_sweep(out, trace=True, fail=True)
    return out


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """One to damage."""
    make_sweep(tmp_path / "results", trace=True)
    return tmp_path / "results"


def test_a_sweep_becomes_a_page(swept: Path) -> None:
    contents = load(swept)
    assert contents.title == "Packets sent, with and without aggregation"
    assert {line.nodes for line in contents.lines} == {16, 32}
    assert contents.runs_finished == 8
    assert len(contents.failed) == 1
    assert "the worker runs code" in contents.failed[0].error
    assert contents.failed[0].command.startswith("antecede simulate causal-aggregation --nodes 16 --seed 99")
    assert contents.environment["Python"] == "3.11.2"
    assert contents.environment["finished"] == "2025-11-15T06:01:00+00:00"
    assert contents.commands[0] == "antecede experiments run thesis-table-4.1 --seeds 2 --out x"
    assert "Table 4.1" in page(contents)


def repeat(spec: RunSpec) -> list[Row]:
    recorder = simulate(spec, trace=True, measure=False).trace
    assert recorder is not None
    return list(recorder.rows())


def test_the_report_repeats_no_run_itself(tmp_path: Path) -> None:
    make_sweep(tmp_path / "results")
    assert load(tmp_path / "results").pictures == []


def test_the_smallest_traced_run_is_drawn_after_the_idea_in_small(swept: Path) -> None:
    small, picture = load(swept, repeat).pictures
    assert "8 nodes, not one of the runs above" in small.caption
    assert "16 nodes, seed 1" in picture.caption
    assert picture.svg.count("st-dot") == 17  # and one in the legend


def test_without_traces_the_experiment_is_shown_in_small(tmp_path: Path) -> None:
    make_sweep(tmp_path / "results")
    (picture,) = load(tmp_path / "results", repeat).pictures
    assert "8 nodes, not one of the runs above" in picture.caption
    assert "--nodes 8" in picture.command


def test_verdicts_are_read_and_a_violation_is_explained(tmp_path: Path) -> None:
    out = tmp_path / "results"
    run = next(row for row in make_sweep(out) if row.nodes == 32)
    assert load(out).audit is None
    judged = {"run": run.key, "experiment": NAME, "rule": "causal", "checked": 9, "command": run.command}
    rows = [
        {**judged, "verdict": "held", "rule": "fifo", "violations": 0, "reason": ""},
        {
            **judged,
            "verdict": "violated",
            "violations": 1,
            "reason": "",
            "example": "node 3 delivered all/2.1 too early",
            "example_nodes": [3],
            "example_messages": ["all/2.1", "all/5.1"],
            "example_rows": [400, 500],
        },
        {**judged, "rule": None, "run": "other", "verdict": "refused", "violations": 0, "reason": "time runs back"},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=AUDIT_SCHEMA), out / "audit.parquet")
    contents = load(out, repeat)
    assert contents.audit is not None
    assert [row.verdict for row in contents.audit] == ["held", "violated", "refused"]
    violation = contents.audit[1].example
    assert violation is not None
    assert violation.messages == (("all", 2, 1), ("all", 5, 1))
    picture = contents.pictures[0]
    assert picture.title == "A violation of causal"
    assert "32 nodes" in picture.caption
    assert "A promise of order was broken in 1 of 1 audited run." in page(contents)


def test_a_damaged_table_of_verdicts_is_named(fresh: Path) -> None:
    (fresh / "audit.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"audit\.parquet.*cannot be read"):
        load(fresh)
    pq.write_table(pa.table({"run": ["x"]}), fresh / "audit.parquet")
    with pytest.raises(UsageError, match=r"audit\.parquet.*is not a table of verdicts"):
        load(fresh)


def test_the_same_directory_gives_the_same_page(swept: Path) -> None:
    assert page(load(swept, repeat)) == page(load(swept, repeat))


def test_an_experiment_nobody_knows_any_more_is_shown_by_its_name(fresh: Path) -> None:
    write_tables(fresh, [], [line(3.0, experiment="forgotten")])
    contents = load(fresh)
    assert contents.experiments["forgotten"].title == "forgotten"
    assert contents.commands[0].startswith(f"antecede experiments run {NAME} forgotten --seeds 3 --out ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sweep.json", r"sweep\.json.*cannot be read"),
        ("summary.parquet", r"summary\.parquet.*cannot be read"),
        (str(runs_path(Path(), NAME)), r"runs\.parquet.*cannot be read"),
    ],
)
def test_damaged_tables_are_named(fresh: Path, name: str, words: str) -> None:
    (fresh / name).write_bytes(b"PAR1 not what it was PAR1")
    with pytest.raises(UsageError, match=words):
        load(fresh)


@pytest.mark.parametrize("name", [EVENTS, bucket_name("deliveries", 0)])
def test_a_damaged_trace_is_named(fresh: Path, name: str) -> None:
    for file in fresh.glob(f"traces/*/*/{name}"):
        file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UsageError, match=f"{name}.*is not a readable Parquet file"):
        load(fresh)


def test_places_that_are_no_sweep_are_refused(tmp_path: Path, fresh: Path) -> None:
    with pytest.raises(UsageError, match="there is no such directory"):
        load(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match=r"holds no results \(there is no sweep\.json\)"):
        load(tmp_path / "other")
    (fresh / "summary.parquet").unlink()
    with pytest.raises(UsageError, match="no experiment in it is finished"):
        load(fresh)
