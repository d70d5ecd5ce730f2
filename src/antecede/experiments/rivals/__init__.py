"""Rivals: systems that the papers survey or compare with, measured on our networks. The papers print no such figures.

probabilistic_clocks   violations of causal order against the size of the vector, its keys, and the load
bundling               packets and latency of four ways to bundle messages, by load
thicket                how evenly nodes forward with one tree, and with several
plumtree               Plumtree over HyParView beside gossip: copies, latency, repair
comparison             every causal protocol under the same loads
total                  every protocol with total order under the same loads
costs, state           what is measured in these (no experiments)
"""

from antecede.experiments.rivals.bundling import BUNDLING
from antecede.experiments.rivals.comparison import COMPARISON
from antecede.experiments.rivals.delta_causal import DEADLINES
from antecede.experiments.rivals.plumtree import PLUMTREE
from antecede.experiments.rivals.probabilistic_clocks import CLOCKS
from antecede.experiments.rivals.thicket import THICKET
from antecede.experiments.rivals.total import TOTAL_COMPARISON

RIVALS = (*COMPARISON, *TOTAL_COMPARISON, *PLUMTREE, *THICKET, *BUNDLING, *CLOCKS, *DEADLINES)
