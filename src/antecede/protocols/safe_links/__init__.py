"""Causal broadcast without vectors: flooding over FIFO links, of which new ones must become safe first.

process      a node, its links, and the ping phase of a new link
forgetting   the same, with a memory of the messages under way only
options      the overlay, and how often its links change
"""

from antecede.protocols.safe_links.process import SafeLinks

__all__ = ["SafeLinks"]
