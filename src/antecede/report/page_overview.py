"""The top of the page: a verdict in a sentence, tiles that say it in figures, and how far every value is from print."""

import math
from collections.abc import Sequence

from antecede.experiments.summary import Line
from antecede.report.agreement import EXPLAINED, Agreement, difference
from antecede.report.contents import AuditRow, Contents
from antecede.report.markup import Markup, tag, text
from antecede.report.tally import Score, scores
from antecede.report.wording import count, listed, metric_in_words

_SYMBOLS = {"good": "✓", "bad": "✕", "open": "–", "warn": "!"}
#: Half the width of a strip, and the difference that reaches its end.
_HALF, _FAR = 200.0, 100.0


def header(contents: Contents) -> Markup:
    return tag(
        "header",
        tag("p", text("antecede · report"), class_="kicker"),
        tag("h1", text(contents.title)),
        tag("p", text(verdict(contents)), class_="verdict"),
        tag("div", _published_tile(contents), _audit_tile(contents), _runs_tile(contents), class_="tiles"),
        id="top",
    )


def verdict(contents: Contents) -> str:
    """The whole page in a sentence or three."""
    said = []
    if contents.audit is None:
        said.append("These runs have not been audited.")
    else:
        said += _verdict_on_order(contents, contents.audit)
    by_setting = scores(contents.lines)
    if by_setting:
        parts = [f"{one.match} of {one.total} under the {setting} reading" for setting, one in by_setting.items()]
        said.append(f"Published values that match: {listed(parts)}.")
    elif contents.lines:
        said.append("Nothing was published to compare these values with.")
    failed = len(contents.failed)
    said.append(f"{count(failed, 'run')} failed." if failed else "No run failed.")
    return " ".join(said)


def _verdict_on_order(contents: Contents, audit: Sequence[AuditRow]) -> list[str]:
    said = []
    judged = {row.run for row in audit if row.verdict != "refused"}
    broken = {row.run for row in audit if row.verdict == "violated"}
    refused = {row.run for row in audit if row.verdict == "refused"}
    if broken:
        said.append(f"A promise of order was broken in {len(broken)} of {count(len(judged), 'audited run')}.")
    elif judged:
        said.append(f"Order held in {'every one of ' if len(judged) > 1 else ''}{count(len(judged), 'audited run')}.")
    else:
        said.append("No run was audited.")
    if refused:
        said.append(f"{count(len(refused), 'trace')} could not be judged.")
    if contents.runs_finished > len(judged) + len(refused):
        said.append(f"{count(contents.runs_finished - len(judged) - len(refused), 'finished run')} not audited.")
    return said


def _tile(state: str, name: str, figure: str, *rest: Markup) -> Markup:
    sign = tag("span", text(_SYMBOLS[state]), class_=f"sign {state}", aria_hidden="true")
    return tag(
        "section", tag("h2", sign, text(name)), tag("p", text(figure), class_="figure"), *rest, class_=f"tile {state}"
    )


def _published_tile(contents: Contents) -> Markup:
    by_setting = scores(contents.lines)
    if not by_setting:
        return _tile("open", "Published values", "none", tag("p", text("nothing to compare with")))
    best = max(by_setting.values(), key=lambda one: one.match / one.total)
    state = "good" if best.match == best.total else "warn" if best.differs else "good"
    bars = [
        tag("div", tag("span", text(setting)), stacked_bar(one), tag("span", text(f"{one.match}/{one.total}")))
        for setting, one in by_setting.items()
    ]
    return _tile(state, "Published values", f"{best.match} of {best.total} match", tag("div", *bars, class_="stacks"))


def stacked_bar(one: Score) -> Markup:
    """Matches, near ones and others as shares of one bar."""
    said = f"{one.match} match, {one.near} near, {one.differs} differ"
    parts = [
        tag("i", class_=name, style=f"flex:{number}")
        for name, number in (("match", one.match), ("near", one.near), ("differs", one.differs))
        if number
    ]
    return tag("span", *parts, class_="stack", role="img", aria_label=said, title=said)


def _audit_tile(contents: Contents) -> Markup:
    if contents.audit is None:
        return _tile("open", "Order", "not audited", tag("p", text("run "), tag("code", text("antecede audit"))))
    violations = sum(row.violations for row in contents.audit)
    checked = sum(row.checked for row in contents.audit)
    rules = len({row.rule for row in contents.audit if row.rule})
    runs = len({row.run for row in contents.audit})
    refused = any(row.verdict == "refused" for row in contents.audit)
    state = "bad" if violations or refused else "open" if not checked else "good"
    if state == "good" and contents.runs_finished > runs:
        state = "warn"
    detail = f"{count(checked, 'check')} by {count(rules, 'rule')} in {count(runs, 'run')}"
    return _tile(state, "Order", count(violations, "violation"), tag("p", text(detail)))


def _runs_tile(contents: Contents) -> Markup:
    failed = len(contents.failed)
    seeds = sorted({line.seeds for line in contents.lines})
    spread = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}" if seeds else "no"
    experiments = len({line.experiment for line in contents.lines})
    detail = f"{count(experiments, 'experiment')}, {spread} {'seed' if seeds == [1] else 'seeds'} a value"
    figure = f"{contents.runs_finished:,} finished" + (f", {failed:,} failed" if failed else "")
    return _tile("bad" if failed else "good", "Runs", figure, tag("p", text(detail)))


def overview(contents: Contents) -> Markup:
    """A strip for every experiment and setting: each dot a published value, its place how far ours is from it."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in contents.lines:
        if line.published is not None:
            groups.setdefault((line.experiment, line.setting), []).append(line)
    if not groups:
        return Markup("")
    rows, last = [], ""
    order = list(dict.fromkeys(experiment for experiment, _ in groups))
    for (experiment, setting), lines in sorted(groups.items(), key=lambda group: order.index(group[0][0])):
        said = contents.text_of(experiment)
        name = tag("a", text(said.item or said.title), href=f"#{experiment}") if experiment != last else Markup("")
        last = experiment
        (tally,) = scores(lines).values()
        rows.append(
            tag(
                "tr",
                tag("th", name, scope="row"),
                tag("td", text(setting), class_="setting"),
                tag("td", _strip(lines), class_="strip"),
                tag("td", text(f"{tally.match}/{tally.total}"), class_="number"),
                class_="first" if name else None,
            )
        )
    head = tag(
        "tr",
        *(tag("th", text(name), scope="col") for name in ("Experiment", "Setting")),
        tag("th", _scale(), scope="col", class_="strip"),
        tag("th", text("Match"), scope="col", class_="number"),
    )
    return tag(
        "section",
        tag("h2", text("How far from print")),
        tag(
            "p",
            text(
                "Each dot is a published value; it stands at the difference between ours and the printed one, in "
                "percent of it, or in percentage points where the value is itself a percentage. The axis is stretched "
                "towards the middle. " + EXPLAINED
            ),
            class_="note",
        ),
        tag("table", tag("thead", head), tag("tbody", *rows), class_="overview"),
        id="overview",
    )


def _place(amount: float) -> float:
    """Where a difference stands: by its square root, so that what is near zero can be told apart."""
    share = min(1.0, math.sqrt(abs(amount) / _FAR))
    return _HALF + math.copysign(share, amount) * (_HALF - 10)


def _scale() -> Markup:
    marks = [
        tag(
            "text",
            text(f"{tick:+d}".replace("-", "−") if tick else "0"),
            x=_place(tick),
            y=11,
            class_="ch-axis ch-small ch-middle",
        )
        for tick in (-100, -50, -20, -5, 0, 5, 20, 50, 100)
    ]
    return tag("svg", *marks, class_="chart", view_box="0 0 400 16", role="img", aria_label="difference in percent")


def _strip(lines: Sequence[Line]) -> Markup:
    parts = [
        tag("rect", x=_place(-5), y=0, width=_place(5) - _place(-5), height=18, class_="ch-band"),
        tag("line", x1=0, x2=400, y1=9, y2=9, class_="ch-grid"),
        tag("line", x1=_HALF, x2=_HALF, y1=0, y2=18, class_="ch-zero"),
    ]
    told = []
    for line in lines:
        gap = difference(line)
        if gap is None:
            continue
        what = f"{metric_in_words(line.metric)}, {line.protocol}, {line.nodes:,} nodes: {gap}"
        told.append(f"{what} ({gap.agreement})")
        parts.append(tag("g", tag("title", text(what)), _dot(gap.agreement, _place(gap.amount))))
    return tag("svg", *parts, class_="chart", view_box="0 0 400 18", role="img", aria_label="; ".join(told))


def _dot(agreement: Agreement, x: float) -> Markup:
    name = {Agreement.MATCH: "match", Agreement.NEAR: "near", Agreement.DIFFERS: "differs"}[agreement]
    if agreement is Agreement.MATCH:
        return tag("circle", cx=x, cy=9, r=4.5, class_=f"ch-dot ch-{name}")
    if agreement is Agreement.NEAR:
        return tag("rect", x=x - 4, y=5, width=8, height=8, class_=f"ch-dot ch-{name}")
    return tag("polygon", points=f"{x:.2f},3.5 {x + 5:.2f},13.5 {x - 5:.2f},13.5", class_=f"ch-dot ch-{name}")
