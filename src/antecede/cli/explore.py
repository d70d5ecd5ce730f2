"""`antecede explore`: explores every schedule of a small system."""

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from antecede.cli.pipeline import AS_JSON
from antecede.core import UsageError


def explore_command(
    name: Annotated[str | None, typer.Argument(help="Name of the model. Without it: list all models.")] = None,
    states: Annotated[int, typer.Option(min=1, help="Stop after so many states.")] = 500_000,
    seconds: Annotated[float, typer.Option(min=1, help="Stop after so many seconds of processor time.")] = 600.0,
    depth_first: Annotated[
        bool, typer.Option("--depth-first", help="Go deep first: reaches ends sooner, prints longer schedules.")
    ] = False,
    schedule: Annotated[
        str | None, typer.Option(help="Replay this schedule, as a violation prints it, and tell it step by step.")
    ] = None,
    as_json: AS_JSON = False,
) -> None:
    """Explore every schedule of a small system and judge each.

    A model is two to four nodes, a few publications and a few faults. In each state any packet may arrive, any
    application may go on, and within the model's bounds any timer may expire, any packet may be lost and any node may
    crash. The audit judges order after every step, and everything else when the system has come to rest. A violation
    is printed as a shortest schedule; the exit code is then 1. Ctrl-C stops and prints what was reached.

    `antecede search` draws large systems at random instead.

    Examples:

        antecede explore

        antecede explore vcube-ps

        antecede explore vcube-ps --states 10000
    """
    from antecede.cli.progress import exploring  # noqa: PLC0415
    from antecede.search.exhaustive.explorer import explore  # noqa: PLC0415
    from antecede.search.exhaustive.registry import MODELS, find_model  # noqa: PLC0415
    from antecede.search.exhaustive.telling import tell  # noqa: PLC0415

    console = Console(soft_wrap=True, highlight=False)
    if name is None:
        table = Table(box=None, pad_edge=False)
        table.add_column("model", no_wrap=True)
        table.add_column("what it is")
        for known, model in MODELS.items():
            table.add_row(known, model.in_words)
        Console().print(table)
        return
    model = find_model(name)
    if schedule is not None:
        told = tell(model, _indices(schedule))
        console.print("\n".join(told.lines), markup=False)
        for rule, words in told.offences.items():
            console.print(f"{rule}: {words}", markup=False)
        console.print("[bold red]a promise is broken" if told.offences else "[bold green]no promise is broken")
        raise typer.Exit(1 if told.offences else 0)
    with exploring(quiet=as_json) as progress:
        found = explore(model, states_max=states, seconds_max=seconds, depth_first=depth_first, progress=progress)
    if as_json:
        typer.echo(msgspec.json.encode(found))
    else:
        console.print(f"{model.in_words}\n{found.in_words}", markup=False)
        if not found.ok:
            console.print("\n".join(tell(model, found.schedule).lines), markup=False)
            for rule, words in found.offences.items():
                console.print(f"{rule}: {words}", markup=False)
            indices = ",".join(map(str, found.schedule))
            console.print(f"  antecede explore {name} --schedule {indices}", markup=False)
        style = "green" if found.end == "exhausted" else "red" if not found.ok else "yellow"
        console.print(f"[bold {style}]{found.verdict}")
    if not found.ok:
        raise typer.Exit(1)


def _indices(schedule: str) -> list[int]:
    """The moves of a schedule, as a violation prints it; an empty one has none."""
    try:
        return [int(index) for index in schedule.split(",") if index]
    except ValueError:
        problem = "is not a list of numbers joined by commas"
        raise UsageError("schedule", schedule, problem, "copy it from what a violation prints, as in 0,0,3,1") from None
