"""Sweeps: every run a row, resumed without repeating, failures told and survived."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antecede.core import UsageError
from antecede.experiments.summary import measure, summarise
from antecede.sim import simulate
from antecede.spark.manifest import Manifest, RunRow, load_runs
from antecede.spark.plan import Plan, make_plan
from antecede.spark.results import load_summary, load_values
from antecede.spark.sweep import sweep
from antecede.spark.sweep_directory import claim, find_traces, journal_path, read_request, runs_path
from antecede.trace.directory import read_directory
from antecede.trace.files import table_rows

from .small import Deadly, Faulty, Sibling, Small


def test_a_sweep_measures_what_a_loop_would(spark: SparkSession, tmp_path: Path) -> None:
    experiment = Small()
    seen: list[RunRow] = []
    result = sweep(spark, [experiment], (1, 2), tmp_path / "out", on_row=lambda row, cost: seen.append(row))
    cases = experiment.cases((1, 2))
    by_hand = [(case, {name: experiment.execute(spec) for name, spec in case.runs.items()}) for case in cases]
    assert result.lines == summarise(experiment, measure(experiment, by_hand))
    assert load_summary(tmp_path / "out") == result.lines
    assert json.loads((tmp_path / "out" / "summary.json").read_text())[0]["experiment"] == "small"
    assert len(load_values(tmp_path / "out")) == 2 * 2 * 2
    assert (result.done, result.complete, result.failed) == (8, 0, [])
    assert sorted(row.key for row in seen) == sorted(row.key for row in load_runs(tmp_path / "out"))
    table = pq.read_table(tmp_path / "out" / "runs")
    assert table.num_rows == 8
    assert set(table["experiment"].to_pylist()) == {"small"}
    asked = read_request(tmp_path / "out")
    assert asked.finished is not None
    assert asked.environment["java"] >= 17
    assert (asked.runs, asked.failed) == (8, 0)


def test_traces_are_those_of_the_simulator(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep(spark, [Small()], (1,), out, trace=True)
    traces = find_traces(out)
    assert len(traces) == 4
    for row in load_runs(out):
        assert row.trace is not None
        found = list(table_rows(read_directory(out / row.trace)))
        trace = simulate(row.run_spec(), trace=True).trace
        assert trace is not None
        assert found == list(trace.rows())
        assert row.measured()["packets"] == simulate(row.run_spec()).metrics["packets"]


def test_resume_does_only_what_is_left(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = sweep(spark, [Small()], (1,), out)
    again = sweep(spark, [Small()], (1,), out, resume=True)
    assert (again.done, again.complete) == (0, 4)
    assert again.lines == first.lines
    more = sweep(spark, [Small()], (1, 2), out, resume=True, full=True)
    assert (more.done, more.complete) == (8, 4)
    assert more.lines == sweep(spark, [Small()], (1, 2), tmp_path / "fresh", full=True).lines


def test_resume_with_traces_runs_what_has_none(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep(spark, [Small()], (1,), out)
    assert sweep(spark, [Small()], (1,), out, resume=True, trace=True).done == 4
    assert len(find_traces(out)) == 4


def test_other_code_is_other_results(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    sweep(spark, [Small()], (1,), out)
    monkeypatch.setattr("antecede.spark.sweep.code_version", lambda: "other")
    assert sweep(spark, [Small()], (1,), out, resume=True).done == 4


def test_experiments_share_runs(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plans: list[Plan] = []
    both = sweep(spark, [Small(), Sibling()], (1,), out, trace=True, on_plan=plans.append)
    assert (both.done, len(plans[0].tasks)) == (4, 4)
    assert len(load_runs(out)) == 8
    assert len(find_traces(out)) == 4
    ours, theirs = ([line.ours for line in both.lines if line.experiment == name] for name in ("small", "sibling"))
    assert ours == theirs
    assert len(ours) == 4
    one = tmp_path / "one"
    sweep(spark, [Small()], (1,), one)
    later = sweep(spark, [Small(), Sibling()], (1,), one, resume=True)
    assert later.done == 0
    assert len(later.lines) == 8


def test_a_run_that_raises_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = sweep(spark, [Faulty()], (1, 2), out)
    assert len(result.failed) == 2
    row = result.failed[0]
    assert row.error == "ValueError: no luck"
    assert row.traceback is not None
    assert "in execute" in row.traceback
    assert row.command.startswith("antecede simulate causal-aggregation --nodes 8 --seed 2")
    # The cases that are whole are measured; the one that is not counts out.
    seeds = {(line.nodes, line.protocol): line.seeds for line in result.lines}
    assert seeds == {(4, "causal"): 2, (4, "none"): 2, (8, "causal"): 1, (8, "none"): 1}
    assert sweep(spark, [Faulty()], (1, 2), out, resume=True).done == 2  # tried again


def test_a_worker_that_dies_takes_one_run_with_it(spark: SparkSession, tmp_path: Path) -> None:
    result = sweep(spark, [Deadly()], (1, 2), tmp_path / "out")
    assert len(result.failed) == 1
    assert result.failed[0].error is not None
    assert result.failed[0].error.startswith("the worker died")
    assert len(load_runs(tmp_path / "out")) == 8


def test_an_interrupted_sweep_keeps_what_is_done(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def interrupt(row: RunRow, cost: float) -> None:
        if len(Manifest(out, "small").rows) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(spark, [Small()], (1, 2, 3), out, on_row=interrupt)
    done = len(load_runs(out))
    assert 3 <= done < 12
    assert load_summary(out)  # the cases that are whole
    rest = sweep(spark, [Small()], (1, 2, 3), out, resume=True)
    assert rest.complete >= 3
    assert rest.lines == sweep(spark, [Small()], (1, 2, 3), tmp_path / "fresh").lines


def test_longest_first() -> None:
    cases = {"small": Small().cases((1, 2), full=True)}
    out = Path("nowhere")
    plan = make_plan(
        [Small()], cases, {"small": Manifest(out, "small")}, out=out, trace=False, code="c", check_code=False
    )
    assert [task.spec.nodes for task in plan.tasks] == [16] * 4 + [8] * 4 + [4] * 4


# -- the directory ----------------------------------------------------------------------------------------------------


def test_results_are_never_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep(spark, [Small()], (1,), out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="already holds results; continue it with --resume"):
        sweep(spark, [Small()], (1,), out)
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_strange_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for resume in (False, True):
        with pytest.raises(UsageError, match="holds other files"), claim(tmp_path, resume=resume):
            pass
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"), claim(tmp_path / "file", resume=False):
        pass


def test_two_sweeps_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        claim(tmp_path / "out", resume=False),
        pytest.raises(UsageError, match="written by another sweep"),
        claim(tmp_path / "out", resume=False),
    ):
        pass


def test_damaged_results_are_named(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep(spark, [Small()], (1,), out)
    runs = runs_path(out, "small")
    whole = runs.read_bytes()
    runs.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"runs\.parquet': cannot be read"):
        sweep(spark, [Small()], (1,), out, resume=True)
    runs.write_bytes(whole)
    (out / "sweep.json").write_text("{")
    with pytest.raises(UsageError, match=r"sweep\.json': cannot be read"):
        sweep(spark, [Small()], (1,), out, resume=True)


def test_a_torn_journal_loses_its_last_line_only(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, "small")
    rows = [
        RunRow(
            experiment="small",
            key=key,
            code="c",
            protocol="p",
            nodes=4,
            seed=1,
            spec="{}",
            metrics="{}",
            error=None,
            traceback=None,
            command="",
            trace=None,
            seconds=0.0,
            finished="",
        )
        for key in "ab"
    ]
    for row in rows:
        manifest.add(row)
    journal = journal_path(tmp_path, "small")
    journal.write_bytes(journal.read_bytes()[:-9])
    torn = Manifest(tmp_path, "small")
    assert list(torn.rows.values()) == rows[:1]
    torn.save()
    assert list(Manifest(tmp_path, "small").rows.values()) == rows[:1]
    journal.write_bytes(b"nonsense\n")
    with pytest.raises(UsageError, match="line 1 cannot be read"):
        Manifest(tmp_path, "small")
