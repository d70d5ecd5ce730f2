"""`antecede search`: searches random schedules for one that breaks a protocol."""

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from antecede.cli.pipeline import AS_JSON, MASTER
from antecede.loading import need_extra


def search_command(
    name: Annotated[str | None, typer.Argument(help="Name of the search. Without it: list all searches.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="How many seeds to try.")] = 1000,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Run this seed only, without Spark: replays a failure."),
    ] = None,
    master: MASTER = None,
    as_json: AS_JSON = False,
) -> None:
    """Run a protocol under thousands of random schedules and audit each run.

    The seed alone decides a schedule: when nodes publish, join, leave, crash and are suspected, and which packets the
    links lose, delay or duplicate. Each failure is printed with the command that replays it; the exit code is then 1.

    Examples:

        antecede search

        antecede search vcube-ps --runs 10000

        antecede search vcube-ps --seed 4711
    """
    from antecede.cli.progress import SearchProgress, start_spark, waiting  # noqa: PLC0415
    from antecede.search.registry import SEARCHES, find_search  # noqa: PLC0415
    from antecede.spark.search import search_here, search_on_spark  # noqa: PLC0415

    if name is None:
        table = Table(box=None, pad_edge=False)
        table.add_column("search", no_wrap=True)
        table.add_column("what it varies")
        for known, search in SEARCHES.items():
            table.add_row(known, search.summary)
        Console().print(table)
        return
    find_search(name)
    if seed is not None:
        with waiting(f"seed {seed}", quiet=as_json):
            result = search_here(name, range(seed, seed + 1))
    else:
        need_extra("spark", "antecede search without --seed")
        session = start_spark(master, short=True, quiet=as_json)
        with SearchProgress(runs, quiet=as_json) as progress:
            result = search_on_spark(session, name, range(first, first + runs), progress.part)
    if as_json:
        typer.echo(msgspec.json.encode(result))
    else:
        console = Console(soft_wrap=True, highlight=False)
        console.print(
            f"{result.runs:,} runs, {result.messages:,} messages, {result.deliveries:,} deliveries, "
            f"{result.packets:,} packets, {result.cpu_s:,.0f} s of processor time"
        )
        for failure in result.failures:
            console.print(
                f"seed {failure.seed}: {failure.words}\n  antecede search {name} --seed {failure.seed}",
                markup=False,
            )
        console.print(f"[bold red]{result.failed:,} runs failed" if result.failed else "[bold green]no run failed")
    if result.failed:
        raise typer.Exit(1)
