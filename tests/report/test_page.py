"""The page as text: what stands on it, in what order, and that it asks for nothing."""

import re
import xml.etree.ElementTree as ET
from html import unescape
from html.parser import HTMLParser

from antecede.audit import audit
from antecede.report import AuditRow, Contents, ExperimentText, FailedRun, Picture, page, space_time
from antecede.report.files import PAGE_MARK

from .runs import line, results, triangle


def contents(*, broken: bool = False) -> Contents:
    rows = triangle(broken=broken)
    judged = audit(rows)
    return Contents(
        title="Two experiments",
        lines=results(),
        experiments={
            "thesis-table-4.1": ExperimentText(
                title="Packets sent", about="See `--full` & <more>.", item="Table 4.1", paper="Thesis"
            )
        },
        runs_finished=1,
        failed=[
            FailedRun(
                experiment="thesis-table-4.2", run="f00", error="ProtocolError: <held>", command="antecede simulate x"
            )
        ]
        if broken
        else [],
        audit=[
            AuditRow(
                experiment="thesis-table-4.1",
                run="abc",
                rule=rule.name,
                verdict=rule.verdict.value,
                checked=rule.checked,
                violations=rule.violations,
                words=rule.example.words if rule.example else rule.reason,
                command="antecede simulate y",
            )
            for rule in judged.rules
        ],
        pictures=[
            Picture(
                title="The triangle", caption="Told.", svg=space_time(rows, audit=judged, standalone=False), command="z"
            )
        ],
        environment={"Python": "3.11.2", "cores": "2"},
        commands=["antecede experiments run thesis-table-4.1 --seeds 3 --out results", "antecede report results"],
    )


class Reader(HTMLParser):
    """Checks that every element is closed, and keeps what a test asks about."""

    VOID = frozenset({"meta", "br", "img", "hr", "link", "col"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if "id" in values:
            self.ids.append(values["id"] or "")
        if tag == "a":
            self.links.append(values.get("href") or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_its_links_lead_somewhere() -> None:
    reader = read(page(contents(broken=True)))
    assert len(reader.ids) == len(set(reader.ids))
    assert {link.removeprefix("#") for link in reader.links} <= set(reader.ids)
    assert {
        "overview",
        "thesis-table-4.1",
        "thesis-table-4.2",
        "failed",
        "audit",
        "runs",
        "environment",
        "again",
    } <= set(reader.ids)


def test_it_asks_for_nothing_and_runs_nothing() -> None:
    html = page(contents())
    assert "default-src 'none'" in unescape(html)
    addresses = set(re.findall(r"""(?:href|src|url)\s*[=(]\s*["']?([^"')\s>]+)""", html))
    assert all(address.startswith("#") for address in addresses)
    assert "<script" not in html
    assert PAGE_MARK in html[:2048]


def test_the_verdict_is_the_first_thing_said() -> None:
    good = " ".join(read(page(contents())).words)
    assert "Order held in 1 audited run." in good
    assert "No run failed." in good
    assert re.search(r"Published values that match: \d+ of 14 under the literal reading and \d+ of 14", good)
    bad = " ".join(read(page(contents(broken=True))).words)
    assert "A promise of order was broken in 1 of 1 audited run." in bad
    assert "1 run failed." in bad


def test_runs_nobody_audited_are_not_called_clean() -> None:
    html = page(Contents(title="x", lines=results()))
    assert "These runs have not been audited." in html
    assert "not audited" in html
    assert "0 violations" not in html


def test_what_was_not_or_could_not_be_judged_is_said() -> None:
    refused = AuditRow(
        experiment="e", run="r", rule="", verdict="refused", checked=0, violations=0, words="time runs back"
    )
    html = page(Contents(title="x", lines=results(), runs_finished=5, audit=[refused]))
    assert "No run was audited. 1 trace could not be judged. 4 finished runs not audited." in html
    assert "Traces that could not be judged" in html
    assert "time runs back" in html


def test_the_page_counts_runs_as_the_command_line_does() -> None:
    """`antecede audit` says "no violation in 1 runs" and "1 of 2 traces could not be judged" of the same verdicts."""
    held = AuditRow(experiment="e", run="good", rule="fifo", verdict="held", checked=7, violations=0, words="")
    refused = AuditRow(experiment="e", run="bad", rule="", verdict="refused", checked=0, violations=0, words="no time")
    html = page(Contents(title="x", lines=results(), runs_finished=2, audit=[held, refused]))
    assert "Order held in 1 audited run. 1 trace could not be judged." in html
    assert "7 checks by 1 rule in 1 run, 1 trace could not be judged" in html


def test_every_value_stands_beside_its_print_and_difference() -> None:
    html = page(contents())
    (table,) = re.findall(
        r'(?s)<table class="values">.*?</table>', html.partition('id="thesis-table-4.1"')[2].partition("</section>")[0]
    )
    root = ET.fromstring(table.replace("&nbsp;", " "))
    rows = [["".join(cell.itertext()).strip() for cell in row] for row in root.iter("tr")]
    assert rows[0] == ["Quantity", "Protocol", "Nodes", "Published", "Ours"]
    assert rows[1] == ["literal", "calibrated"]
    causal = next(row for row in rows if row[:3] == ["causal", "64", "3,513"])
    assert causal[3] == "3,750 ± 16near: ◐ +6.7 %"
    assert causal[4] == "3,306 ± 16near: ◐ −5.9 %"


def test_figures_have_a_panel_for_each_setting_and_say_what_they_show() -> None:
    html = page(contents())
    section = html.partition('id="thesis-table-4.1"')[2].partition("</section>")[0]
    panels = re.findall(r'<svg class="chart" role="img".*?</svg>', section)
    assert len(panels) == 4  # packets and reduction, under two settings
    assert all("<desc>" in panel and "<title>" in panel for panel in panels)
    assert "causal is lowest at every size, 18 % below none at N = 128." in section
    assert section.count("published") >= 2
    assert "published 3,513" in panels[0]


def test_metrics_at_one_size_become_bars_together() -> None:
    html = page(contents())
    section = html.partition('id="thesis-table-4.2"')[2].partition("</section>")[0]
    assert section.count("ch-bar") == 4
    assert "Packets with …, 256 nodes (%)." in section


def test_text_from_elsewhere_is_never_markup() -> None:
    html = page(contents(broken=True))
    assert "&lt;more&gt;" in html
    assert "<code>--full</code>" in html
    assert "ProtocolError: &lt;held&gt;" in html


def test_a_failed_run_comes_with_its_replay() -> None:
    html = page(contents(broken=True))
    section = html.partition('id="failed"')[2].partition("</section>")[0]
    assert "<code>antecede simulate x</code>" in section


def test_unknown_verdicts_give_their_reason() -> None:
    rows = [
        AuditRow(
            experiment="e", run="r", rule="complete", verdict="unknown", checked=0, violations=0, words="no subscribers"
        )
    ]
    assert "complete unknown: no subscribers." in page(Contents(title="x", lines=results(), audit=rows))


def test_the_same_contents_give_the_same_bytes() -> None:
    assert page(contents()) == page(contents())


def test_one_value_without_print_or_spread_is_enough_for_a_page() -> None:
    html = page(Contents(title="x", lines=[line(3.25, spread=None, nodes=0, metric="ratio", unit="")]))
    read(html)
    assert "Nothing was published to compare these values with." in html
    assert "3.25" in html


def test_a_value_that_is_no_number_spoils_nothing_else() -> None:
    lines = [line(float("nan"), 232.0), line(930.0, 919.0, nodes=32), line(float("inf"), nodes=64)]
    html = page(Contents(title="x", lines=lines))
    read(html)
    assert "nan" not in re.sub(r"<style>.*?</style>", "", html)
    assert "930" in html


def test_no_lines_at_all_still_tell_what_failed() -> None:
    failed = FailedRun(experiment="e", run="r", error="boom", command="antecede simulate x")
    html = page(Contents(title="x", lines=[], failed=[failed]))
    read(html)
    assert "boom" in html
