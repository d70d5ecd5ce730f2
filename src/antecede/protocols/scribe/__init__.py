"""Scribe: publish/subscribe on a Pastry ring."""

from antecede.protocols.scribe.process import Scribe

__all__ = ["Scribe"]
