"""The command line: `antecede --help`.

Every command is a thin shell around a function of the package. Mistakes are answered in one line on standard error and
with exit code 2; what went wrong while running (a failed run, a violated order) with exit code 1.
"""

import sys
from importlib import metadata
from typing import Annotated

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
_USE = "Run nodes and use them"
app.command("cluster", rich_help_panel=_USE)(live_cluster.cluster_command)
app.command("node", rich_help_panel=_USE)(live.node_command)
app.command("pub", rich_help_panel=_USE)(live.pub_command)
app.command("sub", rich_help_panel=_USE)(live.sub_command)
app.command("status", rich_help_panel=_USE)(live.status_command)
app.command("watch", rich_help_panel=_USE)(watch.watch_command)
app.command("token", rich_help_panel=_USE)(live_security.token_command)
app.add_typer(live_security.app, name="cert", rich_help_panel=_USE)
app.command("manager", rich_help_panel=_USE)(gateway.manager_command)
_COMPARE = "Compare protocols"
app.command("simulate", rich_help_panel=_COMPARE)(simulate.simulate_command)
app.add_typer(experiments.app, name="experiments", rich_help_panel=_COMPARE)
app.command("search", rich_help_panel=_COMPARE)(search.search_command)
app.add_typer(explain.app, name="explain", rich_help_panel=_COMPARE)
_JUDGE = "Judge and show what happened"
app.command("audit", rich_help_panel=_JUDGE)(pipeline.audit_command)
app.command("metrics", rich_help_panel=_JUDGE)(pipeline.metrics_command)
app.command("report", rich_help_panel=_JUDGE)(report.report_command)
app.command("diagram", rich_help_panel=_JUDGE)(report.diagram_command)
app.command("demo", rich_help_panel=_JUDGE)(demo.demo_command)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"antecede {metadata.version('antecede')}")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say which version this is.")
    ] = False,
) -> None:
    """What can be said without a command."""


def main() -> None:
    """Run the command line and turn our own errors into one line."""
    try:
        app()
    except AntecedeError as error:
        Console(stderr=True, soft_wrap=True).print(f"error: {error}", style="bold red", markup=False, highlight=False)
        sys.exit(2)
    except OSError as error:  # a disk that is full, a file that may not be read: what was not foreseen more closely
        where = f"{error.filename}: " if error.filename else ""
        Console(stderr=True, soft_wrap=True).print(
            f"error: {where}{error.strerror or error}", style="bold red", markup=False, highlight=False
        )
        sys.exit(1)
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        sys.exit(130)
