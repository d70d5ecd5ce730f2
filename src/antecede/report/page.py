"""The report page: one HTML file that opens anywhere, asks for nothing, and runs no script."""

from antecede.report.contents import Contents
from antecede.report.markup import Markup, join, tag, text
from antecede.report.page_experiment import experiment_section
from antecede.report.page_overview import header, overview
from antecede.report.page_rest import (
    audit_section,
    environment_section,
    failed_section,
    pictures_section,
    repeat_section,
)
from antecede.report.page_style import page_style

#: The page cannot fetch anything, even if its text came from somewhere strange.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
#: By this a file is known as an earlier page of ours, which may be replaced.
GENERATOR = "antecede report"


def page(contents: Contents) -> str:
    """The whole page. A function of `contents` alone."""
    sections: list[tuple[str, str, Markup]] = []
    strips = overview(contents)
    if strips:
        sections.append(("overview", "How far from print", strips))
    for name in dict.fromkeys(line.experiment for line in contents.lines):
        said = contents.text_of(name)
        lines = [line for line in contents.lines if line.experiment == name]
        sections.append((name, said.item or said.title, experiment_section(name, said, lines)))
    if contents.failed:
        sections.append(("failed", "Failed runs", failed_section(contents.failed)))
    sections.append(("audit", "Audit", audit_section(contents.audit)))
    if contents.pictures:
        sections.append(("runs", "Runs to look at", pictures_section(contents.pictures)))
    if contents.environment:
        sections.append(("environment", "Environment", environment_section(contents)))
    if contents.commands:
        sections.append(("again", "Do it again", repeat_section(contents.commands)))
    links = [(name, label) for name, label, _ in sections]
    body = tag(
        "body",
        tag("a", text("Skip to the report"), href="#top", class_="skip"),
        _contents(links),
        tag("main", header(contents), *(section for _, _, section in sections)),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="generator", content=GENERATOR),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", text(contents.title)),
        tag("style", Markup(page_style())),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _contents(links: list[tuple[str, str]]) -> Markup:
    items = join(tag("li", tag("a", text(label), href=f"#{name}")) for name, label in links)
    return tag("nav", tag("p", text("Contents")), tag("ol", items), aria_label="Contents")
