"""One experiment on the page: what it is about, its figures, and every value beside the published one."""

from collections.abc import Sequence

from antecede.experiments.summary import Line
from antecede.report.agreement import Agreement, difference, is_bound, unit_in_words
from antecede.report.contents import ExperimentText
from antecede.report.figure import figures
from antecede.report.markup import Markup, join, tag, text
from antecede.report.page_overview import stacked_bar
from antecede.report.tally import scores
from antecede.report.wording import capital, count, decimals, metric_in_words, number_in_words

_SIGNS = {Agreement.MATCH: ("●", "match"), Agreement.NEAR: ("◐", "near"), Agreement.DIFFERS: ("○", "differs")}


def experiment_section(name: str, said: ExperimentText, lines: Sequence[Line]) -> Markup:
    heading = [tag("span", text(said.item), class_="item")] if said.item else []
    seeds = max(line.seeds for line in lines)
    facts = [tag("code", text(name)), text(f" · {count(seeds, 'seed')}")]
    if said.paper:
        facts.insert(0, text(f"{said.paper} · "))
    return tag(
        "section",
        tag("h2", *heading, text(f" {said.title}")),
        tag("p", *facts, class_="facts"),
        *([_rich(said.about)] if said.about else []),
        _score_line(lines),
        *(figure.html() for figure in figures(lines)),
        _table(said.item or name, lines),
        id=name,
        class_="experiment",
    )


def _rich(about: str) -> Markup:
    """Text with `code` in backquotes."""
    pieces = about.split("`")
    return tag("p", *(tag("code", text(piece)) if odd % 2 else text(piece) for odd, piece in enumerate(pieces)))


def _score_line(lines: Sequence[Line]) -> Markup:
    found = [
        tag("li", tag("b", text(setting)), stacked_bar(one), text(f"{one.match} of {one.total} match"))
        for setting, one in scores(lines).items()
    ]
    return tag("ul", *found, class_="scores") if found else Markup("")


def _table(name: str, lines: Sequence[Line]) -> Markup:
    settings = list(dict.fromkeys(line.setting for line in lines))
    columns = [("Quantity", "left"), ("Protocol", "left"), ("Nodes", "number"), ("Published", "number")]
    head = [tag("th", text(label), scope="col", class_=side, rowspan=2) for label, side in columns]
    head.append(tag("th", text("Ours"), scope="colgroup", colspan=len(settings), class_="over"))
    below = [tag("th", text(setting), scope="col", class_="number") for setting in settings]
    bodies = []
    for metric in dict.fromkeys(line.metric for line in lines):
        bodies.append(_metric_rows([line for line in lines if line.metric == metric], settings))
    table = tag(
        "table",
        tag("caption", text(f"{name}: ours, published, and the difference"), class_="hidden"),
        tag("thead", tag("tr", *head), tag("tr", *below)),
        *bodies,
        class_="values",
    )
    note = tag("p", text("Ours is the mean ± standard deviation over seeds; below it the difference."), class_="note")
    region = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=f"Values of {name}")
    return join((note, region))


def _metric_rows(lines: Sequence[Line], settings: Sequence[str]) -> Markup:
    places = sorted(
        dict.fromkeys((line.nodes, line.protocol) for line in lines),
        key=lambda place: (place[0], [line.protocol for line in lines].index(place[1])),
    )
    unit = unit_in_words(lines[0].unit)
    label = [text(capital(metric_in_words(lines[0].metric)))]
    label += [tag("span", text(f" {unit}"), class_="unit")] if unit else []
    digits = decimals([line.ours for line in lines])
    printed_digits = decimals([line.published for line in lines if line.published is not None])
    rows = []
    for position, (nodes, protocol) in enumerate(places):
        here = {line.setting: line for line in lines if (line.nodes, line.protocol) == (nodes, protocol)}
        any_line = next(iter(here.values()))
        cells = [tag("th", *label, rowspan=len(places), scope="rowgroup")] if position == 0 else []
        cells += [tag("td", text(protocol)), tag("td", text(f"{nodes:,}" if nodes else "–"), class_="number")]
        cells.append(tag("td", _published(any_line, printed_digits), class_="number printed"))
        cells += [tag("td", _ours(here.get(setting), digits), class_="number") for setting in settings]
        rows.append(tag("tr", *cells))
    return tag("tbody", *rows)


def _published(line: Line, digits: int) -> Markup:
    if line.published is None:
        return tag("span", text("–"), class_="none", title="not printed")
    return text(("≤ " if is_bound(line) else "") + number_in_words(line.published, digits))


def _ours(line: Line | None, digits: int) -> Markup:
    if line is None:
        return tag("span", text("–"), class_="none", title="not measured")
    parts = [text(number_in_words(line.ours, digits))]
    if line.spread is not None:
        parts.append(tag("span", text(f" ± {number_in_words(line.spread, digits)}"), class_="spread"))
    gap = difference(line)
    if gap is not None:
        sign, name = _SIGNS[gap.agreement]
        said = tag("span", text(f"{gap.agreement}: "), class_="hidden")
        mark = tag("span", text(sign), aria_hidden="true")
        parts.append(tag("span", said, mark, text(f" {gap}"), class_=f"gap {name}", title=str(gap.agreement)))
    return join(parts)
