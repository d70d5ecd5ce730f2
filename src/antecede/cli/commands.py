"""Which commands there are. Each is imported when it is asked for: most run for less long than importing all takes."""

from importlib import import_module, metadata
from typing import Annotated, Final, NamedTuple

import typer

_USE: Final = "Run nodes and use them"
_COMPARE: Final = "Compare protocols"
_JUDGE: Final = "Judge and show what happened"


class _Place(NamedTuple):
    """Where a command, or a group of them, is found; and under what heading the help lists it."""

    module: str
    attribute: str
    panel: str


COMMANDS: Final = {
    "cluster": _Place("live_cluster", "cluster_command", _USE),
    "node": _Place("live", "node_command", _USE),
    "pub": _Place("live", "pub_command", _USE),
    "sub": _Place("live", "sub_command", _USE),
    "status": _Place("live", "status_command", _USE),
    "watch": _Place("watch", "watch_command", _USE),
    "token": _Place("live_security", "token_command", _USE),
    "cert": _Place("live_security", "app", _USE),
    "manager": _Place("gateway", "manager_command", _USE),
    "simulate": _Place("simulate", "simulate_command", _COMPARE),
    "experiments": _Place("experiments", "app", _COMPARE),
    "search": _Place("search", "search_command", _COMPARE),
    "explain": _Place("explain", "app", _COMPARE),
    "audit": _Place("pipeline", "audit_command", _JUDGE),
    "metrics": _Place("pipeline", "metrics_command", _JUDGE),
    "report": _Place("report", "report_command", _JUDGE),
    "diagram": _Place("report", "diagram_command", _JUDGE),
    "demo": _Place("demo", "demo_command", _JUDGE),
}


def make_app(only: str = "") -> typer.Typer:
    """The command line, with one command if `only` names one, else with all."""
    app = typer.Typer(
        name="antecede",
        help="Publish/subscribe whose messages arrive after what they depend on.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_every_command)
    for name in [only] if only in COMMANDS else COMMANDS:
        place = COMMANDS[name]
        found = getattr(import_module(f"antecede.cli.{place.module}"), place.attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, rich_help_panel=place.panel)
        else:
            app.command(name, rich_help_panel=place.panel)(found)
    return app


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"antecede {metadata.version('antecede')}")
        raise typer.Exit


def _every_command(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say which version this is.")
    ] = False,
) -> None:
    """What can be said without a command."""
