"""Magnet: Scribe on a ring on which nodes with similar interests are neighbours."""

from antecede.protocols.magnet.positions import Positions, positions

__all__ = ["Positions", "positions"]
