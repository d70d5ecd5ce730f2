"""`antecede watch nats://…`: counts how often a plain reader of a broker is shown an answer before its question."""

import asyncio
import json
import signal
import sys
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from rich.console import Group
from rich.live import Live

from antecede.audit.answers import AnswersJudge, Early, Shown
from antecede.cli.printing import printable
from antecede.cli.tables import cell, make_table, wide_console
from antecede.core import UsageError
from antecede.logs.address import SYSTEMS
from antecede.logs.connect import connect_adapter
from antecede.logs.dependencies import DependencyReader, HeaderNames
from antecede.logs.watching import LogWatch, Observed

#: Rows of the table, and examples in words.
_PAIRS_SHOWN_MAX: Final = 20
_EXAMPLES_SHOWN_MAX: Final = 5


class Broker(NamedTuple):
    """What to watch, as the options of the command say it."""

    url: str
    names: HeaderNames
    since: str
    token: str
    once: bool
    seconds: float
    interval_s: float
    levels: int
    diagram: Path | None
    as_json: bool


def is_broker(url: str) -> bool:
    return urlsplit(url).scheme in SYSTEMS


def with_streams(url: str, streams: str) -> str:
    """The URL with the logs that `--streams` names."""
    if not streams:
        return url
    scheme, query = urlsplit(url).scheme, urlsplit(url).query
    word = SYSTEMS[scheme][1]
    if f"{word}=" in query:
        raise UsageError("--streams", streams, f"stands beside {word}= in the url", "name them once")
    return f"{url}{'&' if query else '?'}{word}={streams}"


def watch_broker(broker: Broker) -> bool:
    """Watch until Ctrl-C, the end of `--seconds`, or with `--once` of the logs. Were all answers in order?"""
    if broker.diagram is not None:
        from antecede.report.files import DIAGRAM_MARK, check_target  # noqa: PLC0415 - needs an extra

        check_target(broker.diagram, DIAGRAM_MARK)
    dependencies = DependencyReader(broker.names)
    adapter = connect_adapter(broker.url, name="antecede-watch", token=broker.token)
    watch = LogWatch(adapter, dependencies)
    show = _Lines(watch) if broker.as_json else _Screen(watch)
    judge = asyncio.run(_watch(broker, watch, show))
    show.ended(judge)
    if broker.diagram is not None and judge.examples:
        from antecede.report.early import draw_early  # noqa: PLC0415 - needs an extra
        from antecede.report.files import DIAGRAM_MARK, write_own  # noqa: PLC0415

        write_own(broker.diagram, f"{draw_early(judge.examples[0], watch.names)}\n", DIAGRAM_MARK)
        if not broker.as_json:
            sys.stdout.write(f"diagram: {broker.diagram}\n")
    return not judge.early


async def _watch(broker: Broker, watch: LogWatch, show: "_Lines | _Screen") -> AnswersJudge:
    async with aclosing(_Closing(watch)):
        await watch.open(broker.since)
        judge = AnswersJudge(starts=watch.positions, levels=broker.levels)

        def take(seen: Observed) -> None:
            for early in judge.take(_shown(seen)):
                show.early(early)

        reading = asyncio.ensure_future(watch.run(take, once=broker.once))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, reading.cancel)
        if broker.seconds > 0:
            loop.call_later(broker.seconds, reading.cancel)
        with show.started():
            while not reading.done():
                await asyncio.wait([reading], timeout=broker.interval_s)
                show.update(judge)
        with suppress(asyncio.CancelledError):
            await reading
        return judge


class _Closing:
    def __init__(self, watch: LogWatch) -> None:
        self.aclose = watch.close


def _shown(seen: Observed) -> Shown:
    record, found = seen.record, seen.dependencies
    return Shown(
        log=seen.log,
        offset=record.offset,
        topic=record.topic,
        stored_us=record.time_us,
        shown_us=seen.shown_us,
        ids=found.ids,
        deps=found.deps,
        causes=found.causes,
        empty=found.empty,
    )


class _Lines:
    """Prints JSON, an object a line."""

    def __init__(self, watch: LogWatch) -> None:
        self._watch = watch
        self._seen = 0

    def started(self) -> "_Lines":
        self._write(kind="start", logs=sorted(self._watch.names.values()))
        sys.stdout.flush()
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def early(self, early: Early) -> None:
        self._write(
            kind="early", question=self._name(early.question), answer=self._name(early.answer), lead_ms=early.lead_ms
        )

    def update(self, judge: AnswersJudge) -> None:
        if judge.records > self._seen:
            self._seen = judge.records
            self._write(kind="seen", records=judge.records, answers=judge.answers, early=judge.early)
        sys.stdout.flush()

    def ended(self, judge: AnswersJudge) -> None:
        pairs = [
            {"question": question, "answer": answer, "dependencies": pair.dependencies, "early": pair.early}
            | {"lead_ms_max": pair.lead_ms_max}
            for (question, answer), pair in sorted(judge.pairs.items())
        ]
        self._write(
            kind="end",
            records=judge.records,
            answers=judge.answers,
            early=judge.early,
            forgotten=judge.forgotten,
            removed=self._watch.removed,
            pairs=pairs,
        )

    def _name(self, shown: Shown) -> dict[str, Any]:
        return {"topic": shown.topic, "log": self._watch.names[shown.log], "offset": shown.offset}

    def _write(self, **row: Any) -> None:
        sys.stdout.write(json.dumps(row) + "\n")


class _Screen:
    """Prints the first early answers in words, and a table of topic pairs: on a terminal always, else at the end."""

    def __init__(self, watch: LogWatch) -> None:
        self._watch = watch
        self._console = wide_console()
        self._live: Live | None = None
        self._told = 0

    def started(self) -> "_Screen":
        logs = ", ".join(sorted(self._watch.names.values()))
        self._console.print(f"reading {logs}; Ctrl-C ends it with a summary", highlight=False, markup=False)
        return self

    def __enter__(self) -> None:
        if self._console.is_terminal:
            self._live = Live("", console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def early(self, early: Early) -> None:
        self._told += 1
        if self._told <= _EXAMPLES_SHOWN_MAX:
            words = printable(early.words(self._watch.names))
            self._console.print(words, style="red", markup=False, highlight=False, soft_wrap=True)

    def update(self, judge: AnswersJudge) -> None:
        if self._live is not None:
            self._live.update(self._tables(judge), refresh=True)

    def ended(self, judge: AnswersJudge) -> None:
        self._console.print(self._tables(judge))

    def _tables(self, judge: AnswersJudge) -> Group:
        titles = ("question", "answer", "dependencies", "shown before", "share", "longest ms")
        table = make_table(*titles, left=("question", "answer"))
        worst = sorted(judge.pairs.items(), key=lambda one: (-one[1].early, one[0]))
        for (question, answer), pair in worst[:_PAIRS_SHOWN_MAX]:
            share = f"{pair.early / pair.dependencies:.2%}"
            counts = (f"{pair.dependencies:,}", f"{pair.early:,}", share, f"{pair.lead_ms_max:,.1f}")
            table.add_row(cell(question), cell(answer), *counts)
        seen = f"{judge.records:,} records, {judge.answers:,} of them depend on records of other logs"
        verdict = (
            f"[bold red]{judge.early:,} were shown before a record they depend on[/]"
            if judge.early
            else "[green]none was shown before a record it depends on[/]"
            if judge.answers
            else "[yellow]nothing to judge: no record names another; see --id, --cause, --correlation and --flow[/]"
        )
        notes = []
        if judge.forgotten:
            notes.append(f"{judge.forgotten:,} answers were forgotten while they waited: the counts are lower bounds")
        if self._watch.removed:
            notes.append(f"retention removed {self._watch.removed:,} offsets before they were read")
        return Group(table, seen, verdict, *notes)
