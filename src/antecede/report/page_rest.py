"""The page's other sections: failed runs, the audit, diagrams, the environment, and how to do it again."""

from collections.abc import Sequence

from antecede.report.contents import AuditRow, Contents, FailedRun, Picture
from antecede.report.markup import Markup, tag, text
from antecede.report.tally import rule_tallies
from antecede.report.wording import count

#: Beyond this a page is not where one looks for them.
SHOWN_MAX = 50


def failed_section(failed: Sequence[FailedRun]) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", text(one.experiment)),
            tag("td", text(one.error), class_="error"),
            tag("td", tag("code", text(one.command))),
        )
        for one in failed[:SHOWN_MAX]
    ]
    more = f" The first {SHOWN_MAX} are shown." if len(failed) > SHOWN_MAX else ""
    return tag(
        "section",
        tag("h2", text("Failed runs")),
        tag("p", text(f"{count(len(failed), 'run')} raised and left no values.{more} Each command runs one again.")),
        _table(("Experiment", "Error", "Replay"), rows, "Failed runs"),
        id="failed",
    )


def audit_section(rows: Sequence[AuditRow] | None) -> Markup:
    heading = tag("h2", text("Audit"))
    if rows is None:
        told = tag("p", text("Nobody audited these runs. "), tag("code", text("antecede audit DIR")), text(" does."))
        return tag("section", heading, told, id="audit")
    table = []
    for tally in rule_tallies(rows):
        state = "bad" if tally.violated else "good" if tally.held else "open"
        words = "violated" if tally.violated else "held" if tally.held else "unknown"
        sign = {"bad": "✕", "good": "✓", "open": "–"}[state]
        table.append(
            tag(
                "tr",
                tag("th", text(tally.rule), scope="row"),
                tag("td", tag("span", text(sign), class_=f"sign {state}", aria_hidden="true"), text(words)),
                *(
                    tag("td", text(f"{number:,}"), class_="number")
                    for number in (tally.held, tally.violated, tally.unknown, tally.checked, tally.violations)
                ),
            )
        )
    broken = [row for row in rows if row.verdict == "violated"]
    refused = [row for row in rows if row.verdict == "refused"]
    note = "The judge sees only the trace: what nodes published, delivered and sent. Unknown means that a trace held "
    columns = ("Rule", "Verdict", "Runs held", "Runs violated", "Runs unknown", "Checked", "Violations")
    return tag(
        "section",
        heading,
        tag("p", text(note + "nothing a rule could be judged by."), class_="note"),
        _table(columns, table, "Verdicts by rule", numbers_from=2),
        *([_offences("Violations", broken)] if broken else []),
        *([_offences("Traces that could not be judged", refused)] if refused else []),
        *_unknown(rows),
        id="audit",
    )


def _offences(heading: str, broken: Sequence[AuditRow]) -> Markup:
    items = []
    for row in broken[:SHOWN_MAX]:
        what = f"{row.rule}, {count(row.violations, 'violation')}" if row.rule else "refused"
        head = f"{what} in {row.experiment or 'run'} {row.run}"
        command = [tag("code", text(row.command))] if row.command else []
        items.append(tag("li", tag("b", text(head)), tag("p", text(row.words)), *command))
    more = f" (the first {SHOWN_MAX} of {len(broken):,})" if len(broken) > SHOWN_MAX else ""
    return tag("div", tag("h3", text(f"{heading}{more}")), tag("ol", *items), class_="offences")


def _unknown(rows: Sequence[AuditRow]) -> list[Markup]:
    reasons = dict.fromkeys((row.rule, row.words) for row in rows if row.verdict == "unknown" and row.words)
    return [tag("p", text(f"{rule} unknown: {words}."), class_="note") for rule, words in list(reasons)[:8]]


def pictures_section(pictures: Sequence[Picture]) -> Markup:
    shown = []
    for picture in pictures:
        caption = [tag("strong", text(f"{picture.title}. ")), text(picture.caption)]
        if picture.command:
            caption.append(tag("code", text(picture.command), class_="command"))
        drawing = tag("div", picture.svg, class_="scroll", tabindex="0", role="region", aria_label=picture.title)
        shown.append(tag("figure", drawing, tag("figcaption", *caption)))
    told = "Nodes are lines, time runs to the right. Point at a message to follow it through its tree."
    return tag("section", tag("h2", text("Runs to look at")), tag("p", text(told)), *shown, id="runs")


def environment_section(contents: Contents) -> Markup:
    facts = [tag("div", tag("dt", text(name)), tag("dd", text(value))) for name, value in contents.environment.items()]
    return tag("section", tag("h2", text("Environment")), tag("dl", *facts, class_="environment"), id="environment")


def repeat_section(commands: Sequence[str]) -> Markup:
    told = "The same seeds give the same runs, to the byte, on any machine."
    return tag(
        "section",
        tag("h2", text("Do it again")),
        tag("p", text(told)),
        tag("pre", tag("code", text("\n".join(commands))), tabindex="0"),
        id="again",
    )


def _table(columns: Sequence[str], rows: Sequence[Markup], name: str, numbers_from: int | None = None) -> Markup:
    head = [
        tag("th", text(label), scope="col", class_="number" if numbers_from and index >= numbers_from else None)
        for index, label in enumerate(columns)
    ]
    table = tag(
        "table", tag("caption", text(name), class_="hidden"), tag("thead", tag("tr", *head)), tag("tbody", *rows)
    )
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)
