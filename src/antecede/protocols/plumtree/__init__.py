"""Plumtree over HyParView (Leitão et al. 2007): a broadcast tree with lazy repair, on views that mend themselves.

packets    what nodes send to each other
records    what a node keeps across a crash
views      HyParView: the active and the passive view of a topic
tree       Plumtree: eager push along a tree, lazy announcements on the other links, grafts and prunes
thicket    Thicket: several such trees, so that each node forwards in few
order      delivery at once, or in causal order behind a gate
process    a node: a tree for each topic it takes
options    sizes of the views, timers, and whether messages are ordered
"""

from antecede.protocols.plumtree.process import PlumtreeNode

__all__ = ["PlumtreeNode"]
