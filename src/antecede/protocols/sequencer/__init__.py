"""A fixed sequencer: one node numbers every message."""

from antecede.protocols.sequencer.process import Sequencer

__all__ = ["Sequencer"]
