"""Draws how a reader of logs was shown an answer before its question.

Logs are lines, and so is the reader. A dot is a record that a log stored, an arrow its way to the reader, the square
the moment at which the reader was shown it.
"""

from collections.abc import Mapping

from markupsafe import Markup

from antecede.audit.answers import ExampleOfEarly, Shown
from antecede.report.diagram import space_time
from antecede.report.scene import Key, Violation
from antecede.trace import Event, Row


def draw_early(example: ExampleOfEarly, names: Mapping[int, str]) -> Markup:
    """An SVG file. `names`: by log, its name."""
    early = example.early
    logs = sorted({early.question.log, early.answer.log}, key=lambda log: names[log])
    node_of = {log: node for node, log in enumerate(logs)}
    reader = len(logs)
    records = [early.answer, *[one for one in example.around if one.log in node_of], early.question]
    records = list(dict.fromkeys(records))
    # Clocks of servers and of the reader differ. No record was shown before it was stored.
    ahead_us = max(0, *[one.stored_us - one.shown_us for one in records])
    rows = []
    for one in records:
        topic, source, seq = _key(one, node_of)
        rows.append(Row(one.stored_us, Event.PUBLISH, source, topic=topic, source=source, seq=seq))
        rows.append(Row(one.shown_us + ahead_us, Event.DELIVER, reader, topic=topic, source=source, seq=seq))
    rows.sort(key=lambda row: row.time_us)
    at = [
        next(
            index
            for index, row in enumerate(rows)
            if row.event is Event.DELIVER and (row.topic, row.source, row.seq) == _key(one, node_of)
        )
        for one in (early.answer, early.question)
    ]
    told = Violation(
        "causal",
        early.words(names),
        (reader,),
        (_key(early.question, node_of), _key(early.answer, node_of)),
        tuple(at),
    )
    lines = {node: names[log] for log, node in node_of.items()} | {reader: "reader"}
    return space_time(rows, title="An answer before its question", audit=[told], names=lines)


def _key(shown: Shown, node_of: Mapping[int, int]) -> Key:
    return shown.topic, node_of[shown.log], shown.offset
