"""The page and the diagram in a real Chromium, wide and narrow, light and dark, on screen and on paper."""

from pathlib import Path

import pytest

from antecede.audit import audit
from antecede.report import page, space_time, theme
from antecede.sim import RunSpec, simulate

from .browser import Browser
from .png import read_png
from .runs import eventful, triangle
from .test_page import contents

#: Things wider than the window, unless they scroll within themselves.
OVERFLOWING = """
[...document.querySelectorAll('main *, nav *')]
  .filter(e => !e.closest('.scroll, pre, .hidden, svg') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.tagName + '.' + e.className).slice(0, 5)
"""

#: Pairs of texts in drawings that lie on each other, by their painted boxes; a touch is no harm.
OVERLAPPING = """
[...document.querySelectorAll('SELECTOR')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim())
    .map(t => [t.textContent, t.getBoundingClientRect()]);
  return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) => {
    const w = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    return w > 4 && h > 5;
  }).map(([b]) => a + ' over ' + b));
})
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page(contents(broken=True)), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [1280, 768, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_renders(browser: Browser, report: Path, pictures: Path, width: int, dark: bool) -> None:
    browser.open(report, width=width, dark=dark)
    assert browser.complaints == []
    assert browser.requests == [report.as_uri()]
    assert browser.evaluate("document.querySelectorAll('table.values').length") == 2
    assert browser.evaluate("document.querySelectorAll('svg.chart').length") > 6
    scroll, client = browser.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert browser.evaluate(OVERFLOWING) == []
    assert scroll <= client == width
    shot = browser.screenshot(pictures / f"page-{width}-{'dark' if dark else 'light'}.png")
    picture = read_png(shot)
    assert (picture.width, picture.height) == (width, 900)
    colours = theme.DARK if dark else theme.LIGHT
    assert picture.near(colours["ground"], 0) > 0.4 * width * 900
    assert picture.near(colours["ink"]) > 500  # there is text
    assert picture.near(colours["bad"]) > 20  # and a verdict that is not good


@pytest.mark.parametrize("selector", ["#thesis-table-4\\.1", "#thesis-table-4\\.2", "#overview", "#audit", "#runs"])
def test_each_section_shows_something(browser: Browser, report: Path, pictures: Path, selector: str) -> None:
    browser.open(report)
    name = selector.strip("#").replace("\\", "")
    picture = read_png(browser.screenshot(pictures / f"section-{name}.png", selector))
    assert picture.height > 150
    assert len(picture.colours) > 30


@pytest.mark.parametrize("width", [1280, 390])
def test_no_text_lies_on_other_text_in_figures(browser: Browser, report: Path, width: int) -> None:
    browser.open(report, width=width)
    assert browser.evaluate(OVERLAPPING.replace("SELECTOR", "svg.chart, svg.space-time")) == []


def test_it_prints_in_light_colours_without_navigation(browser: Browser, report: Path, pictures: Path) -> None:
    browser.open(report, dark=True, media="print")
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(theme.LIGHT["ground"][place : place + 2], 16) for place in (1, 3, 5))
    assert ground == f"rgb({red}, {green}, {blue})"
    assert browser.pdf(pictures / "page.pdf").startswith(b"%PDF")


def test_every_picture_has_words_for_those_who_do_not_see_it(browser: Browser, report: Path) -> None:
    browser.open(report)
    nameless = """[...document.querySelectorAll('svg')].filter(s => s.getAttribute('aria-hidden') !== 'true'
        && !(s.getAttribute('role') === 'img' && (s.getAttribute('aria-label') || s.querySelector('title')))).length"""
    assert browser.evaluate(nameless) == 0
    assert browser.evaluate("document.querySelectorAll('h1').length") == 1
    assert browser.evaluate("[...document.querySelectorAll('table')].every(t => t.querySelector('th[scope]'))")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("run", ["triangle", "eventful", "sixteen"])
def test_a_diagram_stands_alone(browser: Browser, tmp_path: Path, pictures: Path, run: str, dark: bool) -> None:
    if run == "sixteen":
        spec = RunSpec(protocol="causal-aggregation", nodes=16, workload="uniform:window=440")
        recorder = simulate(spec, trace=True).trace
        assert recorder is not None
        rows = list(recorder.rows())
    else:
        rows = triangle() if run == "triangle" else eventful()
    report = audit(rows)
    file = tmp_path / f"{run}.svg"
    file.write_text(space_time(rows, title=run, audit=report), encoding="utf-8")
    browser.open(file, width=1300, height=1000, dark=dark)
    assert browser.complaints == []
    assert browser.evaluate(OVERLAPPING.replace("SELECTOR", "svg")) == []
    picture = read_png(browser.screenshot(pictures / f"diagram-{run}-{'dark' if dark else 'light'}.png"))
    colours = theme.DARK if dark else theme.LIGHT
    assert picture.near(colours["ground"], 1) > 100_000
    assert picture.near(colours["hue-1"], 20) > 50
    assert (picture.near(colours["bad"], 8) > 100) == (not report.ok)
