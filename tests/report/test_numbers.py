"""Scales, words and agreement: the small functions a page is made from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.report.agreement import Agreement, difference, unit_in_words
from antecede.report.markup import number, tag, text, wrap
from antecede.report.scale import Extent, log_ticks, round_ticks, short, value_scale
from antecede.report.series import Point, Series, crossings, in_words
from antecede.report.wording import decimals, family, listed, metric_in_words, number_in_words

from .runs import line


def test_markup_escapes_what_it_is_given() -> None:
    assert tag("a", text("<&>"), title='"', class_="x") == '<a title="&quot;" class="x">&lt;&amp;&gt;</a>'
    assert tag("line", x1=1.0, stroke_width=2) == '<line x1="1" stroke-width="2"/>'
    assert tag("p", id=None) == "<p></p>"


def test_numbers_are_written_one_way() -> None:
    assert [number(value) for value in (1.0, 0.005, -0.001, 12.3456, 1e6)] == ["1", "0.01", "0", "12.35", "1000000"]


def test_words_wrap_without_losing_any() -> None:
    words = "node 2 delivered chat/1.1 before chat/0.1 and a-word-that-is-far-too-long-for-any-line"
    assert " ".join(wrap(words, 120, 12)) == words
    assert len(wrap(words, 120, 12)) > 2


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_are_round_within_and_few(low: float, span: float) -> None:
    ticks = round_ticks(low, low + span)
    assert len(ticks) <= 6
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in ticks)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.lists(st.floats(-1e6, 1e6), max_size=5))
def test_a_scale_holds_every_value(values: list[float], whiskers: list[float]) -> None:
    scale, ticks = value_scale(Extent(values, whiskers), 0, 100)
    assert ticks
    for value in values:
        assert -1e-6 <= scale(value) <= 100 + 1e-6


def test_values_far_apart_get_a_logarithmic_scale() -> None:
    scale, ticks = value_scale(Extent([240, 65_280]), 0, 100)
    assert scale.log
    assert [short(tick) for tick in ticks] == ["300", "1k", "3k", "10k", "30k"]
    assert log_ticks(1, 40) == [1, 3, 10, 30]
    assert not value_scale(Extent([240, 4032]), 0, 100)[0].log


@pytest.mark.parametrize(
    ("ours", "published", "unit", "words", "agreement"),
    [
        (234.0, 232.0, "packets", "+0.9 %", Agreement.MATCH),
        (53_319.0, 49_262.0, "packets", "+8.2 %", Agreement.NEAR),
        (100.0, 200.0, "packets", "−50.0 %", Agreement.DIFFERS),
        (2.4, 3.3, "percent", "−0.9 pp", Agreement.MATCH),
        (80.0, 84.0, "percent", "−4.0 pp", Agreement.MATCH),  # within 5 % of it
        (9.0, 5.0, "percent", "+4.0 pp", Agreement.NEAR),
        (0.0, 0.0, "percent", "±0.0 pp", Agreement.MATCH),
        (3.0, 0.0, "nodes", "+100 %", Agreement.DIFFERS),
        (0.0, 0.0, "nodes", "±0.0 %", Agreement.MATCH),
        (4.2, 6.0, "entries_upper_bound", "−30.0 %", Agreement.MATCH),  # "at most 6"
        (8.0, 6.0, "entries_upper_bound", "+33.3 %", Agreement.DIFFERS),
    ],
)
def test_how_near_a_value_comes(ours: float, published: float, unit: str, words: str, agreement: Agreement) -> None:
    found = difference(line(ours, published, unit=unit))
    assert found is not None
    assert (str(found), found.agreement) == (words, agreement)


def test_nothing_published_is_no_difference() -> None:
    assert difference(line(3.0, None)) is None


def test_words_for_metrics_and_units() -> None:
    assert metric_in_words("packet_bytes_100_200") == "packet bytes 100–200"
    assert family(["packets_with_1_message", "packets_with_2_messages"]) == (
        "packets with",
        ["1 message", "2 messages"],
    )
    assert family(["largest_bundle"]) == ("", ["largest bundle"])
    assert family(["latency", "latency_vs_none"]) == ("", ["latency", "latency vs none"])
    assert [unit_in_words(unit) for unit in ("percent", "ut", "entries_upper_bound", "")] == [
        "%",
        "u.t.",
        "entries",
        "",
    ]
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_decimals_follow_the_size_of_what_stands_together() -> None:
    assert decimals([240, 992]) == 0
    assert number_in_words(49_262.4, decimals([49_262.4])) == "49,262"
    assert number_in_words(-0.35, decimals([0.35, 1.2])) == "−0.35"
    assert decimals([0.0123]) == 3


def _series(label: str, *values: float, spread: float = 0.0) -> Series:
    return Series(label, 0, [Point(16 * 2**i, value, spread, None) for i, value in enumerate(values)])


def test_lines_that_cross_are_found_between_the_sizes() -> None:
    (cross,) = crossings([_series("one", 10, 20, 30), _series("two", 20, 22, 24)])
    assert 32 < cross.x < 64
    assert 20 < cross.y < 30
    assert in_words([_series("one", 10, 20, 30), _series("two", 20, 22, 24)]) == (
        f"Lines cross: one and two near N = {cross.x:,.0f}. At N = 64, two is lowest, 20 % below one."
    )


def test_luck_is_no_lead() -> None:
    close = [_series("one", 10, 20, 30, spread=3), _series("two", 11, 19, 31, spread=3)]
    assert crossings(close) == []
    assert in_words(close) == "one and two lie within their spread of each other."


def test_a_lead_is_told_with_its_size() -> None:
    assert in_words([_series("none", 100, 200), _series("causal", 90, 150)]) == (
        "causal is lowest at every size, 25 % below none at N = 32."
    )
    assert "elsewhere within the spread" in in_words([_series("a", 100, 200), _series("b", 100, 150)])
    assert in_words([_series("alone", 1, 2)]) == ""
