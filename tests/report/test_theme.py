"""Colours are measured, not believed: contrast as WCAG counts it, distance as colour-blind readers see it."""

from itertools import combinations

import pytest

from antecede.report import theme

#: Machado, Oliveira and Fernandes 2009, full severity, on linear RGB.
SEEN = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "tritanopia": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
#: Of text to its background, as WCAG asks for.
TEXT_CONTRAST = 4.5
SCHEMES = {"light": theme.LIGHT, "dark": theme.DARK}
HUES = [theme.hue(position) for position in range(theme.SERIES)]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def seen_as(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """In CIELAB, after the eye."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    red, green, blue = (min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in matrix)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(one: str, other: str, matrix: tuple[tuple[float, ...], ...]) -> float:
    pairs = zip(seen_as(one, matrix), seen_as(other, matrix), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_is_readable(scheme: str) -> None:
    colours = SCHEMES[scheme]
    for name in ("ink", "muted", "accent", "good", "warn", "bad", *(f"{hue}-text" for hue in HUES)):
        assert contrast(colours[name], colours["ground"]) >= TEXT_CONTRAST, name
    for name in ("ink", "muted"):
        assert contrast(colours[name], colours["raised"]) >= TEXT_CONTRAST, name


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lines_and_marks_stand_out(scheme: str) -> None:
    colours = SCHEMES[scheme]
    for hue in HUES:
        assert contrast(colours[hue], colours["ground"]) >= 3, hue


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("eye", SEEN)
def test_hues_and_the_red_of_violations_can_be_told_apart(scheme: str, eye: str) -> None:
    colours, matrix = SCHEMES[scheme], SEEN[eye]
    least = 30 if eye == "normal" else 7  # 2.3 is just noticeable side by side
    for one, other in combinations([*HUES, "bad"], 2):
        assert distance(colours[one], colours[other], matrix) >= least, f"{one} and {other}"
    # Most figures have few series; those must be plainly different.
    for one, other in combinations([*HUES[:4], "bad"], 2):
        assert distance(colours[one], colours[other], matrix) >= (45 if eye == "normal" else 12), f"{one} and {other}"


def test_plain_rules_keep_what_variables_said() -> None:
    rules = theme.hue_rules() + ".a{fill:var(--hue);stroke:var(--ink)}.b{stroke:var(--bad)}.c{--hue:var(--muted)}"
    plain = theme.without_variables(rules)
    assert "var(" not in plain
    assert f".hue-2 .a,.hue-2.a{{fill:{theme.LIGHT['hue-2']};stroke:{theme.LIGHT['ink']}}}" in plain
    assert f".c .a,.c.a{{fill:{theme.LIGHT['muted']}" in plain
    dark = plain.partition("prefers-color-scheme:dark")[2]
    assert f".b{{stroke:{theme.DARK['bad']}}}" in dark
