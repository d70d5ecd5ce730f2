"""SRPT: one tree for each topic, with a single root."""

from antecede.protocols.srpt.process import Srpt

__all__ = ["Srpt"]
