"""The command line: `antecede --help`.

Every command is a thin shell around a function of the package. Mistakes are answered in one line on standard error and
with exit code 2; what went wrong while running (a failed run, a violated order) with exit code 1.
"""

import sys

import typer
from rich.console import Console

from antecede.cli import (
    demo,
    experiments,
    explain,
    gateway,
    live,
    live_cluster,
    live_security,
    pipeline,
    report,
    search,
    simulate,
    watch,
)
from antecede.core import AntecedeError

app = typer.Typer(
    name="antecede",
    help="Publish/subscribe whose messages arrive after what they depend on.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("simulate")(simulate.simulate_command)
app.command("search")(search.search_command)
app.command("demo")(demo.demo_command)
app.command("audit")(pipeline.audit_command)
app.command("metrics")(pipeline.metrics_command)
app.command("report")(report.report_command)
app.command("diagram")(report.diagram_command)
app.command("node")(live.node_command)
app.command("cluster")(live_cluster.cluster_command)
app.command("pub")(live.pub_command)
app.command("sub")(live.sub_command)
app.command("status")(live.status_command)
app.command("watch")(watch.watch_command)
app.command("manager")(gateway.manager_command)
app.command("token")(live_security.token_command)
app.add_typer(live_security.app, name="cert")
app.add_typer(experiments.app, name="experiments")
app.add_typer(explain.app, name="explain")


def main() -> None:
    """Run the command line and turn our own errors into one line."""
    try:
        app()
    except AntecedeError as error:
        Console(stderr=True, soft_wrap=True).print(f"error: {error}", style="bold red", markup=False, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        sys.exit(130)
