"""`antecede experiments run`, `antecede audit` and `antecede metrics`: run sweeps, audit and measure traces on Spark.

A command imports Spark when it runs, not for `--help`.
"""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console

from antecede.audit import ALL_RULES, DEFAULT_RULES
from antecede.cli.tables import fact_table, make_table, wide_console
from antecede.core import UsageError
from antecede.experiments import EXPERIMENTS, Experiment, find
from antecede.loading import need_extra

if TYPE_CHECKING:
    from antecede.experiments.summary import Line
    from antecede.spark.sweep import SweepResult
    from antecede.spark.verdicts import RunVerdict

MASTER = Annotated[
    str | None,
    typer.Option(help="Spark master. Default: the active session, $SPARK_MASTER, or all cores of this machine."),
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_PATHS = Annotated[
    list[Path], typer.Argument(help="Directories of sweeps, trace directories, or files and tables with traces.")
]


def run_command(
    names: Annotated[list[str], typer.Argument(help="Names of experiments (see `antecede experiments list`), or all.")],
    out: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("out"),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run each setting with.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the sweep that is in the directory.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Keep the trace of every run.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Run the largest sizes too: hours instead of minutes.")] = False,
    master: MASTER = None,
    as_json: AS_JSON = False,
) -> None:
    """Run experiments and print their figures beside the published ones.

    Each run is one Spark task. A run that fails does not stop the others: it is printed with the command that repeats
    it, and the exit code is then 1.

    Examples:

        antecede experiments run thesis-table-4.1 --seeds 10 --out results

        antecede experiments run all --seeds 30 --out results --resume --master spark://host:7077
    """
    need_extra("spark", "antecede experiments run")
    from antecede.cli.progress import SweepProgress, start_spark  # noqa: PLC0415
    from antecede.spark.sweep import sweep  # noqa: PLC0415
    from antecede.spark.sweep_directory import check_out  # noqa: PLC0415

    experiments = _experiments(names)
    check_out(out, resume=resume)  # before Spark starts, which takes a while
    session = start_spark(master, short=True, quiet=as_json)
    command = _command(names, out, seeds, trace=trace, full=full, master=master)
    try:
        with SweepProgress(quiet=as_json) as progress:
            result = sweep(
                session,
                experiments,
                range(1, seeds + 1),
                out,
                trace=trace,
                full=full,
                resume=resume,
                command=command,
                on_plan=progress.planned,
                on_row=progress.row,
            )
    except KeyboardInterrupt:
        Console(stderr=True, soft_wrap=True).print(
            f"stopped; continue with: {command} --resume", markup=False, highlight=False
        )
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(msgspec.json.encode({"lines": result.lines, "failed": result.failed, "done": result.done}))
    else:
        _show_lines(result.lines)
        _show_failures(result)
    if result.failed:
        raise typer.Exit(1)


def audit_command(
    paths: _PATHS,
    rule: Annotated[
        list[str] | None, typer.Option(help=f"Check this rule only; may be repeated. One of {', '.join(ALL_RULES)}.")
    ] = None,
    within_topics: Annotated[
        bool | None,
        typer.Option(
            "--within-topics/--across-topics",
            help="Check causal order within each topic or across topics. Default: as the sweep says; else across.",
        ),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=1, help="How many violations of each rule to print and to write, from the first on.")
    ] = 1,
    master: MASTER = None,
    as_json: AS_JSON = False,
) -> None:
    """Check traces for causal order, per-source order, loss, duplicates and messages that were never published.

    A trace may be a table of any program: docs/spark.md has its columns. Each violated rule is printed with an example;
    all that `--examples` asks for are in `--json`, and in the column `examples` of a sweep's audit.parquet. Runs of a
    sweep without a trace are simulated again, with the same result. Exit code 1: a rule was violated, or a trace could
    not be read.

    Examples:

        antecede audit results

        antecede audit run.parquet --rule total --rule causal

        antecede audit run.parquet --examples 20 --json
    """
    from antecede.audit import Question  # noqa: PLC0415
    from antecede.cli.progress import AuditProgress, start_spark  # noqa: PLC0415
    from antecede.spark.audit_targets import find_targets  # noqa: PLC0415
    from antecede.spark.sweep_directory import is_sweep, write_bytes, write_table  # noqa: PLC0415
    from antecede.spark.verdicts import judge, verdict_table  # noqa: PLC0415

    rules = tuple(rule) if rule else DEFAULT_RULES
    asked = Question(across_topics=within_topics is not True, rules=rules, examples=examples)
    targets = find_targets(paths)
    session = start_spark(master, short=True, quiet=as_json)
    with AuditProgress(len(targets), quiet=as_json) as progress:
        across = None if within_topics is None else not within_topics
        verdicts = judge(session, targets, asked, across_topics=across, on_done=progress.done)
    text = json.dumps([verdict.to_dict() for verdict in verdicts], indent=2)
    if len(paths) == 1 and is_sweep(paths[0]):
        write_table(paths[0] / "audit.parquet", verdict_table(verdicts))
        write_bytes(paths[0] / "audit.json", text.encode() + b"\n")
    if as_json:
        typer.echo(text)
    else:
        _show_verdicts(verdicts, examples)
    if not all(verdict.ok for verdict in verdicts):
        raise typer.Exit(1)


def metrics_command(
    paths: _PATHS,
    metric: Annotated[
        str, typer.Option(help="Which figures to compute; an unknown name prints the list.")
    ] = "overview",
    master: MASTER = None,
    as_json: AS_JSON = False,
) -> None:
    """Compute figures from traces: packets, bytes, latencies, buffers, hops, relays, barriers, load.

    Examples:

        antecede metrics results

        antecede metrics run.parquet --metric delivery-latency
    """
    from antecede.cli.progress import start_spark, waiting  # noqa: PLC0415
    from antecede.spark.frames import read_traces  # noqa: PLC0415
    from antecede.spark.measures import METRICS  # noqa: PLC0415
    from antecede.spark.read_errors import reading  # noqa: PLC0415

    measure = METRICS.get(metric)
    if measure is None:
        raise UsageError("--metric", metric, "is not known", f"choose one of {', '.join(METRICS)}")
    for path in paths:
        if not path.exists():  # before Spark starts, which takes a while
            raise UsageError("path", str(path), "there is no such file or directory", "check the path")
    session = start_spark(master, quiet=as_json)
    with waiting("measuring", quiet=as_json), reading():
        rows = [row.asDict(recursive=True) for row in measure(read_traces(session, *paths)).collect()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        _show_rows(rows)


def _experiments(names: list[str]) -> list[Experiment]:
    if "all" in names:
        return list(EXPERIMENTS.values())
    return [find(name) for name in dict.fromkeys(names)]


def _command(names: list[str], out: Path, seeds: int, *, trace: bool, full: bool, master: str | None) -> str:
    words = ["antecede", "experiments", "run", *names, "--seeds", str(seeds), "--out", str(out)]
    words += ["--trace"] if trace else []
    words += ["--full"] if full else []
    words += ["--master", master] if master else []
    return shlex.join(words)


# -- showing ----------------------------------------------------------------------------------------------------------


def _show_lines(lines: "list[Line]") -> None:
    console = wide_console()
    for name in dict.fromkeys(line.experiment for line in lines):
        titles = ("setting", "protocol", "nodes", "metric", "ours", "±", "published", "difference")
        table = make_table(*titles, left=("setting", "protocol", "metric", "difference"), title=name)
        for line in lines:
            if line.experiment == name:
                table.add_row(
                    line.setting,
                    line.protocol,
                    str(line.nodes) if line.nodes else "",
                    line.metric,
                    _number(line.ours),
                    "" if line.spread is None else _number(line.spread),
                    "" if line.published is None else _number(line.published),
                    _difference(line),
                )
        console.print(table)
        console.print()


def _difference(line: "Line") -> str:
    if line.published is None:
        return ""
    if line.unit == "percent":
        return f"{line.ours - line.published:+.1f} points"
    return f"{100 * (line.ours / line.published - 1):+.1f} %" if line.published else ""


def _show_failures(result: "SweepResult") -> None:
    console = Console(soft_wrap=True)
    done = f"{result.done} runs done"
    before = f", {result.complete} were complete" if result.complete else ""
    console.print(f"{done}{before}, {len(result.failed)} failed. Results: {result.out}", highlight=False)
    for row in result.failed:
        console.print(f"failed: {row.error}", style="red", markup=False, highlight=False, soft_wrap=True)
        console.print(f"  repeat: {row.command}", markup=False, highlight=False, soft_wrap=True)


def _show_verdicts(verdicts: "list[RunVerdict]", examples: int) -> None:
    console = wide_console()
    totals: dict[str, list[int]] = {}
    for verdict in verdicts:
        report = verdict.outcome.report
        for rule in report.rules if report else ():
            sums = totals.setdefault(rule.name, [0, 0, 0, 0])
            sums[0] += 1 if rule.checked else 0
            sums[1] += rule.checked
            sums[2] += rule.violations
            sums[3] += 1 if rule.violations else 0
    table = make_table("rule", "runs judged", "checked", "violations", "runs violated", left=("rule",))
    for name, sums in totals.items():
        style = "bold red" if sums[2] else "" if sums[0] else "dim"
        table.add_row(name, *(f"{value:,}" for value in sums), style=style)
    console.print(table)
    for verdict in verdicts:
        where = " ".join(part for part in (verdict.target.experiment, verdict.target.name) if part)
        report = verdict.outcome.report
        if verdict.outcome.refused is not None:
            console.print(
                f"{where}: {verdict.outcome.refused}", style="red", markup=False, highlight=False, soft_wrap=True
            )
        for rule in report.rules if report else ():
            for example in rule.examples:
                words = f"{where}: {rule.name} violated: {example.words}"
                console.print(words, style="red", markup=False, highlight=False, soft_wrap=True)
            if rule.examples:
                if len(rule.examples) < min(rule.violations, examples):
                    left = f"  {rule.violations - len(rule.examples):,} more: the run is too large to describe them"
                    console.print(left, markup=False, highlight=False, soft_wrap=True)
                if verdict.target.command:
                    console.print(f"  repeat: {verdict.target.command}", markup=False, highlight=False, soft_wrap=True)
    again = sum(verdict.target.spec is not None for verdict in verdicts)
    replayed = f" ({again} simulated again because they kept no trace)" if again else ""
    judged = [verdict for verdict in verdicts if verdict.outcome.report is not None]
    bad, refused = sum(not verdict.ok for verdict in judged), len(verdicts) - len(judged)
    if judged:
        said = f"{bad} of {len(judged)} audited runs violate a rule" if bad else f"no violation in {len(judged)} runs"
        console.print(f"{said}{replayed}", style="bold red" if bad else "green", highlight=False)
    if refused:
        console.print(f"{refused} of {len(verdicts)} traces could not be judged", style="bold red", highlight=False)


def _show_rows(rows: list[dict[str, Any]]) -> None:
    console = wide_console()
    if len(rows) == 1:  # one run, many figures: read downwards
        console.print(fact_table({name: _text(value) for name, value in rows[0].items()}))
        return
    table = make_table(*(rows[0] if rows else ()), left=("experiment", "run"))
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    console.print(table)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return _number(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 or value == int(value) else f"{value:,.2f}"
