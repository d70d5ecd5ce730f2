"""`antecede report` and `antecede diagram`, as typed."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from antecede.cli.report import diagram_command, report_command
from antecede.core import UsageError
from antecede.trace import Recorder, Row
from antecede.trace.files import write_trace

from .runs import triangle
from .sweeps import make_sweep

app = typer.Typer()
app.command("report")(report_command)
app.command("diagram")(diagram_command)


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def recorded(rows: list[Row]) -> Recorder:
    recorder = Recorder()
    for row in rows:
        values = row._asdict()
        recorder.add(values.pop("event"), values.pop("time_us"), values.pop("node"), size=values.pop("bytes"), **values)
    return recorder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_trace(recorded(triangle()).table("triangle"), tmp_path / "triangle.parquet")
    return tmp_path / "triangle.parquet"


def test_a_page_is_written_beside_the_results_and_again(tmp_path: Path) -> None:
    out = tmp_path / "results"
    small = next(row.trace for row in make_sweep(out, trace=True) if row.nodes == 16)
    assert run("report", out) == f"report: {out / 'report.html'}\n"
    first = (out / "report.html").read_bytes()
    run("report", out)
    assert (out / "report.html").read_bytes() == first
    run("report", out, "--out", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == first
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(UsageError, match="mine"):
        run("report", out, "--out", tmp_path / "mine.html")
    assert run("diagram", out / str(small), "--out", tmp_path / "run.svg", "--until", 200)


def test_a_trace_is_drawn_beside_itself_with_what_was_violated(trace: Path) -> None:
    said = run("diagram", trace)
    assert "violated causal: node 2 delivered chat/1.1" in said
    assert f"diagram: {trace.with_suffix('.svg')}" in said
    assert "st-ring" in trace.with_suffix(".svg").read_text(encoding="utf-8")


def test_options_narrow_the_diagram(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "some.svg"
    run("diagram", trace, "--out", out, "--nodes", "0-1", "--from", 5, "--until", 50, "--topics", "chat")
    assert out.read_text(encoding="utf-8").count('class="st-line"') == 2
    run("diagram", trace, "--out", out, "--violation", "causal")
    assert "1 causal" in out.read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="was not violated in this run; violated: causal"):
        run("diagram", trace, "--out", out, "--violation", "fifo")
    with pytest.raises(UsageError, match="is not a list of node numbers"):
        run("diagram", trace, "--out", out, "--nodes", "a-b")


def test_what_cannot_be_drawn_is_named_and_nothing_is_written(tmp_path: Path, trace: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        run("diagram", tmp_path / "nowhere.parquet")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(trace.read_bytes()[:200])
    with pytest.raises(UsageError, match=r"bad\.parquet.*is not a readable Parquet file"):
        run("diagram", bad)
    assert not (tmp_path / "bad.svg").exists()
    (tmp_path / "foreign.svg").write_text("<svg/>")
    with pytest.raises(UsageError, match=r"foreign\.svg.*is not a file antecede wrote"):
        run("diagram", trace, "--out", tmp_path / "foreign.svg")
    assert (tmp_path / "foreign.svg").read_text() == "<svg/>"
