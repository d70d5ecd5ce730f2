"""Scenarios as in `tests.protocols.flooding.scenario`, for Plumtree. The generator of node n has the seed n."""

import random
from collections.abc import Collection, Mapping

from antecede.protocols.options import GroupOptions, MakeProcess, RngOptions
from antecede.protocols.registry import options
from tests.protocols.flooding.scenario import FloodingScenario


class _Seeded(GroupOptions, frozen=True, kw_only=True):
    """Options with their generators."""

    chosen: RngOptions

    def build_groups(self, nodes: int, founders: Mapping[str, Collection[int]]) -> MakeProcess:
        return self.chosen.build_with_rng(nodes, founders, random.Random)


class PlumtreeScenario(FloodingScenario):
    """Reads a scenario, runs it, and tells what happened."""

    def chosen(self) -> GroupOptions:
        chosen = options(self.protocol, self.mode)
        assert isinstance(chosen, RngOptions)
        return _Seeded(chosen=chosen)
