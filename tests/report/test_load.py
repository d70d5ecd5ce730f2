"""From a sweep's directory to a page; and what is missing or damaged is named."""

from pathlib import Path

import pytest

from antecede.core import UsageError
from antecede.report import page
from antecede.report.load import load
from antecede.spark.layout import EVENTS, bucket_name, runs_path
from antecede.spark.results import write_tables

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


def test_small_traced_runs_are_drawn(swept: Path) -> None:
    (picture,) = load(swept).pictures
    assert "16 nodes, seed 1" in picture.caption
    assert picture.svg.count("st-dot") == 17  # and one in the legend


def test_without_traces_the_experiment_is_shown_in_small(tmp_path: Path) -> None:
    make_sweep(tmp_path / "results")
    (picture,) = load(tmp_path / "results").pictures
    assert "8 nodes, not one of the runs above" in picture.caption
    assert "--nodes 8" in picture.command


def test_the_same_directory_gives_the_same_page(swept: Path) -> None:
    assert page(load(swept)) == page(load(swept))


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
