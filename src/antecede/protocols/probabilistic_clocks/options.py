"""Options of probabilistic clocks."""

from math import comb
from typing import Annotated, Literal

from msgspec import Meta

from antecede.core import UsageError
from antecede.core.rng import MakeRng
from antecede.protocols.options import PROMISES, Founders, MakeProcess, RngOptions
from antecede.protocols.probabilistic_clocks.process import ENTRIES_MAX, ProbabilisticClocks


class ProbabilisticOptions(RngOptions, frozen=True, kw_only=True):
    """A vector of R entries, K of them for each process. 0 entries: a vector clock, one for each process."""

    #: R and K. The paper's runs have 100 and 4, for 1000 processes.
    entries: Annotated[int, Meta(ge=0, le=ENTRIES_MAX)] = 100
    keys: Annotated[int, Meta(ge=1, le=64)] = 4
    #: How a process gets its entries: drawn at random, as published, or the sets of K entries in turn.
    mapping: Literal["random", "in-turn"] = "random"

    @property
    def exact(self) -> bool:
        """Is this the vector clock?"""
        return not self.entries

    @property
    def promises(self) -> tuple[str, ...]:
        if self.exact:
            return PROMISES
        return tuple([rule for rule in PROMISES if rule not in ("causal", "fifo")])

    def build_groups(self, nodes: int, founders: Founders) -> MakeProcess:
        if self.exact:
            return lambda node: ProbabilisticClocks(node, founders, entries=nodes, keys=(node,))
        self._check()
        if self.mapping == "random":
            return super().build_groups(nodes, founders)
        sets = comb(self.entries, self.keys)
        return lambda node: ProbabilisticClocks(
            node, founders, entries=self.entries, keys=combination(self.entries, self.keys, node % sets)
        )

    def build_with_rng(self, nodes: int, founders: Founders, rng: MakeRng) -> MakeProcess:
        if self.exact or self.mapping != "random":
            return self.build_groups(nodes, founders)
        self._check()
        among = range(self.entries)
        return lambda node: ProbabilisticClocks(
            node, founders, entries=self.entries, keys=sorted(rng(node).sample(among, self.keys))
        )

    def _check(self) -> None:
        if self.keys > self.entries:
            raise UsageError("keys", self.keys, f"there are {self.entries} entries", f"choose 1 … {self.entries}")


def combination(entries: int, keys: int, number: int) -> tuple[int, ...]:
    """The set of `keys` entries with this number, in lexicographic order: the paper's function f."""
    found: list[int] = []
    for entry in range(entries):
        if len(found) == keys:
            break
        with_it = comb(entries - entry - 1, keys - len(found) - 1)
        if number < with_it:
            found.append(entry)
        else:
            number -= with_it
    return tuple(found)
