"""Renders the report page: one HTML file that opens anywhere, asks for nothing and runs no script.

This file computes what the page says; `templates/page.html` says how it is marked up, `style/` how it looks.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from antecede.experiments.summary import Line
from antecede.report.agreement import EXPLAINED, Difference, Score, difference, is_bound, scores, unit_in_words
from antecede.report.contents import AuditRow, Contents, ExperimentText
from antecede.report.figure import Figure, figures, strip, strip_axis
from antecede.report.theme import page_style
from antecede.report.wording import capital, count, decimals, listed, metric_in_words, number_in_words

#: The generator of a page, by which an earlier page of ours is recognised and may be replaced.
GENERATOR = "antecede report"
#: The page may fetch nothing, whatever its text says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
#: The number of failed runs and violations on a page; the tables of the sweep hold all.
SHOWN_MAX = 50
#: The number of reasons shown why a rule is unknown.
_REASONS_MAX = 8


def page(contents: Contents) -> str:
    """Render the whole page. The result depends on `contents` alone."""
    sections = [_experiment(contents, name) for name in dict.fromkeys(line.experiment for line in contents.lines)]
    strips = _strips(contents)
    return _template().render(
        contents=contents,
        policy=_POLICY,
        generator=GENERATOR,
        style=Markup(page_style()),
        links=_links(contents, sections, overview=bool(strips)),
        verdict=verdict(contents),
        tiles=[_published_tile(contents), _audit_tile(contents), _runs_tile(contents)],
        strips=strips,
        strip_axis=strip_axis(),
        explained=EXPLAINED,
        experiments=sections,
        rules=_rules(contents.audit or ()),
        violations=[row for row in contents.audit or () if row.verdict == "violated"],
        refused=[row for row in contents.audit or () if row.verdict == "refused"],
        unknown=_unknown(contents.audit or ()),
        shown_max=SHOWN_MAX,
        signs={"good": "✓", "bad": "✕", "open": "–", "warn": "!"},
        gap_signs={"match": "●", "near": "◐", "differs": "○"},
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("antecede.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=count, code=_code)
    return environment.get_template("page.html")


def _code(content: str) -> Markup:
    """Escape text and mark up `code` in backquotes."""
    pieces = enumerate(content.split("`"))
    marked = (Markup("<code>{}</code>").format(piece) if odd % 2 else escape(piece) for odd, piece in pieces)
    return Markup("").join(marked)


def _links(contents: Contents, sections: Sequence["Section"], *, overview: bool) -> list[tuple[str, str]]:
    """The sections of the page by id, with their names in the table of contents."""
    links = [("overview", "How far from print")] if overview else []
    links += [(one.name, one.text.item or one.text.title) for one in sections]
    optional = (
        (contents.failed, "failed", "Failed runs"),
        (True, "audit", "Audit"),
        (contents.pictures, "runs", "Runs to look at"),
        (contents.environment, "environment", "Environment"),
        (contents.commands, "again", "Do it again"),
    )
    return [*links, *((name, label) for present, name, label in optional if present)]


# -- the top of the page ----------------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """`state`: good, bad, warn or open. `detail`: text with `code`. `scores`: a bar for each setting."""

    state: str
    name: str
    figure: str
    detail: str = ""
    scores: Mapping[str, Score] = MappingProxyType({})


def verdict(contents: Contents) -> str:
    """Sum the page up in a few sentences."""
    said = ["These runs have not been audited."] if contents.audit is None else _verdict_on_order(contents)
    by_setting = scores(contents.lines)
    if by_setting:
        parts = [f"{one.match} of {one.total} under the {setting} reading" for setting, one in by_setting.items()]
        said.append(f"Published values that match: {listed(parts)}.")
    elif contents.lines:
        said.append("Nothing was published to compare these values with.")
    failed = len(contents.failed)
    said.append(f"{count(failed, 'run')} failed." if failed else "No run failed.")
    return " ".join(said)


def _verdict_on_order(contents: Contents) -> list[str]:
    said = []
    audit = contents.audit or ()
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


def _published_tile(contents: Contents) -> Tile:
    by_setting = scores(contents.lines)
    if not by_setting:
        return Tile("open", "Published values", "none", "nothing to compare with")
    best = max(by_setting.values(), key=lambda one: one.match / one.total)
    state = "warn" if best.differs else "good"
    return Tile(state, "Published values", f"{best.match} of {best.total} match", scores=by_setting)


def _audit_tile(contents: Contents) -> Tile:
    if contents.audit is None:
        return Tile("open", "Order", "not audited", "run `antecede audit`")
    violations = sum(row.violations for row in contents.audit)
    checked = sum(row.checked for row in contents.audit)
    rules = len({row.rule for row in contents.audit if row.rule})
    runs = len({row.run for row in contents.audit if row.verdict != "refused"})
    refused = sum(row.verdict == "refused" for row in contents.audit)
    state = "bad" if violations or refused else "open" if not checked else "good"
    if state == "good" and contents.runs_finished > runs:
        state = "warn"
    detail = f"{count(checked, 'check')} by {count(rules, 'rule')} in {count(runs, 'run')}"
    detail += f", {count(refused, 'trace')} could not be judged" if refused else ""
    return Tile(state, "Order", count(violations, "violation"), detail)


def _runs_tile(contents: Contents) -> Tile:
    failed = len(contents.failed)
    seeds = sorted({line.seeds for line in contents.lines})
    spread = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}" if seeds else "no"
    experiments = len({line.experiment for line in contents.lines})
    detail = f"{count(experiments, 'experiment')}, {spread} {'seed' if seeds == [1] else 'seeds'} a value"
    figure = f"{contents.runs_finished:,} finished" + (f", {failed:,} failed" if failed else "")
    return Tile("bad" if failed else "good", "Runs", figure, detail)


class Strip(NamedTuple):
    """One experiment under one setting. `label` is empty below the first setting of an experiment."""

    experiment: str
    label: str
    setting: str
    drawing: Markup
    score: Score


def _strips(contents: Contents) -> list[Strip]:
    """A strip for every experiment and setting with published values."""
    found: list[Strip] = []
    for experiment in dict.fromkeys(line.experiment for line in contents.lines):
        said = contents.text_of(experiment)
        lines = [line for line in contents.lines if line.experiment == experiment and line.published is not None]
        for setting, score in scores(lines).items():
            first = not found or found[-1].experiment != experiment
            drawing = strip([line for line in lines if line.setting == setting])
            found.append(Strip(experiment, (said.item or said.title) if first else "", setting, drawing, score))
    return found


# -- one experiment ---------------------------------------------------------------------------------------------------


class Section(NamedTuple):
    """An experiment: its text, its score by setting, its figures, and its values metric by metric."""

    name: str
    text: ExperimentText
    seeds: int
    scores: dict[str, Score]
    figures: list[Figure]
    settings: list[str]
    metrics: list["Metric"]


class Metric(NamedTuple):
    """The rows of one metric in the table of values."""

    label: str
    unit: str
    rows: list["ValueRow"]


class ValueRow(NamedTuple):
    """One protocol at one size: the published value, and ours under each setting (None: not measured)."""

    protocol: str
    nodes: int
    published: str
    ours: list["Ours | None"]


class Ours(NamedTuple):
    value: str
    spread: str
    gap: Difference | None


def _experiment(contents: Contents, name: str) -> Section:
    lines = [line for line in contents.lines if line.experiment == name]
    settings = list(dict.fromkeys(line.setting for line in lines))
    metrics = [
        _metric([line for line in lines if line.metric == metric], settings)
        for metric in dict.fromkeys(line.metric for line in lines)
    ]
    seeds = max(line.seeds for line in lines)
    return Section(name, contents.text_of(name), seeds, scores(lines), figures(lines), settings, metrics)


def _metric(lines: Sequence[Line], settings: Sequence[str]) -> Metric:
    protocols = list(dict.fromkeys(line.protocol for line in lines))
    digits = decimals([line.ours for line in lines])
    published_digits = decimals([line.published for line in lines if line.published is not None])
    by_row: dict[tuple[int, str], dict[str, Line]] = {}
    for line in lines:
        by_row.setdefault((line.nodes, line.protocol), {})[line.setting] = line
    rows = []
    for nodes, protocol in sorted(by_row, key=lambda row: (row[0], protocols.index(row[1]))):
        here = by_row[nodes, protocol]
        ours = [_ours(here[setting], digits) if setting in here else None for setting in settings]
        rows.append(ValueRow(protocol, nodes, _published(next(iter(here.values())), published_digits), ours))
    return Metric(capital(metric_in_words(lines[0].metric)), unit_in_words(lines[0].unit), rows)


def _published(line: Line, digits: int) -> str:
    if line.published is None:
        return ""
    return ("≤ " if is_bound(line) else "") + number_in_words(line.published, digits)


def _ours(line: Line, digits: int) -> Ours:
    spread = "" if line.spread is None else number_in_words(line.spread, digits)
    return Ours(number_in_words(line.ours, digits), spread, difference(line))


# -- the audit --------------------------------------------------------------------------------------------------------


class RuleSummary(NamedTuple):
    """One rule over all audited runs. `numbers`: runs held, violated and unknown; checks; violations."""

    rule: str
    state: str
    words: str
    numbers: tuple[int, int, int, int, int]


def _rules(rows: Sequence[AuditRow]) -> list[RuleSummary]:
    found = []
    for rule in dict.fromkeys(row.rule for row in rows if row.rule):
        of_rule = [row for row in rows if row.rule == rule]
        verdicts = [row.verdict for row in of_rule]
        held, violated, unknown = (verdicts.count(verdict) for verdict in ("held", "violated", "unknown"))
        state, words = ("bad", "violated") if violated else ("good", "held") if held else ("open", "unknown")
        checked, violations = sum(row.checked for row in of_rule), sum(row.violations for row in of_rule)
        found.append(RuleSummary(rule, state, words, (held, violated, unknown, checked, violations)))
    return found


def _unknown(rows: Sequence[AuditRow]) -> list[tuple[str, str]]:
    """Rules that could not be judged, with the reason."""
    reasons = dict.fromkeys((row.rule, row.words) for row in rows if row.verdict == "unknown" and row.words)
    return list(reasons)[:_REASONS_MAX]
