"""DRScribe: Scribe whose joins go through subscribers where they can."""

from antecede.protocols.drscribe.process import DRScribe

__all__ = ["DRScribe"]
