"""`antecede experiments`: reproduces the papers' tables and figures."""

import typer
from rich.console import Console
from rich.table import Table

from antecede.cli import pipeline
from antecede.experiments import EXPERIMENTS

app = typer.Typer(help="Reproduce the papers' tables and figures.", no_args_is_help=True)
app.command("run")(pipeline.run_command)


@app.command("list")
def list_command() -> None:
    """List every experiment with its sizes and settings.

    Example:

        antecede experiments list
    """
    table = Table(box=None, pad_edge=False)
    for column in ("name", "nodes", "settings", "what it shows"):
        table.add_column(column, no_wrap=column == "name")
    for experiment in EXPERIMENTS.values():
        sizes = ", ".join(map(str, experiment.sizes))
        more = ", ".join(map(str, experiment.full_sizes))
        table.add_row(
            experiment.name,
            f"{sizes} (--full: {more})" if more else sizes,
            ", ".join(experiment.settings),
            experiment.title,
        )
    Console().print(table)
