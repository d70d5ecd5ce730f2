"""A deterministic simulator for any `core.Process`: the same seed gives the same trace, byte for byte."""

from typing import TYPE_CHECKING

from antecede.loading import lazy_names

if TYPE_CHECKING:
    from antecede.sim.engine import Simulation
    from antecede.sim.run import RunSpec, simulate

__all__ = ["RunSpec", "Simulation", "simulate"]

__getattr__, __dir__ = lazy_names(__name__, {"engine": ("Simulation",), "run": ("RunSpec", "simulate")})
