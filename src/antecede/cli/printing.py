"""Makes text from other machines safe to print on a terminal."""

import unicodedata
from typing import Final

#: Format characters that change the direction of text: they can make a line read as another.
_BIDIRECTIONAL: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Escape every character that could control a terminal or break a line; a tab stays.

    An escape sequence in a payload could move the cursor, set the window's title or hide text: `\\x1b[2J` is printed
    as these four letters and digits and clears nothing.
    """
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    if character == "\t" or character.isprintable():
        return character
    harmless = unicodedata.category(character) not in ("Cc", "Zl", "Zp", "Cs") and character not in _BIDIRECTIONAL
    return character if harmless else character.encode("unicode_escape").decode()
