"""An experiment is a grid of cases, each a few runs at one seed, and the values read off them.

A *case* is what one row of a paper's table needs at one seed: usually the same load with and without the idea under
test. A *setting* is one reading of the paper's text. Where a figure does not follow from the text there are two:
`literal`, the text as written, and `calibrated`, the reading that explains the published figures best (each experiment
says how it was found). Both always stand beside the published value. Nothing is fitted silently.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Required, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec

from antecede.experiments.published import PublishedValue, published_for
from antecede.sim import RunSpec, simulate
from antecede.sim.arrays import pays, simulate_arrays

#: The metrics of `simulate`: numbers, nested records, and histograms as {value: count}.
Metrics: TypeAlias = Mapping[str, Any]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that are measured together."""

    setting: str
    nodes: int
    seed: int
    #: By variant, for instance "causal" and "none".
    runs: dict[str, RunSpec]


class Value(NamedTuple):
    """One measured number, named as in `published.csv`."""

    protocol: str
    nodes: int
    metric: str
    value: float


class Axis(NamedTuple):
    """A horizontal axis whose values stand in the names of metrics: one metric is one point of a line."""

    #: A pattern that finds the value at the end of a metric's name, as its one group.
    pattern: str
    label: str


class Experiment(ABC):
    """A table or figure of a paper."""

    #: As on the command line, for instance "thesis-table-4.1".
    name: str
    #: Paper and item as in `published.csv`, for instance ("thesis", "table-4.1").
    paper: str
    item: str
    title: str
    #: How the settings read the text, and which figures are known not to reproduce.
    about: str
    settings: tuple[str, ...] = ("literal", "calibrated")
    #: Sizes that run in minutes, and those that are left to `--full`.
    sizes: tuple[int, ...]
    full_sizes: tuple[int, ...] = ()
    #: The paper's horizontal axis, if it is not the number of nodes.
    axis: "Axis | None" = None

    def cases(self, seeds: Sequence[int], *, full: bool = False) -> list[Case]:
        return [
            Case(setting=setting, nodes=nodes, seed=seed, runs=self.runs(setting, nodes, seed))
            for setting in self.settings
            for nodes in self.sizes + (self.full_sizes if full else ())
            for seed in seeds
        ]

    @abstractmethod
    def runs(self, setting: str, nodes: int, seed: int) -> dict[str, RunSpec]:
        """The runs of one case, by variant."""

    @abstractmethod
    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        """The values of one case, from the metrics of its runs by variant."""

    def derive(self, values: Sequence[Value]) -> list[Value]:
        """Further values that need several sizes, from all values of one setting and seed."""
        return []

    def published(self) -> dict[tuple[str, int, str], PublishedValue]:
        """The printed values to show beside ours, by (protocol, nodes, metric)."""
        return published_for(self.paper, self.item)

    def execute(self, spec: RunSpec) -> Metrics:
        """Carry out one run. Most experiments need only the simulator's own metrics; large runs take `sim.arrays`."""
        return (simulate_arrays(spec) if pays(spec) else simulate(spec)).metrics


#: Reads values off the metrics of one case: (nodes, metrics by variant) -> values.
Reading: TypeAlias = Callable[[int, Mapping[str, Metrics]], list[Value]]


class Scope(TypedDict, total=False):
    """Further parts of an experiment, named as in `Experiment`."""

    sizes: Required[tuple[int, ...]]
    full_sizes: tuple[int, ...]
    settings: tuple[str, ...]
    axis: Axis


P = TypeVar("P")


class PartsExperiment(Experiment, Generic[P]):
    """An experiment made of given parts: many figures of a paper differ in little else.

    `plan` says what is run; each family of experiments has a type of its own for it.
    """

    def __init__(self, item: str, title: str, about: str, reading: Reading, plan: P, **scope: Unpack[Scope]) -> None:
        self.name = f"{self.paper}-{item}"
        self.item = item
        self.title = title
        self.about = about
        self.sizes = scope["sizes"]
        self.full_sizes = scope.get("full_sizes", ())
        self.settings = scope.get("settings", self.settings)
        self.axis = scope.get("axis")
        self._reading = reading
        self.plan = plan

    def values(self, nodes: int, metrics: Mapping[str, Metrics]) -> list[Value]:
        return self._reading(nodes, metrics)
