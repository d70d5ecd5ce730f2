"""Válter Santos, "Localized Reliable Causal Multicast" (extended abstract of the MSc dissertation, IST Lisbon, 2019).

figure_4      throughput beside Delta-Neighbourhood, and how throughput is measured
figures_5_6   throughput and metadata beside CBCAST and Causal Barriers
figure_7      metadata of a message and memory of a node at worst; also the numbers of section VI
crash         ours, not in the paper: throughput while a relay is down
"""

from antecede.experiments.locamu.crash import CRASH
from antecede.experiments.locamu.figure_4 import BESIDE_DELTA
from antecede.experiments.locamu.figure_7 import METADATA
from antecede.experiments.locamu.figures_5_6 import BESIDE_CAUSAL

LOCAMU = (*BESIDE_DELTA, *BESIDE_CAUSAL, *METADATA, *CRASH)
