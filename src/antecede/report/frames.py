"""Writes the page of a DataFrame of traces: verdicts, figures, and pictures of the first violations."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from antecede.audit import DEFAULT_RULES
from antecede.core import AntecedeError
from antecede.experiments.summary import Line
from antecede.loading import need_extra
from antecede.report.contents import AuditRow, Contents, Picture
from antecede.report.diagram import explain
from antecede.report.files import PAGE_MARK, check_target, write_own
from antecede.report.load import verdict_row
from antecede.report.render import page
from antecede.report.wording import count
from antecede.trace.files import table_rows
from antecede.trace.tables import as_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The number of pictures, and of rows of a run that is drawn.
_PICTURES_MAX: Final = 3
_ROWS_MAX: Final = 100_000

#: Units of figures that are no times and no counts.
_UNITS: Final = {"bytes": "bytes"}


def frame_report(
    traces: "DataFrame",
    out: str | Path,
    *,
    title: str = "Traces",
    across_topics: bool | None = None,
    rules: Sequence[str] = DEFAULT_RULES,
) -> Path:
    """Judge and measure the runs of a DataFrame with columns of a trace, and write the page `out`.

    The other arguments are those of `antecede.spark.audit`. A page of antecede is replaced; any other file stays.
    """
    need_extra("spark", "a report on a DataFrame")
    from antecede.spark.frames import as_traces  # noqa: PLC0415 - needs PySpark
    from antecede.spark.measures import overview  # noqa: PLC0415
    from antecede.spark.verdicts import audit  # noqa: PLC0415

    target = Path(out)
    check_target(target, PAGE_MARK)
    frame = as_traces(traces).cache()  # each figure reads it again
    found = audit(frame, across_topics=across_topics, rules=rules).collect()
    audited = sorted(
        (verdict_row(row.asDict(recursive=True)) for row in found), key=lambda row: (row.experiment, row.run)
    )
    measured = [row.asDict() for row in overview(frame).collect()]
    runs = len({(row.experiment, row.run) for row in audited})
    contents = Contents(
        title=title,
        lines=[line for row in measured for line in _lines(row)],
        runs_finished=runs,
        audit=audited,
        pictures=[picture for row in _first_broken(audited) if (picture := _picture(frame, row)) is not None],
        environment={"runs": count(runs, "run")},
    )
    frame.unpersist()
    write_own(target, page(contents), PAGE_MARK)
    return target


def _lines(row: dict[str, Any]) -> Iterator[Line]:
    """The figures of one run as lines of a table."""
    for name, value in row.items():
        if value is None or name in ("experiment", "run", "unit"):
            continue
        is_time = name.endswith(("_mean", "_p99")) and name.partition("_")[0] in ("reception", "delivery", "hold")
        yield Line(
            experiment=row["experiment"] or "figures",
            setting="measured",
            protocol=row["run"],
            nodes=0,
            metric=name,
            ours=float(value),
            spread=None,
            seeds=1,
            published=None,
            unit=(row["unit"] or "") if is_time else _UNITS.get(name, ""),
        )


def _first_broken(audited: Sequence[AuditRow]) -> list[AuditRow]:
    """The first violation of each of the first runs that have any."""
    found: dict[tuple[str, str], AuditRow] = {}
    for row in audited:
        if row.example is not None:
            found.setdefault((row.experiment, row.run), row)
    return list(found.values())[:_PICTURES_MAX]


def _picture(frame: "DataFrame", row: AuditRow) -> Picture | None:
    assert row.example is not None
    run = frame.where((frame["run"] == row.run) & (frame["experiment"] == row.experiment))
    table = run.limit(_ROWS_MAX + 1).toArrow()
    if len(table) > _ROWS_MAX:
        return None
    try:
        svg = explain(list(table_rows(as_trace(table, "the DataFrame"))), row.example, standalone=False)
    except AntecedeError:  # too much to draw
        return None
    return Picture(title=f"A violation of {row.rule}", caption=f"Run {row.run}: {row.words}", svg=svg)
