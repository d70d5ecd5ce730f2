"""Lists the commands and builds the command line from them.

A command's module is imported when the command is run, since importing all of them takes longer than most commands
do. `antecede --help` is written from the table below and imports none of them.
"""

from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from antecede.cli import version_line
from antecede.loading import need_extra

_USE: Final = "Run nodes and use them"
_COMPARE: Final = "Compare protocols (extras: lab, spark)"
_JUDGE: Final = "Judge and show what happened (extras: lab, spark)"


class _Overview(TyperGroup):
    """Lists the commands in the plain help text under the headings of the table below."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel in dict.fromkeys(command.panel for command in COMMANDS.values()):
            with formatter.section(panel):
                formatter.write_dl([(name, one.summary) for name, one in COMMANDS.items() if one.panel == panel])


class Command(NamedTuple):
    """A command or a group of commands: the heading and line of its help, where it is found, the extra it needs."""

    panel: str
    summary: str
    module: str
    attribute: str
    extra: str | None = None


COMMANDS: Final = {
    "node": Command(_USE, "Run one node.", "node", "node_command"),
    "cluster": Command(_USE, "Run several nodes on this machine, or forget one.", "cluster", "app"),
    "pub": Command(_USE, "Publish messages.", "client", "pub_command"),
    "sub": Command(_USE, "Print messages in causal order.", "client", "sub_command"),
    "status": Command(_USE, "Show the state of a node and its cluster.", "client", "status_command"),
    "token": Command(_USE, "Make a token for a client.", "security", "token_command"),
    "cert": Command(_USE, "Make certificates for a cluster.", "security", "app"),
    "watch": Command(_USE, "Audit running nodes, or judge a broker of others.", "watch", "watch_command"),
    "manager": Command(
        _USE, "Run a manager for total order over NATS. Needs the extra nats.", "gateway", "manager_command", "nats"
    ),
    "simulate": Command(_COMPARE, "Simulate one run and audit it.", "simulate", "simulate_command", "lab"),
    "experiments": Command(_COMPARE, "Reproduce the papers' tables and figures.", "experiments", "app", "lab"),
    "search": Command(
        _COMPARE, "Search random schedules for one that breaks a protocol.", "search", "search_command", "lab"
    ),
    "explore": Command(_COMPARE, "Explore every schedule of a small system.", "explore", "explore_command", "lab"),
    "explain": Command(_COMPARE, "Draw the tree that a node's messages take.", "explain", "app"),
    "audit": Command(_JUDGE, "Check traces for order, loss and duplicates.", "pipeline", "audit_command", "spark"),
    "metrics": Command(_JUDGE, "Compute figures from traces.", "pipeline", "metrics_command", "spark"),
    "report": Command(_JUDGE, "Write the results of experiments as an HTML page.", "report", "report_command", "lab"),
    "diagram": Command(_JUDGE, "Draw a small run as a space-time diagram.", "report", "diagram_command", "lab"),
    "demo": Command(_JUDGE, "Show a live cluster, an audit and a published table.", "demo", "demo_command", "spark"),
}

_EPILOG: Final = """
Begin with: antecede cluster --nodes 4

In a second terminal: antecede sub 'rooms/#'

In a third: antecede pub rooms/1 hello

`antecede COMMAND --help` has examples for each command.
"""


def make_app(only: str = "") -> typer.Typer:
    """Return the command line with the one command that `only` names; otherwise a list of all, for the help text.

    Raises `MissingExtraError` if that command needs an extra that is not installed.
    """
    app = typer.Typer(
        name="antecede",
        help="Publish/subscribe in which a message arrives after every message it depends on.",
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        cls=_Overview,
        rich_markup_mode="markdown" if only in COMMANDS else None,  # the overview is plain: loading rich takes a while
        pretty_exceptions_enable=False,
    )
    app.callback()(_common_options)
    if only in COMMANDS:
        _add(app, only, COMMANDS[only])
        return app
    for name, command in COMMANDS.items():
        app.command(name, help=command.summary)(_listed_only)
    return app


def _add(app: typer.Typer, name: str, command: Command) -> None:
    if command.extra is not None:
        need_extra(command.extra, f"antecede {name}")
    found = getattr(import_module(f"antecede.cli.{command.module}"), command.attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, rich_help_panel=command.panel)
    else:
        app.command(name, rich_help_panel=command.panel)(found)


def _listed_only() -> None:
    """Stands for a command in the list of all commands. `make_app` loads the command that is to run."""


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(version_line())
        raise typer.Exit


def _common_options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """Takes the options that need no command."""
