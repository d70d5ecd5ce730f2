"""Writes numbers and names as a page prints them."""

import math
import re
from collections.abc import Sequence
from statistics import median


def decimals(values: Sequence[float]) -> int:
    """The number of decimals for values beside each other: about three significant digits, none for whole numbers."""
    values = [value for value in values if math.isfinite(value)] or [0.0]
    if all(abs(value - round(value)) < 1e-9 for value in values):
        return 0
    size = median(abs(value) for value in values)
    for bound, digits in ((1000, 0), (100, 1), (0.1, 2)):
        if size >= bound:
            return digits
    return 3


def number_in_words(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return "–"
    written = f"{value:,.{digits}f}"
    return "0" if not written.strip("-0.,") and not digits else written.replace("-", "−")


def metric_in_words(metric: str) -> str:
    """`packet_bytes_100_200` as "packet bytes 100–200"."""
    return re.sub(r"(\d) (?=\d)", r"\1–", metric.replace("_", " ")).strip()


def family(metrics: Sequence[str]) -> tuple[str, list[str]]:
    """The common beginning of the names of several metrics, and the rest of each name."""
    words = [metric.split("_") for metric in metrics]
    shared = 0
    if len(metrics) > 1:
        while all(len(one) > shared + 1 for one in words) and len({one[shared] for one in words}) == 1:
            shared += 1
    common = metric_in_words("_".join(words[0][:shared])) if words else ""
    return common, [metric_in_words("_".join(one[shared:])) for one in words]


def capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def count(number: int, what: str, plural: str = "") -> str:
    return f"{number:,} {what if number == 1 else plural or what + 's'}"
