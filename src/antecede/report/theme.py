"""Colours, light and dark, in one place: the page, its figures and a diagram that stands alone use the same names.

Eight hues tell series apart. They keep their distance from each other for the common kinds of colour blindness, stand
out from either background by at least 3:1, and none is near the red that is reserved for violations. Colour is never
the only sign: series also differ in marker, violations in ring and label.
"""

from typing import Final

SERIES: Final = 8

LIGHT: Final[dict[str, str]] = {
    "ground": "#fdfcfa",
    "raised": "#f5f3ee",
    "ink": "#1c2127",
    "muted": "#59626c",
    "rule": "#dedbd3",
    "accent": "#1a5a9e",
    "good": "#0b7a55",
    "warn": "#96640a",
    "bad": "#c0142f",
    "held": "#d99a1c",
    "hue-1": "#1f6fb4",
    "hue-2": "#bb6a0a",
    "hue-3": "#00826c",
    "hue-4": "#8d4fb3",
    "hue-5": "#37437f",
    "hue-6": "#7c7a14",
    "hue-7": "#85604b",
    "hue-8": "#64727f",
}

DARK: Final[dict[str, str]] = {
    "ground": "#14171b",
    "raised": "#1d2127",
    "ink": "#e8e6e1",
    "muted": "#a2abb5",
    "rule": "#343a42",
    "accent": "#7db8f2",
    "good": "#4fcf9f",
    "warn": "#e5b454",
    "bad": "#ff7183",
    "held": "#d9a032",
    "hue-1": "#5fb0f5",
    "hue-2": "#f2a341",
    "hue-3": "#36c9a7",
    "hue-4": "#cb9af0",
    "hue-5": "#8f9cf2",
    "hue-6": "#cdc84c",
    "hue-7": "#cda68d",
    "hue-8": "#a7b5c3",
}

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"


def variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def root_style(selector: str) -> str:
    """The colours as CSS variables on `selector`, following the reader's preference; paper is always light."""
    light, dark = variables(LIGHT), variables(DARK)
    return (
        f"{selector}{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
    )


def hue(position: int) -> str:
    """The class of the `position`-th series, counted from 0."""
    return f"hue-{position % SERIES + 1}"


def hue_rules() -> str:
    """`.hue-3` sets `--hue`, which strokes and fills then use."""
    return "".join(f".hue-{position}{{--hue:var(--hue-{position})}}" for position in range(1, SERIES + 1))
