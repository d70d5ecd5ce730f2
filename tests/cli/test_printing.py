"""Text of other machines cannot control the terminal it is printed on."""

import pytest

from antecede.cli.printing import printable


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("hello, wörld ☕ 👨‍👩‍👧", "hello, wörld ☕ 👨‍👩‍👧"),
        ("a\tb", "a\tb"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("one\ntwo\rthree", r"one\ntwo\rthree"),
        ("a\x00b\x7f", r"a\x00b\x7f"),
        ("a\u2028b", r"a\u2028b"),
        ("\u202eevil", r"\u202eevil"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, printed: str) -> None:
    assert printable(text) == printed
