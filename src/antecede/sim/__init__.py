"""A deterministic simulator for any `core.Process`: the same seed gives the same run, to the byte.

Names are loaded when they are first used: a node with fault injection needs the models of links, not the simulator.
"""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.sim.engine import Simulation
    from antecede.sim.run import RunSpec, simulate

__all__ = ["RunSpec", "Simulation", "simulate"]

__getattr__, __dir__ = lazy_names(__name__, {"engine": ("Simulation",), "run": ("RunSpec", "simulate")})
