"""Reads the stylesheets in `style/`, and gives the colours of `style/theme.css` to code that needs their values."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

#: The number of hues; a ninth series takes the first again.
SERIES: Final = 8


@cache
def stylesheet(*names: str) -> str:
    """The named stylesheets as one text, without comments and line breaks."""
    folder = files("antecede.report").joinpath("style")
    css = "".join(folder.joinpath(f"{name}.css").read_text(encoding="utf-8") for name in names)
    css = re.sub(r"/\*.*?\*/|\n\s*", "", css, flags=re.DOTALL)
    return re.sub(r"\s*([{;])\s*", r"\1", re.sub(r"(--[\w-]+):\s+", r"\1:", css))


def page_style() -> str:
    return stylesheet("theme", "page", "chart", "diagram")


def diagram_style() -> str:
    """The style of a diagram in a file of its own, without CSS variables: many programs that show SVG know none."""
    return without_variables(hue_rules() + stylesheet("diagram"))


def hue(position: int) -> str:
    """The class of the series at `position`, counted from 0."""
    return f"hue-{position % SERIES + 1}"


def hue_rules() -> str:
    """The rules that give each series its hue, for instance `.hue-3{--hue:…;--hue-text:…}`."""
    return "".join(re.findall(r"\.hue-\d\{[^}]*\}", stylesheet("theme")))


def _variables() -> tuple[dict[str, str], dict[str, str]]:
    light, dark = (
        dict(re.findall(r"--([\w-]+):([^;]+);", block))
        for block in re.findall(r":root\{([^}]*)\}", stylesheet("theme"))
    )
    return light, {**light, **dark}


LIGHT, DARK = _variables()


def without_variables(rules: str) -> str:
    """The same rules with plain values, light and dark.

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
        re.sub(r"var\(--([\w-]+)\)", lambda use, values=values: values[use[1]], "".join(plain))  # type: ignore[misc]
        for values in (LIGHT, DARK)
    )
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"
