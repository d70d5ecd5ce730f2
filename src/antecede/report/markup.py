"""Writes SVG elements as text: escaped once, with numbers always written the same way.

Text becomes `Markup` only through `text` or `tag`, so that mypy and the page's templates know what was escaped. The
output is a function of the arguments alone: attributes stand in the order given, numbers have at most two decimals.
"""

import html
from collections.abc import Iterable
from typing import Final

from markupsafe import Markup

#: SVG elements that are closed at once if they have no content.
_EMPTY: Final = frozenset({"line", "rect", "circle", "path", "polygon", "polyline", "use"})


def text(content: object) -> Markup:
    """Escape plain text."""
    return Markup(html.escape(str(content), quote=False))


def join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def tag(name: str, /, *content: Markup, **attributes: object) -> Markup:
    """Write an element.

    A trailing underscore of an attribute is dropped (`class_`), other underscores become hyphens. None leaves the
    attribute out.
    """
    written = "".join(
        f' {_attribute(key)}="{html.escape(_value(value))}"' for key, value in attributes.items() if value is not None
    )
    if not content and name in _EMPTY:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{''.join(content)}</{name}>")


def number(value: float) -> str:
    """Write at most two decimals, no trailing zeros and never −0: a hundredth of a pixel is enough."""
    written = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if written == "-0" else written


def path(*steps: str | float) -> str:
    """Write the `d` attribute of a path: letters and coordinates."""
    return " ".join(step if isinstance(step, str) else number(step) for step in steps)


def points(*corners: tuple[float, float]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in corners)


def text_width(content: str, size: float) -> float:
    """Estimate how wide a sans-serif font sets the text. Too wide an estimate only places things more loosely."""
    return size * sum(_CHARACTER_WIDTHS.get(character, 0.61) for character in content)


def wrap(content: str, width: float, size: float) -> list[str]:
    """Break the text into lines no wider than `width`; a wider word gets a line of its own."""
    lines: list[str] = []
    for word in content.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


#: Of the wider fonts a system may choose.
_CHARACTER_WIDTHS: Final = {
    **dict.fromkeys("ijl.,:;'|!()[] ", 0.33),
    **dict.fromkeys("frt-/", 0.41),
    **dict.fromkeys("0123456789", 0.64),
    **dict.fromkeys("mwMW@%", 0.95),
    **dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ", 0.7),
}


def _attribute(key: str) -> str:
    # SVG spells one attribute in camel case.
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    return number(value) if isinstance(value, float | int) and not isinstance(value, bool) else str(value)
