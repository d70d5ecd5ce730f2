"""`antecede simulate`: simulates one run, prints its metrics and audits it."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from antecede.audit import Question
from antecede.audit.vectorised.source import TableSource
from antecede.audit.vectorised.verdict import judge_run
from antecede.cli.progress import waiting
from antecede.cli.tables import fact_table
from antecede.core import UsageError
from antecede.overlay.vcube import VCube
from antecede.protocols.registry import PROTOCOLS
from antecede.sim import RunSpec, simulate
from antecede.sim.fault_choices import FAULTS
from antecede.sim.networks import NETWORKS
from antecede.sim.run import promised_rules, promises_across_topics
from antecede.sim.workloads import WORKLOADS
from antecede.trace.files import write_trace

_PROTOCOL_HELP = "One of " + ", ".join(PROTOCOLS) + "."
_NETWORK_HELP = "Network model, `name:key=value,…`. One of " + ", ".join(NETWORKS) + "."
_WORKLOAD_HELP = "Workload: which node publishes when, `name:key=value,…`. One of " + ", ".join(WORKLOADS) + "."
_FAULT_HELP = "A fault, `name:key=value,…`; may be repeated. One of " + ", ".join(FAULTS) + "."


def simulate_command(
    protocol: Annotated[str, typer.Argument(help=_PROTOCOL_HELP)],
    nodes: Annotated[int, typer.Option("--nodes", "-n", help="How many nodes.")] = 64,
    seed: Annotated[
        int, typer.Option(help="Seed of all random draws. The same seed gives the same run, to the byte.")
    ] = 1,
    network: Annotated[str, typer.Option(help=_NETWORK_HELP)] = "normal",
    workload: Annotated[str, typer.Option(help=_WORKLOAD_HELP)] = "uniform",
    fault: Annotated[list[str] | None, typer.Option(help=_FAULT_HELP)] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="An option of the protocol, `key=value`; `key=@FILE` reads the value from a file; may be repeated."
        ),
    ] = None,
    aggregate: Annotated[
        bool | None,
        typer.Option(
            "--aggregate/--no-aggregate", help="Bundle several messages in a packet (causal-aggregation, vcube-ps)."
        ),
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Write the trace of the run to this Parquet file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate one run, print its metrics and the verdict of the audit. Exit code 1: a rule was violated.

    Examples:

        antecede simulate causal-aggregation --nodes 256 --seed 1

        antecede simulate causal-aggregation -n 32 --network heavy-tailed --trace run.parquet

        antecede simulate timer-bundling -n 64 --option wait=20

        antecede simulate vcube-ps -n 64 --workload churn:size=40 --fault crash:node=3,at=300 --option diagnosis=8
    """
    spec = RunSpec(
        protocol=protocol,
        nodes=nodes,
        seed=seed,
        network=network,
        workload=workload,
        faults=tuple(fault or ()),
        options=_options(option or [], aggregate),
    )
    if trace is not None and trace.exists():
        raise UsageError("--trace", str(trace), "already exists", "choose another name or remove it")
    with waiting(f"simulating {nodes} nodes", quiet=as_json):
        result = simulate(spec, trace=True)
    assert result.trace is not None
    with waiting("auditing", quiet=as_json):
        table = result.trace.table(spec.key())
        asked = Question(across_topics=promises_across_topics(spec), rules=promised_rules(spec))
        report = judge_run(TableSource(table), asked).report
    assert report is not None, "the simulator records traces that the audit accepts"
    if trace is not None:
        write_trace(table, trace)
    if as_json:
        typer.echo(
            json.dumps(
                {"run": msgspec.to_builtins(spec), "metrics": result.metrics, "audit": report.to_dict()}, indent=2
            )
        )
    else:
        _show(spec, result.metrics)
        typer.echo(str(report))
        if trace is not None:
            typer.echo(f"trace: {trace}")
    if not report.ok:
        raise typer.Exit(1)


def _options(pairs: list[str], aggregate: bool | None) -> dict[str, object]:
    options: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError("--option", pair, "is not key=value", "write for example --option wait=20")
        options[key] = _read(pair, Path(value[1:])) if value.startswith("@") else value
    if aggregate is not None:
        options["aggregate"] = aggregate
    return options


def _read(pair: str, path: Path) -> str:
    """Return the text of a file, for options too long to type. The run keeps the text and replays without the file."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("--option", pair, f"cannot be read ({error})", "check the path after @") from None


def _show(spec: RunSpec, metrics: dict[str, object]) -> None:
    console = Console()
    slots = 1 << VCube(spec.nodes).dimension
    if slots != spec.nodes:
        console.print(f"{spec.nodes} nodes in a cube of {slots} slots: {slots - spec.nodes} stay empty", style="dim")
    facts = {}
    for name, value in metrics.items():
        if isinstance(value, float):
            facts[name] = f"{value:,.2f}"
        elif isinstance(value, int):
            facts[name] = f"{value:,}"
        elif name.endswith("latency") and isinstance(value, dict):
            facts[name] = "  ".join(f"{key} {number:,.1f}" for key, number in value.items())
    console.print(fact_table(facts))
