"""A deterministic simulator for any `core.Process`: same seed, same trace, to the byte."""

from antecede.sim.engine import Simulation
from antecede.sim.run import RunSpec, simulate

__all__ = ["RunSpec", "Simulation", "simulate"]
