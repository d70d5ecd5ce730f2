"""Shows progress on a terminal: runs done and failed, rate, time left. Prints nothing where there is no terminal."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecede.spark.manifest import RunRow
    from antecede.spark.plan import Plan
    from antecede.spark.search import SearchResult


@contextlib.contextmanager
def waiting(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show `text` and the time elapsed while the block runs."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        progress.add_task(text, total=None)
        yield


def start_spark(master: str | None, *, short: bool = False, quiet: bool = False) -> "SparkSession":
    """Start a Spark session, which takes some seconds, and show that."""
    from antecede.spark.session import spark_session  # noqa: PLC0415 - PySpark is slow to load

    with waiting("starting Spark", quiet=quiet):
        return spark_session(master, short=short)


class _Rate(ProgressColumn):
    """The column for runs per second since the start."""

    def render(self, task: Task) -> Text:
        elapsed = task.elapsed or 0.0
        return Text(f"{task.fields['done'] / elapsed:.1f}/s" if elapsed > 0 else "")


class _Bar:
    """A bar, and beside it how many of `runs` are done and how many have failed."""

    def __init__(self, runs: int = 0, *, quiet: bool = False) -> None:
        self._progress = Progress(
            TextColumn("{task.fields[done]}/{task.fields[runs]} runs"),
            BarColumn(),
            TextColumn("{task.fields[failed]} failed"),
            _Rate(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(stderr=True),
            disable=quiet or not Console(stderr=True).is_terminal,
            transient=True,
        )
        self._done = self._failed = 0
        self._task = self._progress.add_task("", total=runs or None, done=0, runs=runs, failed=0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def _advance(self, advance: float, *, done: int = 1, failed: int = 0) -> None:
        self._done += done
        self._failed += failed
        self._progress.update(self._task, advance=advance, done=self._done, failed=self._failed)


class SweepProgress(_Bar):
    """The bar of a sweep. Its length is the share of work done, not of runs: the longest runs come first."""

    def planned(self, plan: "Plan") -> None:
        runs = sum(len(task.experiments) for task in plan.tasks)
        self._progress.update(self._task, total=sum(task.cost for task in plan.tasks) or 1, runs=runs)

    def row(self, row: "RunRow", cost: float) -> None:
        self._advance(cost, failed=row.error is not None)


class AuditProgress(_Bar):
    """The bar of an audit."""

    def done(self, runs: int) -> None:
        self._advance(runs, done=runs)


class SearchProgress(_Bar):
    """The bar of a search."""

    def part(self, part: "SearchResult") -> None:
        self._advance(part.runs, done=part.runs, failed=part.failed)


@contextlib.contextmanager
def exploring(*, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show how many states an exploration knows and how many of them are done. The block calls what it is given."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as progress:
        task = progress.add_task("0 states", total=None)
        yield lambda known, done: progress.update(task, description=f"{known:,} states, {done:,} done")
