"""The figures printed in the papers, as data: `published.csv` beside this file."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class PublishedValue(NamedTuple):
    """One printed figure. `nodes` is 0 where the paper does not say."""

    paper: str
    item: str
    scenario: str
    protocol: str
    nodes: int
    metric: str
    value: float
    unit: str


@cache
def published() -> tuple[PublishedValue, ...]:
    text = files("antecede.experiments").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(
        PublishedValue(
            row["paper"],
            row["item"],
            row["scenario"],
            row["protocol"],
            int(row["n"] or 0),
            row["metric"],
            float(row["value"]),
            row["unit"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def published_for(paper: str, item: str) -> dict[tuple[str, int, str], PublishedValue]:
    """The figures of one table or figure, by (protocol, nodes, metric)."""
    return {(row.protocol, row.nodes, row.metric): row for row in published() if (row.paper, row.item) == (paper, item)}
