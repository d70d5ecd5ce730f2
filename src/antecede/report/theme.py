"""Colours, light and dark, in one place: the page, its figures and a diagram that stands alone use the same names.

Eight hues tell series apart. They differ in lightness as well, keep their distance from each other and from the red of
violations under the common kinds of colour blindness, and stand out from either background by at least 3:1; text in a
hue is mixed with ink until it reaches 4.5:1. A test measures all of it. Colour is never the only sign: series also
differ in marker, violations in ring and label.
"""

import re
from typing import Final

SERIES: Final = 8

_LIGHT: Final[dict[str, str]] = {
    "ground": "#fdfcfa",
    "raised": "#f5f3ee",
    "ink": "#1c2127",
    "muted": "#59626c",
    "rule": "#dedbd3",
    "accent": "#1a5a9e",
    "good": "#0b7a55",
    "warn": "#8f5f08",
    "bad": "#c8102e",
    "held": "#d99a1c",
    "hue-1": "#2a86d1",
    "hue-2": "#cf7a00",
    "hue-3": "#006b52",
    "hue-4": "#c763a6",
    "hue-5": "#2e2a75",
    "hue-6": "#6c7c00",
    "hue-7": "#503018",
    "hue-8": "#737b86",
}

_DARK: Final[dict[str, str]] = {
    "ground": "#14171b",
    "raised": "#1d2127",
    "ink": "#e8e6e1",
    "muted": "#a2abb5",
    "rule": "#343a42",
    "accent": "#7db8f2",
    "good": "#4fcf9f",
    "warn": "#e5b454",
    "bad": "#ff6470",
    "held": "#d9a032",
    "hue-1": "#3f9df0",
    "hue-2": "#ffab30",
    "hue-3": "#25b58c",
    "hue-4": "#f0a6d8",
    "hue-5": "#7076f0",
    "hue-6": "#e6e67c",
    "hue-7": "#a5713f",
    "hue-8": "#8fa3b3",
}

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"

TEXT_CONTRAST: Final = 4.5


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _mixed(one: str, other: str, share: float) -> str:
    pairs = ((int(one[place : place + 2], 16), int(other[place : place + 2], 16)) for place in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _with_text(colours: dict[str, str]) -> dict[str, str]:
    """Adds a readable variant of each hue."""
    found = dict(colours)
    for position in range(1, SERIES + 1):
        hue, share = colours[f"hue-{position}"], 0.0
        while contrast(text := _mixed(hue, colours["ink"], share), colours["ground"]) < TEXT_CONTRAST:
            share += 0.05
        found[f"hue-{position}-text"] = text
    return found


LIGHT: Final = _with_text(_LIGHT)
DARK: Final = _with_text(_DARK)


def root_style(selector: str) -> str:
    """The colours as CSS variables on `selector`, following the reader's preference; paper is always light."""
    light, dark = ("".join(f"--{name}:{value};" for name, value in colours.items()) for colours in (LIGHT, DARK))
    return (
        f"{selector}{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
    )


def hue(position: int) -> str:
    """The class of the `position`-th series, counted from 0."""
    return f"hue-{position % SERIES + 1}"


def hue_rules() -> str:
    """`.hue-3` sets `--hue`, which strokes and fills then use, and `--hue-text` for text."""
    return "".join(
        f".hue-{position}{{--hue:var(--hue-{position});--hue-text:var(--hue-{position}-text)}}"
        for position in range(1, SERIES + 1)
    )


def without_variables(rules: str) -> str:
    """The same rules with plain colours, for programs that show SVG but know no CSS variables.

    A rule that sets `--hue` for what is inside it (`.hue-3{--hue:…}`) is multiplied out with the rules that use it.
    """
    found = re.findall(r"([^{}]+)\{([^{}]*)\}", rules)
    contexts = {selector: body for selector, body in found if "--hue:" in body}
    plain = []
    for selector, body in found:
        if selector in contexts:
            continue
        if "var(--hue" not in body:
            plain.append(f"{selector}{{{body}}}")
            continue
        for context, sets in contexts.items():
            values = dict(re.findall(r"--(hue(?:-text)?):([^;}]+)", sets))
            told = re.sub(r"var\(--(hue(?:-text)?)\)", lambda use, values=values: values.get(use[1], ""), body)  # type: ignore[misc]
            both = ",".join(f"{context} {one},{context}{one}" for one in selector.split(","))
            plain.append(f"{both}{{{told}}}")
    light, dark = (
        re.sub(r"var\(--([\w-]+)\)", lambda use, colours=colours: colours[use[1]], "".join(plain))  # type: ignore[misc]
        for colours in (LIGHT, DARK)
    )
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"
