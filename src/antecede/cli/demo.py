"""`antecede demo`: runs a live cluster, compares two protocols in the simulator, and reproduces a published table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from antecede.audit import audit
from antecede.cli import pipeline, report
from antecede.sim import RunSpec, simulate


def demo_command(
    out: Annotated[Path, typer.Option(help="Directory for journals, results and reports.")] = Path("out/demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Run only the comparison in the simulator: some seconds.")
    ] = False,
) -> None:
    """Run a live cluster with a crash, audit it, then reproduce a published table: under two minutes.

    Example:

        antecede demo --out out/demo
    """
    console = Console()
    if quick:
        _side_by_side(console)
        return
    from antecede.cli.demo_live import live_story  # noqa: PLC0415 - Spark and the live system take a second to import
    from antecede.spark.java import check_java  # noqa: PLC0415

    check_java()  # before the live cluster, which takes half a minute
    out.mkdir(parents=True, exist_ok=True)
    console.rule("1. A live cluster", align="left")
    clean = live_story(console, out)
    console.rule("2. Bundling messages, in the simulator", align="left")
    _side_by_side(console)
    console.rule("3. Table 4.1 of the thesis on Spark, beside the published values", align="left")
    table = out / "table-4.1"
    pipeline.run_command(["thesis-table-4.1"], out=table, seeds=1, resume=table.exists(), trace=True)
    pipeline.audit_command([table])
    report.report_command(table)
    if not clean:
        raise typer.Exit(1)


def _side_by_side(console: Console) -> None:
    console.print("64 nodes broadcast one message each; every node delivers all of them in causal order.\n")
    rows: dict[str, list[str]] = {}
    for aggregate in (False, True):
        spec = RunSpec(protocol="causal-aggregation", nodes=64, seed=1, options={"aggregate": aggregate})
        result = simulate(spec, trace=True)
        assert result.trace is not None
        clean = audit(result.trace.rows()).ok
        metrics = result.metrics
        latency = metrics["delivery_latency"]
        assert isinstance(latency, dict)
        for name, value in (
            ("packets", f"{metrics['packets']:,}"),
            ("of which carry several messages", f"{metrics['aggregated_packets']:,}"),
            ("bytes", f"{metrics['bytes']:,}"),
            ("mean time to delivery (u.t.)", f"{latency['mean']:.1f}"),
            ("deliveries that had to wait", f"{metrics['delayed_deliveries']:,}"),
            ("order, loss, duplicates", "clean" if clean else "VIOLATED"),
        ):
            rows.setdefault(name, []).append(value)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("one by one", justify="right")
    table.add_column("aggregated", justify="right", style="bold")
    for name, values in rows.items():
        table.add_row(name, *values)
    console.print(table)
    console.print("\nSame deliveries, fewer packets, no timers.", style="dim")
