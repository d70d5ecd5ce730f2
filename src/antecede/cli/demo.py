"""`antecede demo`: what the idea is worth, side by side, then a published table redone, audited and reported."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from antecede.audit import audit
from antecede.cli import pipeline, report
from antecede.sim import RunSpec, simulate


def demo_command(
    out: Annotated[Path, typer.Option(help="Where the results and the report go.")] = Path("out/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Only the side-by-side comparison, without Spark.")] = False,
) -> None:
    """A broadcast with and without causal aggregation; then the thesis's Table 4.1, audited, as a page to look at."""
    console = Console()
    _side_by_side(console)
    if quick:
        return
    console.print("\nThe thesis's Table 4.1 on Spark: every run a task, every run judged, ours beside theirs.\n")
    pipeline.run_command(["thesis-table-4.1"], out=out, seeds=1, resume=out.exists(), trace=True)
    pipeline.audit_command([out])
    report.report_command(out)
    console.print("\nLook further:", style="dim")
    console.print("  antecede simulate causal-aggregation --nodes 256 --seed 1", style="dim")
    console.print("  antecede explain tree --nodes 8 --root 0 --down 2,4,6", style="dim")


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
            ("of which bundle several messages", f"{metrics['aggregated_packets']:,}"),
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
