"""`antecede report` and `antecede diagram`: writes results as an HTML page and runs as SVG pictures."""

from pathlib import Path
from typing import Annotated

import typer

from antecede.audit import audit
from antecede.core import LimitError, UsageError
from antecede.report import Violation, explain, page, space_time, violations_of
from antecede.report.files import DIAGRAM_MARK, PAGE_MARK, check_target, write_own
from antecede.report.load import load
from antecede.sim import RunSpec, simulate
from antecede.trace import Row
from antecede.trace.directory import is_trace_directory, read_directory
from antecede.trace.files import read_trace, table_rows


def report_command(
    directory: Annotated[Path, typer.Argument(help="The directory given to `antecede experiments run --out`.")],
    out: Annotated[Path | None, typer.Option(help="File for the page. Default DIRECTORY/report.html.")] = None,
) -> None:
    """Write one HTML page with every experiment beside the published values, the audit and pictures of runs.

    The page needs no network and no other file.

    Example:

        antecede report results
    """
    target = out or directory / "report.html"
    if directory.is_dir() or out is not None:
        check_target(target, PAGE_MARK)
    write_own(target, page(load(directory, _repeat)), PAGE_MARK)
    typer.echo(f"report: {target}")


def _repeat(spec: RunSpec) -> list[Row]:
    """The rows of a run whose trace was not kept: the same spec gives the same run."""
    recorder = simulate(spec, trace=True, measure=False).trace
    assert recorder is not None
    return list(recorder.rows())


def diagram_command(
    trace: Annotated[
        Path,
        typer.Argument(help="A trace: a Parquet file, a directory of such files, or a trace directory of a sweep."),
    ],
    out: Annotated[Path | None, typer.Option(help="File for the picture. Default TRACE.svg.")] = None,
    run: Annotated[str, typer.Option(help="Draw this run, where a table holds several.")] = "",
    begin: Annotated[
        float | None, typer.Option("--from", help="Show only events from this time on: in u.t.; in ms in a live run.")
    ] = None,
    end: Annotated[
        float | None, typer.Option("--until", help="Show only events up to this time: in u.t.; in ms in a live run.")
    ] = None,
    nodes: Annotated[str, typer.Option(help="Show only these nodes, for example 0-7,12.")] = "",
    topics: Annotated[str, typer.Option(help="Show only these topics, for example rooms/#,news.")] = "",
    within_topics: Annotated[
        bool, typer.Option("--within-topics", help="Audit causal order within each topic only.")
    ] = False,
    violation: Annotated[
        str,
        typer.Option(
            help="Show only the events that explain the first violation of this rule; the run may have any size."
        ),
    ] = "",
) -> None:
    """Draw a small run as a space-time diagram: nodes as lines, messages as arrows, violations in red.

    Examples:

        antecede simulate causal-aggregation -n 8 --trace run.parquet && antecede diagram run.parquet

        antecede diagram run.parquet --nodes 0-3 --from 100 --until 300
    """
    target = out or trace.with_name(f"{trace.name.removesuffix('.parquet')}.svg")
    table = read_directory(trace) if is_trace_directory(trace) else read_trace(trace, run or None)
    rows = list(table_rows(table))
    check_target(target, DIAGRAM_MARK)
    marks = _violations(rows, trace, across_topics=not within_topics)
    title = trace.name
    if violation:
        chosen = [mark for mark in marks if mark.rule == violation]
        if not chosen:
            found = ", ".join(mark.rule for mark in marks) or "none"
            raise UsageError("--violation", violation, "was not violated in this run", f"violated: {found}")
        svg = explain(rows, chosen[0], title=title)
    else:
        wanted = [topic for topic in topics.split(",") if topic]
        chosen_nodes = _numbers(nodes)
        svg = space_time(rows, title=title, audit=marks, nodes=chosen_nodes, topics=wanted, window=(begin, end))
    write_own(target, f"{svg}\n", DIAGRAM_MARK)
    for mark in marks:
        typer.echo(f"violated {mark.rule}: {mark.words}")
    typer.echo(f"diagram: {target}")


def _violations(rows: list[Row], trace: Path, *, across_topics: bool) -> list[Violation]:
    try:
        return violations_of(audit(rows, across_topics=across_topics))
    except LimitError as error:
        typer.echo(f"{trace} was not audited: {error}", err=True)
        return []


def _numbers(text: str) -> list[int]:
    """Read `0-3,7` as 0, 1, 2, 3, 7."""
    found: list[int] = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not first:
            continue
        try:
            found += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise UsageError("--nodes", text, "is not a list of node numbers", "write for example 0-7,12") from None
    return found
