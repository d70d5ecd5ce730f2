"""Baldoni, Bonomi, Platania and Querzoni, "Dynamic Message Ordering for Topic-Based Publish/Subscribe Systems".

MIDLAB technical report 9/2011, Sapienza Università di Roma. Its total notification order is the protocol `tno`.

    figures_9_15    latency, timestamps and buffers under a fixed order of topics
    figures_16_20   an order of topics that adapts to what is published
    figure_21       do two subscribers find the same patterns?
    figures_22_24   a small system beside a fixed sequencer
    changes         ours, not in the paper: a manager that fails, subscriptions that change
    measure         the paper's measures, read off a run (no experiment)
    swaps           the swaps of topics at the paper's size, by calculation (no experiment)
"""

from antecede.experiments.midlab11.changes import CHANGES
from antecede.experiments.midlab11.figure_21 import PATTERNS
from antecede.experiments.midlab11.figures_9_15 import FIXED_ORDER
from antecede.experiments.midlab11.figures_16_20 import ADAPTATION
from antecede.experiments.midlab11.figures_22_24 import PROTOTYPE

MIDLAB11 = (*FIXED_ORDER, *ADAPTATION, *PATTERNS, *PROTOTYPE, *CHANGES)
