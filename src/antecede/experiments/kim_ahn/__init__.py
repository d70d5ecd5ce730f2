"""Chayoung Kim and Jinho Ahn on gossip with immediate predecessors (after 2012).

The paper is "New Causally Ordered Delivery Protocol Using Information of Immediate Predecessor Messages between Brokers
and Subscribers". Our copy does not say when it appeared; its latest reference is of 2012.

    figures_7_10     gossip steps until a message has reached the subscribers, simulated and calculated
    reliability      ours, in the paper's setting: messages that every subscriber delivers
    bytes            ours: bytes of causal information in a message
    epidemic_model   the paper's calculation of how gossip spreads, which the experiments stand beside (no experiment)
"""

from antecede.experiments.kim_ahn.bytes import LIST_BYTES
from antecede.experiments.kim_ahn.figures_7_10 import SPREADING
from antecede.experiments.kim_ahn.reliability import RELIABILITY

KIM_AHN = (*SPREADING, *RELIABILITY, *LIST_BYTES)
